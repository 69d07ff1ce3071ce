"""An upload of layers x rows x dimensions, a layer of which is chosen as an array is."""

import io

import numpy as np
import pytest
import safetensors.numpy

from app.db.models import Embedding


@pytest.mark.parametrize(("name", "stack"), [("states.npy", "array"), ("states.safetensors", "states")])
def test_a_layer_of_an_array_of_three_dimensions_is_chosen_as_an_array_is(client, context, work, name, stack):
    x = np.random.default_rng(0).normal(size=(3, 50, 8)).astype(np.float32)
    npy = io.BytesIO()
    np.save(npy, x)
    content = npy.getvalue() if name.endswith(".npy") else safetensors.numpy.save({"states": x})
    draft = client.post("/api/embeddings", files={"file": (name, content)}).json()["id"]
    work()
    assert f"{stack}[1]" in client.get(f"/embeddings/{draft}").text
    for layer in (2, 1):
        found = client.get(f"/api/embeddings/{draft}").json()["inspection"]
        assert [one["name"] for one in found["parts"]] == [f"{stack}[{each}]" for each in range(3)]
        np.testing.assert_allclose(found["preview"][0]["values"], x[layer, 0])
        with context.sessions() as session:
            assert session.get_one(Embedding, draft).layer == layer
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": f"{stack}[1]"})
        work()
