import numpy as np

from app.core.settings import MIB
from tests.uploads.good import npy

PATHS = (
    "/", "/embeddings", "/queue", "/api/health", "/api/embeddings", "/static/app.css", "/nowhere", "/api/openapi.json",
)  # fmt: skip


def test_head_matches_get_without_body(client):
    for path in PATHS:
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        names = got.headers.keys() - {"content-length"}
        assert {name: head.headers[name] for name in names} == {name: got.headers[name] for name in names}
    content = npy(np.zeros((1024, 1024)))
    embedding = client.post("/api/embeddings", files={"file": ("a.npy", content)}).json()
    head = client.head(f"/embeddings/{embedding['id']}/files/0")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(content) > 8 * MIB
    assert client.head("/api/queue/pause").status_code == 405
