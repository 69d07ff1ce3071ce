"""HEAD is answered wherever GET is, as GET is and without a body."""

import numpy as np
import pytest

from app.core.settings import MIB
from tests.uploads.good import npy

PATHS = [
    "/",
    "/embeddings",
    "/queue",
    "/api/health",
    "/api/embeddings",
    "/static/app.css",
    "/nowhere",
    "/api/openapi.json",
]


@pytest.mark.parametrize("path", PATHS)
def test_head_has_the_status_and_headers_of_get_and_no_body(client, path):
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code
    assert head.content == b""
    assert {name: head.headers[name] for name in got.headers if name != "content-length"} == {
        name: got.headers[name] for name in got.headers if name != "content-length"
    }


def test_of_a_large_file_no_more_than_its_size_is_told(client, monkeypatch):
    content = npy(np.zeros((1024, 1024)))
    made = client.post("/api/embeddings", files={"file": ("a.npy", content)}).json()
    head = client.head(f"/embeddings/{made['id']}/files/0")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(content) > 8 * MIB


def test_what_is_only_posted_has_no_head(client):
    assert client.head("/api/queue/pause").status_code == 405
