import numpy as np
import pytest
import safetensors.numpy

from app.db.models import Embedding
from tests.uploads.good import npy


@pytest.mark.parametrize(("name", "stack"), [("states.npy", "array"), ("states.safetensors", "states")])
def test_layer_is_selected_from_3d_array(client, context, work, name, stack):
    x = np.random.default_rng(0).normal(size=(3, 50, 8)).astype(np.float32)
    content = npy(x) if name.endswith(".npy") else safetensors.numpy.save({"states": x})
    draft = client.post("/api/embeddings", files={"file": (name, content)}).json()["id"]
    work()
    assert f"{stack}[1]" in client.get(f"/embeddings/{draft}").text
    for layer in (2, 1):
        inspection = client.get(f"/api/embeddings/{draft}").json()["inspection"]
        assert [part["name"] for part in inspection["parts"]] == [f"{stack}[{i}]" for i in range(3)]
        np.testing.assert_allclose(inspection["preview"][0]["values"], x[layer, 0])
        with context.sessions() as session:
            assert session.get_one(Embedding, draft).layer == layer
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": f"{stack}[1]"})
        work()
