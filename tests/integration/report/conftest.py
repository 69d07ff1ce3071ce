import pytest

from tests.cached_rows import make_once
from tests.reports import HOSTILE, make_csv


@pytest.fixture
def measured(client, context, work, cloud, module_cache):
    """The id of a measured embedding with names, labels, two rows left out and a hostile name."""

    def measure():
        files = {"file": ("cloud.csv", make_csv(cloud, n_bad=2))}
        answer = client.post("/api/embeddings?commit=auto", files=files, data={"name": HOSTILE})
        work()
        return answer.json()["id"]

    return make_once(context, module_cache, "measured", measure)


@pytest.fixture
def second(client, work, cloud):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("second.csv", make_csv(cloud + 1))}).json()
    work()
    return created["id"]
