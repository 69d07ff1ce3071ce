import io

import numpy as np
import pytest

from app.db.models import Embedding, EmbeddingStatus, TaskRun
from isotropy.tasks.storage import VectorStorage
from isotropy.tasks.variants import Dimensions, Variant
from tests.rounding import assert_same_images
from tests.task_rows import add_rows
from workers.postprocess import make_embedding
from workers.tasks import judge_task

N, D = 300, 8
AS_IT_IS = Variant()
VARIANTS = [
    Variant("soft_zca", (("eps", 0.5),)),
    Variant("all_but_the_top", (("D", 1),), Dimensions("pca", 4), VectorStorage.INT8),
    Variant("cluster_based", (("clusters", 3), ("D", 1)), Dimensions("first", 5)),
    Variant("flow", (("steps", 2),)),
    Variant(dimensions=Dimensions("pca", 6)),
]


@pytest.fixture(scope="module")
def x():
    """Points whose classes hide behind a strong direction."""
    x = np.random.default_rng(3).normal(size=(N, D)).astype(np.float32) + 1
    x[:, 0] *= 20
    return x


@pytest.fixture
def corpus(context, tmp_path, x):
    return add_rows(context, tmp_path, "d", x, "cloud")


@pytest.fixture
def judge_variant(client, settings, corpus, monkeypatch):
    """Judge the unchanged vectors and one variant by labels, choose the variant, and return the task."""

    def judge_variant(variant, *, chosen=1, similarity="cosine"):
        monkeypatch.setattr("workers.tasks.default_variants", lambda setting: [AS_IT_IS, variant])
        monkeypatch.setattr("isotropy.tasks.decision.min", lambda indices, key: chosen, raising=False)
        form = {"kind": "labels", "labels": "side", "similarity": similarity}
        task = client.post(f"/api/embeddings/{corpus}/tasks", data=form).json()["id"]
        judge_task(task, settings, "cpu")
        document = client.get(f"/api/tasks/{task}").json()
        assert (document["status"], document["results"]["chosen"]) == ("finished", chosen), document["error"]
        return document

    return judge_variant


@pytest.mark.parametrize(
    ("variant", "similarity"), list(zip(VARIANTS, ["cosine", "dot", "cosine", "dot", "dot"], strict=True))
)
def test_new_embedding_matches_exported_numpy_lines(
    client, settings, judge_variant, tmp_path, monkeypatch, x, variant, similarity
):
    task = judge_variant(variant, similarity=similarity)
    reply = client.post(f"/api/tasks/{task['id']}/embedding", json={"name": "mapped"})
    assert (reply.status_code, reply.json()["status"], reply.json()["name"]) == (201, "making", "mapped"), reply.text
    make_embedding(reply.json()["id"], settings, "cpu")
    (tmp_path / "map.safetensors").write_bytes(client.get(f"/api/tasks/{task['id']}/map.safetensors").content)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(task["maps"]["chosen"], names)
    vectors = np.load(io.BytesIO(client.get(f"/api/embeddings/{reply.json()['id']}/vectors.npy").content))
    assert vectors.dtype == np.float32
    assert_same_images(vectors, names["apply"](x))


def test_map_of_corpus_applies_to_queries(client, context, settings, work, corpus, tmp_path, monkeypatch, x):
    monkeypatch.setattr("workers.tasks.default_variants", lambda setting: [AS_IT_IS, VARIANTS[4]])
    monkeypatch.setattr("isotropy.tasks.decision.min", lambda indices, key: 1, raising=False)
    query_vectors = (x[:60] + 0.1).astype(np.float32)
    queries = add_rows(context, tmp_path, "q", query_vectors, "questions")
    qrels = "\n".join(["query-id\tcorpus-id\tscore", *(f"q{row}\td{row}\t1" for row in range(60))])
    form = {"kind": "queries", "queries_id": queries, "similarity": "dot"}
    sent = client.post(f"/api/embeddings/{corpus}/tasks", data=form, files={"file": ("qrels.tsv", qrels.encode())})
    task = sent.json()["id"]
    judge_task(task, settings, "cpu")
    page = " ".join(client.get(f"/tasks/{task}").text.split())
    assert "Keep the queries as an embedding" in page
    assert "find among their first 10, whatever they ask." in page
    assert page.count("Hubs, as they are") == page.count("Hubs, chosen") == 1
    assert "Applies the map to 300 rows or 60 queries and measures the new vectors." in page
    embedding = client.post(f"/api/tasks/{task}/embedding", json={"of": "queries"}).json()
    assert (embedding["name"], embedding["source_id"]) == ("questions, PCA-6", queries)
    work()
    names: dict = {}
    (tmp_path / "map.safetensors").write_bytes(client.get(f"/api/tasks/{task}/map.safetensors").content)
    monkeypatch.chdir(tmp_path)
    exec(client.get(f"/api/tasks/{task}").json()["maps"]["chosen"], names)
    vectors = np.load(io.BytesIO(client.get(f"/api/embeddings/{embedding['id']}/vectors.npy").content))
    assert_same_images(vectors, names["apply"](query_vectors))
    assert "was fitted on" not in client.get(f"/embeddings/{embedding['id']}").text
    saved = client.post(f"/tasks/{task}/embedding", data={"which": "chosen", "of": "queries"})
    work()
    corpus_made = client.post(f"/api/tasks/{task}/embedding").json()["id"]
    work()
    again = {"kind": "queries", "queries_id": saved.headers["location"].rsplit("/", 1)[1], "similarity": "dot"}
    reply = client.post(f"/api/embeddings/{corpus_made}/tasks", data=again, files={"file": ("q.tsv", qrels.encode())})
    assert reply.status_code == 201, reply.text


def test_queries_are_required_and_deleted_task_maps_nothing(client, judge_variant, context, work):
    task = judge_variant(VARIANTS[4])
    refused = client.post(f"/api/tasks/{task['id']}/embedding", json={"of": "queries"})
    assert (refused.status_code, refused.json()["field"]) == (422, "of")
    assert refused.json()["detail"] == "This task has no queries. Map its corpus."
    embedding_id = client.post(f"/api/tasks/{task['id']}/embedding").json()["id"]
    with context.sessions.begin() as session:
        session.delete(session.get_one(TaskRun, task["id"]))
    work()
    with context.sessions() as session:
        failed = session.get_one(Embedding, embedding_id)
    assert failed.status is EmbeddingStatus.FAILED
    assert "The task whose map makes this embedding was deleted" in failed.error
    assert "Judge the vectors again first." in failed.error


def test_kept_embedding_names_its_task(client, work, judge_variant, corpus):
    task = judge_variant(VARIANTS[1])
    page = client.get(f"/tasks/{task['id']}").text
    assert page.count("Keep as an embedding") == 1
    assert "Applies the map to 300 rows and measures the new vectors, in float32." in page
    sent = client.post(f"/tasks/{task['id']}/embedding", data={"which": "smallest"})
    made_id = sent.headers["location"].rsplit("/", 1)[1]
    refused = client.delete(f"/api/tasks/{task['id']}")
    sentence = "This task is making an embedding. Try again when that has finished."
    assert (refused.status_code, refused.json()["detail"]) == (409, sentence)
    work()
    embedding = client.get(f"/api/embeddings/{made_id}").json()
    assert (embedding["status"], embedding["n"], embedding["d"], embedding["source_id"]) == ("ready", N, 4, corpus)
    assert (embedding["name"], embedding["provenance"]["which"]) == ("cloud, All-but-the-Top, D 1, PCA-4", "smallest")
    assert embedding["measurements"]
    names = client.get(f"/api/embeddings/{made_id}/files/1").text.splitlines()
    assert names[7] == '{"name": "d7", "id": "d7"}'
    page = " ".join(client.get(f"/embeddings/{made_id}").text.split())
    assert f'the smallest variant of <a href="/tasks/{task["id"]}">a task</a>' in page
    assert "The map scales vectors to length 1." in page
    assert "This map was fitted on 300 of these 300 rows, so the numbers below are optimistic" in page
    assert f'optimistic (<a href="/tasks/{task["id"]}">' in page
    assert client.delete(f"/api/tasks/{task['id']}").status_code == 204
    assert client.get(f"/embeddings/{made_id}").status_code == 200


def test_unmapped_or_unfinished_task_makes_no_embedding(client, corpus, judge_variant):
    task = client.post(f"/api/embeddings/{corpus}/tasks", data={"kind": "labels", "labels": "side"}).json()
    refused = client.post(f"/api/tasks/{task['id']}/embedding", json={"which": "chosen"})
    assert refused.status_code == 409
    assert refused.json()["detail"] == "This task is queued; it has results when it has finished."
    assert client.post(f"/api/tasks/{task['id']}/embedding", json={"which": "best"}).status_code == 422
    task = judge_variant(Variant(storage=VectorStorage.INT8))
    assert "Keep as an embedding" not in client.get(f"/tasks/{task['id']}").text
    refused = client.post(f"/api/tasks/{task['id']}/embedding")
    assert refused.status_code == 409
    assert "The chosen variant keeps the vectors of cloud as they are." in refused.json()["detail"]
