"""Texts through tiny models by the real worker function, and what cannot be encoded as a sentence in its row."""

import io
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from sqlalchemy import delete, func, select, update
from tokenizers import normalizers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    FNetConfig,
    FNetModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
    XLNetConfig,
    XLNetModel,
)

from app.db.encoding import EncodingConfig
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
from app.queue import Job, JobKind
from app.storage import open_storage
from app.storage.folder import FolderStorage
from isoscope.core.errors import UnavailableError
from tests.tiny import make_tokenizer
from tests.waiting import wait_for
from workers import files, generated
from workers.encode import forward, vectors
from workers.encode import publish as publishing
from workers.encode.job import encode_texts
from workers.inspection import inspect_embedding
from workers.measure import measure_embedding
from workers.models import longest_input

TEXTS = [
    "the film",
    "a very good plot and a great cast",
    "",
    "so dull",
    "the plot was bad and the cast was dull",
    "good",
]
LABELS = ["x", "good", "bad", "bad", "bad", "good"]
FULL = [0, 1, 3, 4, 5]
ROWS = "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))


@pytest.fixture
def make_encoding(sessions, store):
    """Write the row of a launched encoding; keywords change its configuration. Returns its id."""

    def make_encoding(content=ROWS, filename="rows.tsv", **changes):
        config = {"model": "tiny-bert", "text_columns": ["sentence"], "poolings": ["first", "mean", "last"], **changes}
        encoding = Encoding(
            name="reviews",
            filename=filename,
            file_sha256=store(content.encode()),
            n_texts=6,
            columns=[],
            config=EncodingConfig.model_validate(config).model_dump(mode="json"),
            status=EncodingStatus.QUEUED,
        )
        with sessions.begin() as session:
            session.add(encoding)
        return encoding.id

    return make_encoding


@pytest.fixture
def get_encoding(sessions):
    def get_encoding(encoding_id):
        with sessions() as session:
            return session.get(Encoding, encoding_id)

    return get_encoding


@pytest.fixture
def layers_of(sessions):
    """The embeddings of an encoding by layer and pooling."""

    def layers_of(encoding_id):
        with sessions() as session:
            found = session.scalars(select(Embedding).where(Embedding.encoding_id == encoding_id))
            return {(one.layer, one.pooling): one for one in found}

    return layers_of


@pytest.fixture
def error_of(settings, get_encoding, layers_of):
    """Run the job and return the sentence with which the encoding failed."""

    def error_of(encoding_id):
        assert encode_texts(encoding_id, settings, "cpu") == ()
        encoding = get_encoding(encoding_id)
        assert encoding.status is EncodingStatus.FAILED
        assert encoding.finished_at is not None
        assert layers_of(encoding_id) == {}
        return encoding.error

    return error_of


@pytest.fixture
def copied(models_dir):
    """Copy a tiny model under another name, to be spoilt."""
    folders = []

    def copied(name, of="tiny-bert"):
        folders.append(models_dir / name)
        shutil.copytree(models_dir / of, folders[-1])
        return folders[-1]

    yield copied
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def saved(copied):
    """Save a tiny model of another kind, with the tokenizer of the others."""

    def saved(name, model):
        folder = copied(name)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder)
        return folder

    return saved


def read(settings, embedding):
    return np.load(io.BytesIO(open_storage(settings).local(embedding.files[0].file_sha256).read_bytes()))


def one_at_a_time(folder: Path, rows, max_length=64):
    """Vectors by place as transformers makes them of each text alone: no batch, no padding, no mask of ours."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found = {}
    for row in rows:
        tokens = tokenizer(*row, return_tensors="pt", truncation=True, max_length=max_length)
        taken = {"input_ids": tokens["input_ids"]}
        if "token_type_ids" in tokens and model.config.model_type == "bert":
            taken["token_type_ids"] = tokens["token_type_ids"]
        with torch.no_grad():
            states = model(**taken, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            for pooling, vector in (("first", state[0, 0]), ("mean", state[0].mean(0)), ("last", state[0, -1])):
                found.setdefault((layer, Pooling(pooling)), []).append(vector.numpy())
    return {place: np.stack(rows) for place, rows in found.items()}


@pytest.mark.one_database
@pytest.mark.parametrize("model", ["tiny-bert", "tiny-distilbert", "tiny-gpt2"])
def test_every_vector_is_that_of_its_text_alone(settings, models_dir, make_encoding, layers_of, model):
    encoding_id = make_encoding(model=model, batch_size=2)
    jobs = encode_texts(encoding_id, settings, "cpu")
    expected = one_at_a_time(models_dir / model, [(TEXTS[i],) for i in FULL])
    layers = layers_of(encoding_id)
    assert set(layers) == set(expected) == {(layer, pooling) for layer in (0, 1, 2) for pooling in Pooling}
    assert set(jobs) == {Job(JobKind.INSPECT, one.id) for one in layers.values()}
    for place, embedding in layers.items():
        x = read(settings, embedding)
        assert (x.dtype, x.shape) == (np.float32, (5, 16))
        np.testing.assert_allclose(x, expected[place], rtol=1e-5, atol=1e-6)


@pytest.mark.one_database
def test_pairs_and_long_texts_are_read_as_the_model_reads_them(settings, models_dir, make_encoding, layers_of):
    texts = [("the film", "a good plot " * 9), ("very dull " * 30, "so bad"), ("good", "bad")]
    content = "a\tb\n" + "".join(f"{a}\t{b}\n" for a, b in texts)
    encoding_id = make_encoding(content, text_columns=["a", "b"], max_length=20, layers=[2])
    encode_texts(encoding_id, settings, "cpu")
    expected = one_at_a_time(models_dir / "tiny-bert", texts, max_length=20)
    layers = layers_of(encoding_id)
    assert len(layers) == 3
    for place, embedding in layers.items():
        np.testing.assert_allclose(read(settings, embedding), expected[place], rtol=1e-5, atol=1e-6)


@pytest.mark.one_database
@pytest.mark.parametrize("of", ["tiny-bert", "tiny-gpt2"])
def test_a_tokenizer_that_pads_on_the_left_makes_no_difference(settings, copied, make_encoding, layers_of, of):
    folder = copied("left", of)
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(told | {"padding_side": "left"}))
    assert AutoTokenizer.from_pretrained(folder).padding_side == "left"
    encoding_id = make_encoding(model="left")
    encode_texts(encoding_id, settings, "cpu")
    expected = one_at_a_time(folder, [(TEXTS[i],) for i in FULL])
    for place, embedding in layers_of(encoding_id).items():
        np.testing.assert_allclose(read(settings, embedding), expected[place], rtol=1e-5, atol=1e-6)


def test_layers_are_inspected_and_measured_with_the_names_and_labels_of_their_texts(
    settings, sessions, make_encoding, get_encoding, layers_of
):
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
    assert measure == Job(JobKind.MEASURE, inspect.row_id)
    embedding = layers_of(encoding_id)[1, Pooling.MEAN]
    assert embedding.status is EmbeddingStatus.MEASURING
    assert (embedding.name, embedding.origin) == ("reviews · tiny-bert · layer 1, mean", EmbeddingOrigin.ENCODED)
    assert (embedding.n, embedding.d) == (5, 16)
    first, *_ = embedding.inspection["preview"]
    assert (first["name"], first["label"]) == ("the film", "x")
    told = {key: embedding.provenance[key] for key in ("model", "texts", "layer", "pooling", "max_length", "seed")}
    assert told == {
        "model": "tiny-bert", "texts": "reviews", "layer": 1, "pooling": "mean", "max_length": 64, "seed": 0,
    }  # fmt: skip
    measure_embedding(measure.row_id, settings, "cpu")
    with sessions() as session:
        silhouette = session.get(Measurement, (embedding.id, "silhouette"))
        assert (silhouette.n, silhouette.value is not None) == (5, True)


def test_the_files_of_all_layers_share_one_file_of_names(settings, sessions, make_encoding, layers_of):
    encoding_id = make_encoding()
    encode_texts(encoding_id, settings, "cpu")
    names = {one.files[1].file_sha256 for one in layers_of(encoding_id).values()}
    assert len(names) == 1
    lines = open_storage(settings).local(names.pop()).read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == [TEXTS[i] for i in FULL]
    with sessions() as session:
        rows = set(session.scalars(select(StoredFile.sha256)))
        assert rows == {path.name for path in settings.files.iterdir()}


def test_an_encoding_that_is_final_or_gone_is_left_alone(settings, sessions, make_encoding, get_encoding, layers_of):
    encoding_id = make_encoding()
    with sessions.begin() as session:
        session.get(Encoding, encoding_id).status = EncodingStatus.CANCELLED
    assert encode_texts(encoding_id, settings, "cpu") == ()
    assert encode_texts("no such encoding", settings, "cpu") == ()
    assert (get_encoding(encoding_id).started_at, layers_of(encoding_id)) == (None, {})


@pytest.fixture
def slowly(monkeypatch):
    """Have every batch wait until it is let go."""
    go = threading.Semaphore(1)
    real = forward.pool

    def pool(*arguments):
        go.acquire(timeout=30)
        go.release()
        return real(*arguments)

    monkeypatch.setattr(forward, "pool", pool)
    return go


@pytest.mark.parametrize("stop", ["cancel", "delete", "begin again"])
def test_an_encoding_that_is_no_longer_wanted_stops_and_leaves_no_file(
    settings, sessions, make_encoding, get_encoding, layers_of, slowly, stop, monkeypatch
):
    monkeypatch.setattr("workers.encode.progress.SECONDS_BETWEEN_WRITES", 0)
    encoding_id = make_encoding(batch_size=1)
    before = set(settings.files.iterdir())
    slowly.acquire()
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
    slowly.release()
    worker.join(timeout=30)
    assert not worker.is_alive()
    assert layers_of(encoding_id) == {}
    assert set(settings.files.iterdir()) == before
    left = get_encoding(encoding_id)
    status = None if left is None else left.status
    states = {"cancel": EncodingStatus.CANCELLED, "delete": None, "begin again": EncodingStatus.QUEUED}
    assert status is states[stop]


def test_cancelled_at_the_last_moment_no_file_and_no_row_is_left(
    settings, sessions, make_encoding, get_encoding, layers_of, monkeypatch
):
    encoding_id = make_encoding()
    before = set(settings.files.iterdir())
    asked = []

    def npy_file(*arguments):
        asked.append(arguments)
        if len(asked) == 9:
            with sessions.begin() as session:
                session.get(Encoding, encoding_id).status = EncodingStatus.CANCELLED
        return generated.npy_file(*arguments)

    monkeypatch.setattr(publishing, "npy_file", npy_file)
    assert encode_texts(encoding_id, settings, "cpu") == ()
    assert get_encoding(encoding_id).status is EncodingStatus.CANCELLED
    assert layers_of(encoding_id) == {}
    assert set(settings.files.iterdir()) == before
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(EmbeddingFile)) == 0


@pytest.mark.one_database
def test_a_storage_out_of_reach_for_a_moment_costs_no_encoding(
    settings, make_encoding, get_encoding, layers_of, monkeypatch
):
    monkeypatch.setattr(files, "WAITS_SECONDS", (0,))
    write, written = FolderStorage.write, []

    def away_at_the_fourth(self, *arguments):
        written.append(arguments)
        if len(written) == 4:
            raise UnavailableError("The storage of files cannot be reached at the moment.")
        return write(self, *arguments)

    monkeypatch.setattr(FolderStorage, "write", away_at_the_fourth)
    encode_texts(encoding_id := make_encoding(), settings, "cpu")
    assert get_encoding(encoding_id).status is EncodingStatus.FINISHED
    assert len(layers_of(encoding_id)) == 9


@pytest.mark.one_database
@pytest.mark.parametrize("step", ["_forward", "pool"])
def test_a_batch_that_does_not_fit_is_halved_once(settings, make_encoding, get_encoding, error_of, monkeypatch, step):
    where, of = (forward, 0) if step == "pool" else (forward.Encoder, 2)
    real = getattr(where, step)

    def fits(largest):
        def limited(*arguments):
            if len(arguments[of]) > largest:
                raise torch.OutOfMemoryError("CUDA")
            return real(*arguments)

        monkeypatch.setattr(where, step, limited)

    fits(2)
    encode_texts(encoding_id := make_encoding(batch_size=4), settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.environment["batch_size"]) == (EncodingStatus.FINISHED, 2)
    fits(1)
    assert "The memory was not enough. Take fewer rows" in error_of(make_encoding(batch_size=4))


@pytest.mark.one_database
def test_models_that_cannot_be_encoded_with_are_told(make_encoding, error_of, copied, models_dir):
    T5Model(T5Config(vocab_size=18, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)).save_pretrained(
        copied("both")
    )
    assert "which encoder-decoder models do not" in error_of(make_encoding(model="both"))

    deeper = BertConfig.from_pretrained(copied("shallow"))
    deeper.num_hidden_layers = 3
    deeper.save_pretrained(models_dir / "shallow")
    sentence = error_of(make_encoding(model="shallow"))
    assert "The files of 'shallow' lack 16 of its weights, such as encoder.layer.2.attention" in sentence

    (copied("strange") / "config.json").write_text('{"model_type": "strange"}')
    assert "The model 'strange' cannot be loaded to encode texts: " in error_of(make_encoding(model="strange"))

    broken = BertModel(BertConfig.from_pretrained(copied("broken")))
    torch.nn.init.constant_(broken.encoder.layer[1].output.dense.weight, float("nan"))
    broken.save_pretrained(models_dir / "broken")
    make_tokenizer().save_pretrained(models_dir / "broken")
    assert "'broken' gives NaN or infinity for row 5 at layer 2" in error_of(make_encoding(model="broken"))


@pytest.mark.one_database
def test_what_is_asked_for_and_is_not_there_is_told(make_encoding, error_of, monkeypatch, settings):
    assert "Expected layers from 0 to 2, which 'tiny-bert' has, got 3." in error_of(make_encoding(layers=[1, 3]))
    assert "has no column 'headline'" in error_of(make_encoding(text_columns=["headline"]))
    monkeypatch.setattr("app.db.encoding.MAX_EMBEDDINGS", 2)
    assert "Expected at most 2 embeddings" in error_of(make_encoding())
    monkeypatch.undo()
    monkeypatch.setattr(vectors.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    assert "The disk of this worker has 0.0 GB left" in error_of(make_encoding())


@pytest.mark.one_database
def test_a_text_as_long_as_the_positions_of_a_model_that_counts_them_from_behind_its_padding(
    settings, make_encoding, get_encoding, layers_of, saved
):
    config = RobertaConfig(
        vocab_size=18, pad_token_id=1, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=34,
    )  # fmt: skip
    folder = saved("roberta", RobertaModel(config))
    encoding_id = make_encoding(f"sentence\n{'good ' * 50}\nbad\n", "rows.csv", model="roberta", layers=[1])
    encode_texts(encoding_id, settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.error) == (EncodingStatus.FINISHED, None)
    assert encoding.environment["max_length"] == 32
    expected = one_at_a_time(folder, [("good " * 50,), ("bad",)], max_length=32)
    for place, embedding in layers_of(encoding_id).items():
        np.testing.assert_allclose(read(settings, embedding), expected[place], rtol=1e-5, atol=1e-6)


def test_a_model_that_says_no_number_of_positions_takes_texts_as_long_as_asked_for():
    config = XLNetConfig(vocab_size=18, d_model=16, n_layer=1, n_head=2, d_inner=32)
    assert longest_input(XLNetModel(config), make_tokenizer(), 20) == 20


@pytest.mark.one_database
def test_a_model_that_takes_no_mask_is_pooled_over_the_tokens_that_are_no_padding(
    settings, make_encoding, get_encoding, layers_of, saved
):
    config = FNetConfig(vocab_size=18, hidden_size=16, num_hidden_layers=1, intermediate_size=32, pad_token_id=0)
    folder = saved("unmasked", FNetModel(config))
    encoding_id = make_encoding(model="unmasked", batch_size=1)
    encode_texts(encoding_id, settings, "cpu")
    encoding = get_encoding(encoding_id)
    assert (encoding.status, encoding.error) == (EncodingStatus.FINISHED, None)
    expected = one_at_a_time(folder, [(TEXTS[i],) for i in FULL])
    for place, embedding in layers_of(encoding_id).items():
        np.testing.assert_allclose(read(settings, embedding), expected[place], rtol=1e-5, atol=1e-6)


@pytest.mark.one_database
def test_a_text_without_a_token_is_named_by_its_row(make_encoding, error_of, copied):
    folder = copied("bare")
    words = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    words.post_processor = None
    words.normalizer = normalizers.Replace("dull", "")
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    content = "sentence\nthe film\ndull\n"
    assert "Row 2 has no token that 'bare' knows" in error_of(make_encoding(content, "rows.csv", model="bare"))
