import pytest

from tests.script_runs import RUN


@pytest.fixture
def begin(client):
    def begin(**changes):
        return client.post("/api/runs", json=RUN | changes)

    return begin
