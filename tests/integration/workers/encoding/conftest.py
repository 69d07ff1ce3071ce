import pytest
from sqlalchemy import select

from app.db.encoding import EncodingConfig
from app.db.models import Embedding, Encoding, EncodingStatus
from tests.encodings import ROWS
from workers.embeddings.encoding import encode_texts


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
def get_encoding(sessions):
    def get_encoding(encoding_id):
        with sessions() as session:
            return session.get(Encoding, encoding_id)

    return get_encoding


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
