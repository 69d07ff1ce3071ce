"""A data set to sweep on."""

import pytest

from tests.texts import tsv


@pytest.fixture
def dataset(client):
    return client.post("/api/datasets", files={"train": tsv(), "validation": tsv(name="validation.tsv")}).json()
