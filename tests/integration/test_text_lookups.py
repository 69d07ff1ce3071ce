import io
import json

import numpy as np
import pytest

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import BACKGROUND_PRIORITY, Job, Queue
from app.db.models import Embedding, Lookup
from app.db.work import list_waiting_jobs
from tests.cached_rows import make_once
from workers.embeddings.encoding import encode_texts

TEXTS = [f"{adjective} {noun} film {number}" for number, adjective in enumerate(["good", "bad", "dull"]) for noun in (
    "plot", "cast",
)]  # fmt: skip
TEXTS += [" ".join(["very"] * (number + 1)) for number in range(40)]


@pytest.fixture
def settings(tmp_path, models_dir, database) -> Settings:
    return Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False, **database)


@pytest.fixture
def encoded(client, context, settings, work, module_cache):
    def encode():
        lines = "\n".join(json.dumps({"text": text}) for text in TEXTS).encode()
        draft = client.post("/api/encodings", files={"file": ("texts.jsonl", lines)}).json()
        config = {"model": "tiny-bert", "text_columns": ["text"], "layers": [2], "poolings": ["mean"]}
        client.post(f"/api/encodings/{draft['id']}/launch", json=config)
        (job,) = encode_texts(draft["id"], settings, "cpu")
        work()
        return job.row_id

    return make_once(context, module_cache, "encoded", encode)


def test_text_is_encoded_like_the_rows_unless_weights_changed(client, encoded, work, context):
    url = f"/api/embeddings/{encoded}/neighbors"
    response = client.post(url, json={"text": TEXTS[3]})
    assert (response.status_code, response.json()["status"]) == (202, "queued")
    assert work() == 1
    lookup = client.get(url, params={"text": TEXTS[3]}).json()
    assert lookup["status"] == "ready", lookup["error"]
    results = lookup["results"]
    before = results["of"][0]["before"]
    assert (results["row"], results["rows"], results["of"][0]["name"]) == (None, len(TEXTS), TEXTS[3])
    assert (before[0]["row"], before[0]["name"]) == (3, TEXTS[3])
    assert before[0]["cosine"] == pytest.approx(1, abs=1e-5), "the same vector"
    vectors = np.load(io.BytesIO(client.get(f"/api/embeddings/{encoded}/vectors.npy").content))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[3]
    assert [row["cosine"] for row in before] == pytest.approx(np.sort(cosines)[::-1][: len(before)], abs=1e-5)
    page = client.get(f"/embeddings/{encoded}", params={"tab": "map", "text": TEXTS[3]}).text
    assert f'data-near="{" ".join(str(row["row"]) for row in before)}"' in page
    response = client.post(f"/embeddings/{encoded}/neighbors", data={"text": "good film"})
    expected = (303, f"/embeddings/{encoded}?tab=map&text=good+film#near-text")
    assert (response.status_code, response.headers["location"]) == expected
    page = client.get(f"/embeddings/{encoded}", params={"text": "good film"}).text
    assert "A worker is encoding the text" in page
    assert "tiny-bert, layer 2, mean pooling" in page
    with context.sessions.begin() as session:
        embedding = session.get_one(Embedding, encoded)
        embedding.provenance = {**embedding.provenance, "weights_sha256": {"model.safetensors": "0" * 64}}
    client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": "good"})
    work()
    lookup = client.get(f"/api/embeddings/{encoded}/neighbors", params={"text": "good"}).json()
    assert lookup["status"] == "failed"
    assert "are not those that encoded these rows" in lookup["error"]


def test_lookup_needs_name_or_text_of_encoded_vectors(client, encoded, work):
    for query in [{}, {"name": "a", "text": "b"}]:
        refused = client.get(f"/api/embeddings/{encoded}/neighbors", params=query)
        assert (refused.status_code, "either the name of a row or a text" in refused.json()["detail"]) == (422, True)
        unknown = client.get(f"/api/embeddings/{encoded}/neighbors", params={"text": "king"})
        assert unknown.status_code == 404
        assert unknown.json()["detail"] == "Nobody has looked up 'king' in this embedding yet."
    for text in [" ", "x" * 1001]:
        refused = client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": text})
        assert (refused.status_code, "a text of 1 to 1,000 characters" in refused.json()["detail"]) == (422, True)
    lines = "\n".join(f"{row},{row * row % 7},w{row}" for row in range(30))
    files = {"file": ("a.csv", f"x,y,word\n{lines}".encode())}
    upload_id = client.post("/api/embeddings?commit=auto", files=files).json()["id"]
    work()
    refused = client.post(f"/api/embeddings/{upload_id}/neighbors", json={"text": "good"})
    assert (refused.status_code, refused.json()["field"]) == (422, "text")
    assert "not encoded here" in refused.json()["detail"]
    assert "Rows near a text" not in client.get(f"/embeddings/{upload_id}", params={"tab": "map"}).text


def test_lookup_uses_lab_queue_and_is_deleted_with_embedding(client, context, encoded):
    client.post(f"/api/embeddings/{encoded}/neighbors", json={"text": "king"})
    with context.sessions() as session:
        job = Job(job_kinds.LOOKUP, session.query(Lookup).one().id)
    assert (job.kind.queue, job.priority) == (Queue.LAB, Job(job_kinds.POSTPROCESS, "a").priority)
    waiting_jobs = list_waiting_jobs(context.sessions)
    assert [waiting for waiting in waiting_jobs if waiting.kind.priority < BACKGROUND_PRIORITY] == [job]
    client.delete(f"/api/embeddings/{encoded}")
    client.delete("/api/trash")
    with context.sessions() as session:
        assert session.query(Lookup).all() == []
    assert job.workflow_id not in context.queue.list_active()
