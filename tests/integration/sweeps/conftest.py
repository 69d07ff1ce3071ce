import pytest

from tests.cached_rows import make_once
from tests.texts import tsv


@pytest.fixture
def dataset(client, context, module_cache):
    def upload():
        files = {"train": tsv(), "validation": tsv(name="validation.tsv")}
        return client.post("/api/datasets", files=files).json()["id"]

    return client.get(f"/api/datasets/{make_once(context, module_cache, 'dataset', upload)}").json()
