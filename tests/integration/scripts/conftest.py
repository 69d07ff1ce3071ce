import pytest

from tests.script_runs import TOLD


@pytest.fixture
def begin(client):
    def begin(**changes):
        return client.post("/api/runs", json=TOLD | changes)

    return begin
