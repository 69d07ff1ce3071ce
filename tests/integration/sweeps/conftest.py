import pytest

from tests.once import make_once
from tests.texts import tsv


@pytest.fixture
def dataset(client, context, trained_once):
    def upload():
        files = {"train": tsv(), "validation": tsv(name="validation.tsv")}
        return client.post("/api/datasets", files=files).json()["id"]

    return client.get(f"/api/datasets/{make_once(context, trained_once, 'dataset', upload)}").json()
