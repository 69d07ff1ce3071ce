import io

import numpy as np
import pytest

from tests.cached_rows import make_once


@pytest.fixture
def vectors(cloud):
    """An .npz of 400 named and labeled points, one of them not finite."""
    cloud[7, 0] = np.nan
    file = io.BytesIO()
    words, labels = [f"word{i}" for i in range(400)], [f"{i % 3}" for i in range(400)]
    np.savez(file, vectors=cloud, words=np.array(words), labels=np.array(labels))
    return file.getvalue()


@pytest.fixture
def source(client, context, work, vectors, module_cache):
    def measure():
        files = {"file": ("cloud.npz", vectors)}
        created = client.post("/api/embeddings?commit=auto", files=files, data={"name": "cloud"}).json()
        work()
        return created["id"]

    return make_once(context, module_cache, "source", measure)


@pytest.fixture
def base(source):
    return f"/api/embeddings/{source}/postprocessings"


@pytest.fixture
def trial(client, work, base):
    response = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}})
    assert (response.status_code, response.json()["status"]) == (202, "queued")
    work()
    return client.get(f"{base}/{response.json()['id']}").json()
