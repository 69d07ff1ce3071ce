"""The trash: what is in it is nowhere else, and what is purged frees what it says."""

from hashlib import sha256

import pytest
from sqlalchemy import func, select

from app.db.models import (
    Dataset,
    DatasetOrigin,
    Embedding,
    EmbeddingStatus,
    Measurement,
    PostProcessing,
    StoredFile,
    ZetaCurve,
)
from app.queue import Job, JobKind
from tests.embedding_rows import add, store

SHARED, OWN, STATE, USED = b"s" * 1000, b"o" * 300, b"t" * 70, b"u" * 5000


def rows(context, table):
    with context.sessions() as session:
        return session.scalar(select(func.count()).select_from(table))


def throw_away(client, *ids):
    assert [client.delete(f"/api/embeddings/{one}").status_code for one in ids] == [204] * len(ids)


def stored(context, *contents):
    return [context.storage.exists(sha256(content).hexdigest()) for content in contents]


@pytest.fixture
def three(context):
    """Two that share a file, one of which has a fitted map besides; a third shares its file with a data set."""
    first = add(context, "first", {"isoscore": 0.5}, ["t"], [SHARED, OWN])
    second = add(context, "second", contents=[SHARED])
    third = add(context, "third", contents=[USED])
    store(context, STATE)
    hashes = [sha256(content).hexdigest() for content in (STATE, USED)]
    with context.sessions.begin() as session:
        session.add(StoredFile(sha256=hashes[0], size_bytes=len(STATE)))
        session.flush()
        session.add(PostProcessing(embedding_id=first, key="k", method="centre", parameters={}, state_sha256=hashes[0]))
        session.add(Dataset(name="d", origin=DatasetOrigin.UPLOAD, train_sha256=hashes[1], columns=[]))
    return [first, second, third]


def test_what_is_in_the_trash_is_nowhere_else(client, context, three):
    throw_away(client, three[0])
    assert [one["name"] for one in client.get("/api/embeddings").json()] == ["third", "second"]
    for path in ("/", "/embeddings", "/embeddings?q=first", "/queue", f"/embeddings/{three[1]}", "/compare"):
        assert ">first<" not in client.get(path).text, path
        assert f'value="{three[0]}"' not in client.get(path).text, path
    shown = client.get("/api/trash").json()
    assert [row["embedding"]["name"] for row in shown["rows"]] == ["first"]
    assert shown["rows"][0]["embedding"]["trashed_at"] is not None
    assert rows(context, Measurement) == 1


def test_moving_there_again_and_restoring_again_change_nothing(client, three):
    throw_away(client, three[0])
    when = client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"]
    throw_away(client, three[0])
    assert client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"] == when
    for _ in range(2):
        assert client.post(f"/api/embeddings/{three[0]}/restore").json()["trashed_at"] is None
    assert len(client.get("/api/embeddings").json()) == 3


def test_each_frees_what_nobody_else_needs_and_all_together_more(client, context, three):
    throw_away(client, *three)
    trash = client.get("/api/trash").json()
    frees = {row["embedding"]["name"]: row["frees_bytes"] for row in trash["rows"]}
    assert frees == {"first": 300 + 70, "second": 0, "third": 0}
    assert trash["frees_bytes"] == 1000 + 300 + 70
    assert client.delete("/api/trash").json() == {"embeddings": 3, "freed_bytes": 1370}
    assert stored(context, SHARED, OWN, STATE, USED) == [False, False, False, True]
    assert rows(context, Embedding) == rows(context, PostProcessing) == 0
    assert rows(context, StoredFile) == 1
    assert client.get("/api/trash").json() == {"rows": [], "frees_bytes": 0}


def test_one_is_purged_and_says_what_it_really_freed(client, context, three):
    throw_away(client, three[1], three[0])
    assert client.delete(f"/api/trash/{three[0]}").json() == {"embeddings": 1, "freed_bytes": 370}
    assert stored(context, SHARED, OWN, STATE) == [True, False, False]
    assert client.delete(f"/api/trash/{three[1]}").json() == {"embeddings": 1, "freed_bytes": 1000}
    assert client.get(f"/api/embeddings/{three[1]}").status_code == 404


def test_only_what_is_in_the_trash_can_be_purged(client, context, three):
    for embedding_id in (three[0], "none"):
        answer = client.delete(f"/api/trash/{embedding_id}")
        sentence = f"There is no embedding '{embedding_id}' in the trash. Only what is there can be purged."
        assert (answer.status_code, answer.json()["detail"]) == (404, sentence)
    assert client.delete("/api/trash").json() == {"embeddings": 0, "freed_bytes": 0}
    assert rows(context, Embedding) == 3


def test_purging_takes_its_jobs_back(client, context):
    kinds = {EmbeddingStatus.INSPECTING: JobKind.INSPECT, EmbeddingStatus.MAKING: JobKind.MAKE}
    jobs = [Job(kind, add(context, status=status)) for status, kind in kinds.items()]
    measuring, other = add(context, status=EmbeddingStatus.MEASURING), add(context)
    jobs.append(Job(JobKind.MEASURE, measuring))
    curve = ZetaCurve(embedding_id=other, source="embedding", source_id=measuring)
    method = PostProcessing(embedding_id=measuring, key="k", method="centre", parameters={})
    with context.sessions.begin() as session:
        session.add_all([curve, method])
    jobs += [Job(JobKind.CURVE, curve.id), Job(JobKind.POSTPROCESS, method.id)]
    kept = Job(JobKind.MEASURE, other)
    for job in [*jobs, kept]:
        context.queue.enqueue(job)
    throw_away(client, *(job.row_id for job in jobs[:3]))
    assert len(context.queue.active()) == 6
    client.delete("/api/trash")
    assert context.queue.active() == {kept.workflow_id}


def test_what_needs_an_embedding_in_use_is_refused_in_the_trash(client, context):
    draft = add(context, "draft", status=EmbeddingStatus.DRAFT, inspection={"parts": []})
    ready, other = add(context, "ready"), add(context, "other")
    throw_away(client, draft, ready)
    asked = [
        client.post(f"/api/embeddings/{draft}/commit"),
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": "array"}),
        client.patch(f"/api/embeddings/{draft}", json={"name": "x"}),
        client.post(f"/api/embeddings/{ready}/curves/zeta", json={"source_id": other}),
        client.post(f"/api/embeddings/{other}/curves/zeta", json={"source_id": ready}),
        client.get(f"/api/compare?id={other}&id={ready}"),
    ]
    assert [answer.status_code for answer in asked] == [409] * 6
    assert asked[0].json()["detail"] == "draft is in the trash. Restore it first."
    assert asked[5].json()["detail"] == "ready is in the trash. Restore it first."


def test_the_jobs_of_what_is_in_the_trash_go_on(client, context, work):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("x.csv", b"1,2\n3,4.5\n5,6\n")}).json()
    throw_away(client, created["id"])
    work()
    assert client.get(f"/api/embeddings/{created['id']}").json()["status"] == "ready"


def test_on_the_pages_it_is_moved_undone_restored_and_purged(client, context, three):
    page = f"/embeddings/{three[0]}"
    moved = client.post(f"{page}/trash").headers["location"]
    assert moved == f"/embeddings?moved={three[0]}"
    notice = client.get(moved).text.partition('role="status"')[2].partition("</form>")[0]
    assert "first is in the" in notice
    assert f'action="{page}/restore"' in notice
    assert "It is listed nowhere else" in client.get(page).text
    assert client.post(f"{page}/restore").headers["location"] == page
    assert ">Undo<" not in client.get(moved).text
    assert ">Undo<" not in client.get("/embeddings?moved=none").text

    for one in three:
        client.post(f"/embeddings/{one}/trash")
    shown = " ".join(client.get("/trash").text.split())
    assert "3 embeddings; deleting all frees 1.37 kB." in shown
    assert "370 bytes</td>" in shown
    assert "0 bytes <small>its files are shared</small>" in shown
    assert client.post(f"/embeddings/{three[2]}/restore", data={"back": "trash"}).headers["location"] == "/trash"
    assert "370 bytes of the storage are freed" in client.get(f"/trash/{three[0]}/purge").text
    assert "no bytes of the storage are freed" in client.get(f"/trash/{three[1]}/purge").text
    assert "Delete 2 embeddings?" in client.get("/trash/purge").text
    assert "1.37 kB of the storage are freed" in client.get("/trash/purge").text
    assert client.post(f"/trash/{three[0]}/purge").headers["location"] == "/trash?purged=1&freed=370"
    emptied = client.post("/trash/purge").headers["location"]
    assert emptied == "/trash?purged=1&freed=1000"
    told = client.get(emptied).text
    assert "1 embedding deleted for good, 1.00 kB freed." in told
    assert "The trash is empty." in told
    for path in ("/trash/purge", f"/trash/{three[2]}/purge"):
        assert client.get(path, headers={"accept": "text/html"}).status_code == 404
    assert "There is nothing to delete." in client.get("/trash/purge", headers={"accept": "text/html"}).text
