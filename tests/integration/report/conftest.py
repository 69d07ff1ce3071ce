import pytest

from tests.once import make_once
from tests.reports import HOSTILE, csv_of


@pytest.fixture
def measured(client, context, work, cloud, trained_once):
    """The id of a measured embedding with names, labels, two rows left out and a hostile name."""

    def measure():
        files = {"file": ("cloud.csv", csv_of(cloud, n_bad=2))}
        answer = client.post("/api/embeddings?commit=auto", files=files, data={"name": HOSTILE})
        work()
        return answer.json()["id"]

    return make_once(context, trained_once, "measured", measure)


@pytest.fixture
def second(client, work, cloud):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("second.csv", csv_of(cloud + 1))}).json()
    work()
    return created["id"]
