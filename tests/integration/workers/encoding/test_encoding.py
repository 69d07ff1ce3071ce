import json
import threading

import numpy as np
import pytest
from sqlalchemy import delete, func, select, update
from transformers import AutoTokenizer

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import (
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
from tests.encodings import FULL, TEXTS, assert_vectors, encode_individually, read
from tests.waiting import wait_for
from workers import files, models
from workers.embeddings import encoder, encoding
from workers.embeddings.encoding import encode_texts
from workers.embeddings.measure import inspect_embedding, measure_embedding


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


@pytest.fixture
def batch_gate(monkeypatch):
    go = threading.Semaphore(1)
    real = models.pool

    def pool(*arguments):
        go.acquire(timeout=30)
        go.release()
        return real(*arguments)

    monkeypatch.setattr(encoder, "pool", pool)
    return go


@pytest.mark.parametrize("stop", ["cancel", "delete", "restart"])
def test_cancelled_or_replaced_encoding_stops_and_leaves_no_file(
    settings, sessions, make_encoding, get_encoding, layers_of, batch_gate, stop, monkeypatch
):
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
