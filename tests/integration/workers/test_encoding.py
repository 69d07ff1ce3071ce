import io
import json
import shutil
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sqlalchemy import delete, func, select, update
from tokenizers import normalizers
from transformers import AutoModel, AutoTokenizer

from app.db import job_kinds
from app.db.encoding import EncodingConfig
from app.db.job_kinds import Job
from app.db.models import (
    Embedding,
    EmbeddingFile,
    EmbeddingOrigin,
    EmbeddingStatus,
    Encoding,
    EncodingStatus,
    Measurement,
    Pooling,
    StoredFile,
)
from app.storage import open_storage
from app.storage.storage import FolderStorage
from isoscope.core.errors import UnavailableError
from tests.tiny import make_tokenizer
from tests.waiting import wait_for
from workers import files, models
from workers.embeddings import encoder, encoding
from workers.embeddings.encoding import encode_texts
from workers.embeddings.measure import inspect_embedding, measure_embedding
from workers.models import max_input_length

TEXTS = [
    "the film", "a very good plot and a great cast", "", "so dull", "the plot was bad and the cast was dull", "good",
]  # fmt: skip
LABELS = ["x", "good", "bad", "bad", "bad", "good"]
FULL = [0, 1, 3, 4, 5]
ROWS = "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))


def read(settings, embedding):
    return np.load(io.BytesIO(open_storage(settings).local_path(embedding.files[0].file_sha256).read_bytes()))


def encode_individually(folder: Path, rows, max_length=64):
    """Return vectors by (layer, pooling), encoding each text alone: no batch, no padding, no custom mask."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    vectors = {}
    for row in rows:
        tokens = tokenizer(*row, return_tensors="pt", truncation=True, max_length=max_length)
        inputs = {"input_ids": tokens["input_ids"]}
        if "token_type_ids" in tokens and model.config.model_type == "bert":
            inputs["token_type_ids"] = tokens["token_type_ids"]
        with torch.no_grad():
            states = model(**inputs, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            for pooling, vector in (("first", state[0, 0]), ("mean", state[0].mean(0)), ("last", state[0, -1])):
                vectors.setdefault((layer, Pooling(pooling)), []).append(vector.numpy())
    return {key: np.stack(rows) for key, rows in vectors.items()}


def assert_vectors(settings, layers, expected):
    for key, embedding in layers.items():
        np.testing.assert_allclose(read(settings, embedding), expected[key], rtol=1e-5, atol=1e-6)
    return layers


@pytest.fixture
def make_encoding(sessions, store):
    def make_encoding(content=ROWS, filename="rows.tsv", **changes):
        config = {"model": "tiny-bert", "text_columns": ["sentence"], "poolings": ["first", "mean", "last"], **changes}
        encoding = Encoding(
            name="reviews", filename=filename, file_sha256=store(content.encode()), n_texts=6, columns=[],
            config=EncodingConfig.model_validate(config).model_dump(mode="json"), status=EncodingStatus.QUEUED,
        )  # fmt: skip
        with sessions.begin() as session:
            session.add(encoding)
        return encoding.id

    return make_encoding


@pytest.fixture
def get_encoding(get_row):
    return partial(get_row, Encoding)


@pytest.fixture
def layers_of(sessions):
    def layers_of(encoding_id):
        with sessions() as session:
            layers = session.scalars(select(Embedding).where(Embedding.encoding_id == encoding_id))
            return {(layer.layer, layer.pooling): layer for layer in layers}

    return layers_of


@pytest.fixture
def error_of(settings, get_encoding, layers_of):
    def error_of(encoding_id):
        assert encode_texts(encoding_id, settings, "cpu") == ()
        encoding = get_encoding(encoding_id)
        assert encoding.status is EncodingStatus.FAILED
        assert encoding.finished_at is not None
        assert layers_of(encoding_id) == {}
        return encoding.error

    return error_of


@pytest.fixture
def save_model(copy_model):
    def save_model(name, model):
        folder = copy_model(name)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder)
        return folder

    return save_model


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-distilbert", "tiny-gpt2"])
def test_vector_does_not_depend_on_other_texts_in_batch(
    settings, sessions, models_dir, make_encoding, layers_of, model
):
    encoding_id = make_encoding(model=model, batch_size=2)
    jobs = encode_texts(encoding_id, settings, "cpu")
    expected = encode_individually(models_dir / model, [(TEXTS[i],) for i in FULL])
    layers = assert_vectors(settings, layers_of(encoding_id), expected)
    assert set(layers) == set(expected) == {(layer, pooling) for layer in (0, 1, 2) for pooling in Pooling}
    assert set(jobs) == {Job(job_kinds.INSPECT, layer_embedding.id) for layer_embedding in layers.values()}
    assert {(read(settings, embedding).dtype, read(settings, embedding).shape) for embedding in layers.values()} == {
        (np.dtype(np.float32), (5, 16))
    }
    names = {embedding.files[1].file_sha256 for embedding in layers.values()}
    assert len(names) == 1, "the files of all layers share one file of names"
    lines = open_storage(settings).local_path(names.pop()).read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [TEXTS[i] for i in FULL]
    with sessions() as session:
        assert set(session.scalars(select(StoredFile.sha256))) == {path.name for path in settings.files.iterdir()}


def test_pairs_and_long_texts_are_truncated_like_the_model(settings, models_dir, make_encoding, layers_of):
    texts = [("the film", "a good plot " * 9), ("very dull " * 30, "so bad"), ("good", "bad")]
    content = "a\tb\n" + "".join(f"{a}\t{b}\n" for a, b in texts)
    encoding_id = make_encoding(content, text_columns=["a", "b"], max_length=20, layers=[2])
    encode_texts(encoding_id, settings, "cpu")
    expected = encode_individually(models_dir / "tiny-bert", texts, max_length=20)
    assert len(assert_vectors(settings, layers_of(encoding_id), expected)) == 3


@pytest.mark.parametrize("source", ["tiny-bert", "tiny-gpt2"])
def test_left_padding_gives_the_same_vectors(settings, copy_model, make_encoding, layers_of, source):
    folder = copy_model("left", source)
    provenance = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(provenance | {"padding_side": "left"}))
    assert AutoTokenizer.from_pretrained(folder).padding_side == "left"
    encoding_id = make_encoding(model="left")
    encode_texts(encoding_id, settings, "cpu")
    expected = encode_individually(folder, [(TEXTS[i],) for i in FULL])
    assert_vectors(settings, layers_of(encoding_id), expected)


def test_layers_are_measured_with_names_and_labels(settings, sessions, make_encoding, get_encoding, layers_of):
    encoding_id = make_encoding(label_column="label", layers=[1], poolings=["mean"])
    (inspect,) = encode_texts(encoding_id, settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.done, encoding.total, encoding.error) == (EncodingStatus.FINISHED, 5, 5, None)
    assert encoding.started_at <= encoding.finished_at
    assert encoding.environment["texts"] == {"n": 5, "n_empty": 1}
    assert encoding.environment["model"]["layers"] == 2
    assert encoding.environment["batch_size"] == 32
    assert list(encoding.environment["model"]["weights_sha256"]) == ["model.safetensors"]

    ((measure),) = inspect_embedding(inspect.row_id, settings, "cpu")
    assert measure == Job(job_kinds.MEASURE, inspect.row_id)
    embedding = layers_of(encoding_id)[1, Pooling.MEAN]
    assert embedding.status is EmbeddingStatus.MEASURING
    assert (embedding.name, embedding.origin) == ("reviews · tiny-bert · layer 1, mean", EmbeddingOrigin.ENCODED)
    assert (embedding.n, embedding.d) == (5, 16)
    first, *_ = embedding.inspection["preview"]
    assert (first["name"], first["label"]) == ("the film", "x")
    expected = {"model": "tiny-bert", "texts": "reviews", "layer": 1, "pooling": "mean", "max_length": 64, "seed": 0}
    assert {key: embedding.provenance[key] for key in expected} == expected
    measure_embedding(measure.row_id, settings, "cpu")
    with sessions() as session:
        silhouette = session.get(Measurement, (embedding.id, "silhouette"))
        assert (silhouette.n, silhouette.value is not None) == (5, True)


def test_final_or_deleted_encoding_is_left_alone(settings, sessions, make_encoding, get_encoding, layers_of):
    encoding_id = make_encoding()
    with sessions.begin() as session:
        session.get(Encoding, encoding_id).status = EncodingStatus.CANCELLED
    assert encode_texts(encoding_id, settings, "cpu") == ()
    assert encode_texts("no such encoding", settings, "cpu") == ()
    assert (get_encoding(encoding_id).started_at, layers_of(encoding_id)) == (None, {})


@pytest.mark.parametrize("stop", ["cancel", "delete", "restart"])
def test_cancelled_or_replaced_encoding_stops_and_leaves_no_file(
    settings, sessions, make_encoding, get_encoding, layers_of, stop, monkeypatch
):
    batch_gate, real = threading.Semaphore(1), models.pool

    def pool(*arguments):
        batch_gate.acquire(timeout=30)
        batch_gate.release()
        return real(*arguments)

    monkeypatch.setattr(encoder, "pool", pool)
    monkeypatch.setattr("workers.job_rows.SECONDS_BETWEEN_WRITES", 0)
    encoding_id = make_encoding(batch_size=1)
    before = set(settings.files.iterdir())
    batch_gate.acquire()
    worker = threading.Thread(target=encode_texts, args=(encoding_id, settings, "cpu"), daemon=True)
    worker.start()
    wait_for(lambda: get_encoding(encoding_id).environment is not None)
    with sessions.begin() as session:
        mine = Encoding.id == encoding_id
        if stop == "delete":
            session.execute(delete(Encoding).where(mine))
        elif stop == "cancel":
            session.execute(update(Encoding).where(mine).values(status=EncodingStatus.CANCELLED))
        else:
            session.execute(update(Encoding).where(mine).values(status=EncodingStatus.QUEUED, started_at=None))
    batch_gate.release()
    worker.join(timeout=30)
    assert not worker.is_alive()
    assert layers_of(encoding_id) == {}
    assert set(settings.files.iterdir()) == before
    states = {"cancel": EncodingStatus.CANCELLED, "delete": None, "restart": EncodingStatus.QUEUED}
    assert getattr(get_encoding(encoding_id), "status", None) is states[stop]


def test_encoding_cancelled_at_the_end_leaves_nothing(
    settings, sessions, make_encoding, get_encoding, layers_of, monkeypatch
):
    encoding_id = make_encoding()
    before = set(settings.files.iterdir())
    calls = []

    def make_npy(*arguments):
        calls.append(arguments)
        if len(calls) == 9:
            with sessions.begin() as session:
                session.get(Encoding, encoding_id).status = EncodingStatus.CANCELLED
        return files.make_npy(*arguments)

    monkeypatch.setattr(encoding, "make_npy", make_npy)
    assert encode_texts(encoding_id, settings, "cpu") == ()
    assert get_encoding(encoding_id).status is EncodingStatus.CANCELLED
    assert layers_of(encoding_id) == {}
    assert set(settings.files.iterdir()) == before
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(EmbeddingFile)) == 0


def test_short_storage_outage_does_not_fail_encoding(settings, make_encoding, get_encoding, layers_of, monkeypatch):
    monkeypatch.setattr(files, "RETRY_PAUSES_SECONDS", (0,))
    write, written = FolderStorage.write, []

    def fail_at_fourth_write(self, *arguments):
        written.append(arguments)
        if len(written) == 4:
            raise UnavailableError("The storage of files cannot be reached at the moment.")
        return write(self, *arguments)

    monkeypatch.setattr(FolderStorage, "write", fail_at_fourth_write)
    encode_texts(encoding_id := make_encoding(), settings, "cpu")
    assert get_encoding(encoding_id).status is EncodingStatus.FINISHED
    assert len(layers_of(encoding_id)) == 9


@pytest.mark.parametrize("step", ["_forward", "pool"])
def test_batch_is_halved_once_if_memory_runs_out(settings, make_encoding, get_encoding, error_of, monkeypatch, step):
    where, position = (encoder, 0) if step == "pool" else (encoder.Encoder, 2)
    real = getattr(where, step)

    def limit_batches(largest):
        def limited(*arguments):
            if len(arguments[position]) > largest:
                raise torch.OutOfMemoryError("CUDA")
            return real(*arguments)

        monkeypatch.setattr(where, step, limited)

    limit_batches(2)
    encode_texts(encoding_id := make_encoding(batch_size=4), settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.environment["batch_size"]) == (EncodingStatus.FINISHED, 2)
    limit_batches(1)
    assert "There was not enough memory. Take fewer rows" in error_of(make_encoding(batch_size=4))


def test_unusable_models_are_refused(make_encoding, error_of, copy_model, models_dir):
    transformers.T5Model(
        transformers.T5Config(vocab_size=18, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    ).save_pretrained(copy_model("both"))
    assert "which encoder-decoder models do not" in error_of(make_encoding(model="both"))

    deeper = transformers.BertConfig.from_pretrained(copy_model("shallow"))
    deeper.num_hidden_layers = 3
    deeper.save_pretrained(models_dir / "shallow")
    sentence = error_of(make_encoding(model="shallow"))
    assert "The files of 'shallow' lack 16 of its weights, such as encoder.layer.2.attention" in sentence

    (copy_model("strange") / "config.json").write_text('{"model_type": "strange"}')
    assert "The model 'strange' cannot be loaded to encode texts: " in error_of(make_encoding(model="strange"))

    broken = transformers.BertModel(transformers.BertConfig.from_pretrained(copy_model("broken")))
    torch.nn.init.constant_(broken.encoder.layer[1].output.dense.weight, float("nan"))
    broken.save_pretrained(models_dir / "broken")
    make_tokenizer().save_pretrained(models_dir / "broken")
    assert "'broken' gives NaN or infinity for row 5 at layer 2" in error_of(make_encoding(model="broken"))


def test_missing_layers_columns_or_disk_space_are_reported(make_encoding, error_of, monkeypatch, settings):
    assert "'tiny-bert' has layers 0 to 2, got 3." in error_of(make_encoding(layers=[1, 3]))
    assert "has no column 'headline'" in error_of(make_encoding(text_columns=["headline"]))
    monkeypatch.setattr("app.db.encoding.MAX_EMBEDDINGS", 2)
    assert "Expected at most 2 embeddings" in error_of(make_encoding())
    monkeypatch.undo()
    monkeypatch.setattr(encoder.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert "The disk of this worker has 0.0 GB left" in error_of(make_encoding())


def test_longest_text_fits_positions_after_padding_offset(settings, make_encoding, get_encoding, layers_of, save_model):
    config = transformers.RobertaConfig(
        vocab_size=18, pad_token_id=1, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=34,
    )  # fmt: skip
    folder = save_model("roberta", transformers.RobertaModel(config))
    encoding_id = make_encoding(f"sentence\n{'good ' * 50}\nbad\n", "rows.csv", model="roberta", layers=[1])
    encode_texts(encoding_id, settings, "cpu")
    assert get_encoding(encoding_id).error is None
    assert get_encoding(encoding_id).environment["max_length"] == 32
    expected = encode_individually(folder, [("good " * 50,), ("bad",)], max_length=32)
    assert assert_vectors(settings, layers_of(encoding_id), expected)


def test_model_without_position_limit_takes_requested_length():
    config = transformers.XLNetConfig(vocab_size=18, d_model=16, n_layer=1, n_head=2, d_inner=32)
    assert max_input_length(transformers.XLNetModel(config), make_tokenizer(), 20) == 20


def test_model_without_mask_is_pooled_without_padding(settings, make_encoding, get_encoding, layers_of, save_model):
    config = transformers.FNetConfig(
        vocab_size=18, hidden_size=16, num_hidden_layers=1, intermediate_size=32, pad_token_id=0
    )
    folder = save_model("unmasked", transformers.FNetModel(config))
    encoding_id = make_encoding(model="unmasked", batch_size=1)
    encode_texts(encoding_id, settings, "cpu")
    assert get_encoding(encoding_id).error is None
    expected = encode_individually(folder, [(TEXTS[i],) for i in FULL])
    assert assert_vectors(settings, layers_of(encoding_id), expected)


def test_text_without_token_is_named_by_its_row(make_encoding, error_of, copy_model):
    folder = copy_model("bare")
    words = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    words.post_processor = None
    words.normalizer = normalizers.Replace("dull", "")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
        folder
    )
    content = "sentence\nthe film\ndull\n"
    assert "Row 2 has no token that 'bare' knows" in error_of(make_encoding(content, "rows.csv", model="bare"))
