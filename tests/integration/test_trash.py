from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from sqlalchemy import event, select

from app.db import job_kinds, models
from app.db.job_kinds import Job
from app.db.types import utcnow
from app.embeddings import trash
from app.embeddings.encoding_layers import list_defined_measures
from app.embeddings.encodings import delete_encoding
from app.embeddings.library import find_adjacent_layers
from app.embeddings.service import get_embedding
from app.embeddings.trash import Purged, empty_trash
from tests.factories import add_embedding, add_encoding, store
from tests.queries import count_rows

SHARED, UNSHARED, STATE, USED = b"s" * 1000, b"o" * 300, b"t" * 70, b"u" * 5000


def move_to_trash(client, *ids):
    assert [client.delete(f"/api/embeddings/{embedding_id}").status_code for embedding_id in ids] == [204] * len(ids)


def exist(context, *contents):
    return [context.storage.exists(sha256(content).hexdigest()) for content in contents]


@pytest.fixture
def three(context):
    """Two embeddings that share a file, one with a fitted map; a third shares its file with a data set."""
    first = add_embedding(context, "first", {"isoscore": 0.5}, ["t"], [SHARED, UNSHARED])
    second = add_embedding(context, "second", contents=[SHARED])
    third = add_embedding(context, "third", contents=[USED])
    store(context, STATE)
    hashes = [sha256(content).hexdigest() for content in (STATE, USED)]
    with context.sessions.begin() as session:
        session.add(models.StoredFile(sha256=hashes[0], size_bytes=len(STATE)))
        session.flush()
        session.add(
            models.PostProcessing(embedding_id=first, key="k", method="center", parameters={}, state_sha256=hashes[0])
        )
        session.add(models.Dataset(name="d", origin=models.DatasetOrigin.UPLOAD, train_sha256=hashes[1], columns=[]))
    return [first, second, third]


def test_trashed_embedding_is_listed_only_in_trash(client, context, three):
    move_to_trash(client, three[0])
    assert [embedding_id["name"] for embedding_id in client.get("/api/embeddings").json()] == ["third", "second"]
    for path in ("/", "/embeddings", "/embeddings?q=first", "/queue", f"/embeddings/{three[1]}", "/compare"):
        assert ">first<" not in client.get(path).text, path
        assert f'value="{three[0]}"' not in client.get(path).text, path
    page_text = client.get("/api/trash").json()
    assert [row["embedding"]["name"] for row in page_text["rows"]] == ["first"]
    assert page_text["rows"][0]["embedding"]["trashed_at"] is not None
    assert count_rows(context, models.Measurement) == 1
    when = client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"]
    move_to_trash(client, three[0])
    assert client.get(f"/api/embeddings/{three[0]}").json()["trashed_at"] == when
    for _ in range(2):
        assert client.post(f"/api/embeddings/{three[0]}/restore").json()["trashed_at"] is None
    assert len(client.get("/api/embeddings").json()) == 3


def test_sizes_count_files_that_nobody_else_needs(client, context, three):
    move_to_trash(client, *three)
    trash = client.get("/api/trash").json()
    frees = {row["embedding"]["name"]: row["frees_bytes"] for row in trash["rows"]}
    assert frees == {"first": 300 + 70, "second": 0, "third": 0}
    assert trash["frees_bytes"] == 1000 + 300 + 70
    assert client.delete("/api/trash").json() == {"embeddings": 3, "freed_bytes": 1370}
    assert exist(context, SHARED, UNSHARED, STATE, USED) == [False, False, False, True]
    assert count_rows(context, models.Embedding) == count_rows(context, models.PostProcessing) == 0
    assert count_rows(context, models.StoredFile) == 1
    assert client.get("/api/trash").json() == {"rows": [], "total": 0, "frees_bytes": 0}


def test_only_trash_is_purged_and_reports_freed_bytes(client, context, three):
    for embedding_id in (three[0], "none"):
        answer = client.delete(f"/api/trash/{embedding_id}")
        sentence = f"There is no embedding '{embedding_id}' in the trash. Only embeddings in the trash can be purged."
        assert (answer.status_code, answer.json()["detail"]) == (404, sentence)
    assert client.delete("/api/trash").json() == {"embeddings": 0, "freed_bytes": 0}
    assert count_rows(context, models.Embedding) == 3
    move_to_trash(client, three[1], three[0])
    assert client.delete(f"/api/trash/{three[0]}").json() == {"embeddings": 1, "freed_bytes": 370}
    assert exist(context, SHARED, UNSHARED, STATE) == [True, False, False]
    assert client.delete(f"/api/trash/{three[1]}").json() == {"embeddings": 1, "freed_bytes": 1000}
    assert client.get(f"/api/embeddings/{three[1]}").status_code == 404


@pytest.mark.both_databases
def test_purging_cancels_jobs(client, context):
    kinds = {models.EmbeddingStatus.INSPECTING: job_kinds.INSPECT, models.EmbeddingStatus.MAKING: job_kinds.MAKE}
    jobs = [Job(kind, add_embedding(context, status=status)) for status, kind in kinds.items()]
    measuring, other_id = add_embedding(context, status=models.EmbeddingStatus.MEASURING), add_embedding(context)
    jobs.append(Job(job_kinds.MEASURE, measuring))
    curve = models.ZetaCurve(embedding_id=other_id, source="embedding", source_id=measuring)
    method = models.PostProcessing(embedding_id=measuring, key="k", method="center", parameters={})
    with context.sessions.begin() as session:
        session.add_all([curve, method])
    jobs += [Job(job_kinds.CURVE, curve.id), Job(job_kinds.POSTPROCESS, method.id)]
    kept_job = Job(job_kinds.MEASURE, other_id)
    for job in [*jobs, kept_job]:
        context.queue.enqueue(job)
    move_to_trash(client, *(job.row_id for job in jobs[:3]))
    assert len(context.queue.list_active()) == 6
    client.delete("/api/trash")
    assert context.queue.list_active() == {kept_job.workflow_id}


def test_trashed_embedding_refuses_actions(client, context):
    draft = add_embedding(context, "draft", status=models.EmbeddingStatus.DRAFT, inspection={"parts": []})
    ready, other_id = add_embedding(context, "ready"), add_embedding(context, "other")
    trial = models.PostProcessing(
        embedding_id=ready, key="k", method="center", parameters={}, status=models.ResultStatus.READY
    )
    with context.sessions.begin() as session:
        session.add(trial)
    move_to_trash(client, draft, ready)
    requests = [
        client.post(f"/api/embeddings/{draft}/commit"),
        client.put(f"/api/embeddings/{draft}/selection", json={"vectors": "array"}),
        client.patch(f"/api/embeddings/{draft}", json={"name": "x"}),
        client.post(f"/api/embeddings/{ready}/curves/zeta", json={"source_id": other_id}),
        client.post(f"/api/embeddings/{other_id}/curves/zeta", json={"source_id": ready}),
        client.get(f"/api/compare?id={other_id}&id={ready}"),
        client.post(f"/api/embeddings/{ready}/postprocessings", json={"method": "centring"}),
        client.post(f"/api/embeddings/{ready}/postprocessings/{trial.id}/embedding"),
    ]
    assert [answer.status_code for answer in requests] == [409] * 8
    assert requests[0].json()["detail"] == "draft is in the trash. Restore it first."
    assert {answer.json()["detail"] for answer in requests[3:]} == {"ready is in the trash. Restore it first."}


@pytest.mark.both_databases
def test_trash_is_paged_and_totals_count_all(client, context):
    for number in range(60):
        when = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        add_embedding(context, f"cloud {number}", contents=[bytes([number])], trashed_at=when)
    first = client.get("/api/trash").json()
    assert [row["embedding"]["name"] for row in first["rows"]] == [f"cloud {number}" for number in range(59, 9, -1)]
    assert (first["total"], first["frees_bytes"], first["rows"][0]["frees_bytes"]) == (60, 60, 1)
    last = client.get("/api/trash?limit=3&offset=58").json()
    assert [row["embedding"]["name"] for row in last["rows"]] == ["cloud 1", "cloud 0"]
    page = " ".join(client.get("/trash").text.split())
    assert "60 embeddings; deleting all frees 60 bytes." in page
    assert '<a rel="next" href="/trash?page=2">Next</a>' in page
    assert page.count("Delete permanently</a>") == 50
    assert client.get("/trash?page=2").text.count("Delete permanently</a>") == 10
    assert client.get("/trash?page=3").headers["location"] == "/trash?page=2"
    assert "Delete 60 embeddings?" in client.get("/trash/purge").text


@pytest.mark.both_databases
def test_purging_sixty_takes_as_many_statements_as_three(context):
    statements = []
    event.listen(
        context.sessions.kw["bind"], "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    counts = []
    for count in (3, 60):
        for number in range(count):
            row_id = add_embedding(context, f"cloud {number}", {"isoscore": 0.5}, ["t"], [SHARED], trashed_at=utcnow())
            with context.sessions.begin() as session:
                session.add(models.ZetaCurve(embedding_id=row_id, source="identity", status=models.ResultStatus.READY))
        statements.clear()
        assert empty_trash(context) == Purged(embeddings=count, freed_bytes=1000)
        counts.append(len(statements))
    assert counts[0] == counts[1]
    assert [
        count_rows(context, table)
        for table in (models.Embedding, models.EmbeddingFile, models.EmbeddingTag, models.Measurement, models.ZetaCurve)
    ] == [0] * 5


@pytest.mark.both_databases
def test_file_shared_across_batches_is_freed_once(context, monkeypatch):
    monkeypatch.setattr(trash, "BATCH", 2)
    kept_job = add_embedding(context, "kept", contents=[USED])
    for content in (UNSHARED, SHARED, SHARED, SHARED, USED):
        add_embedding(context, contents=[SHARED, content], trashed_at=utcnow())
    assert empty_trash(context) == Purged(embeddings=5, freed_bytes=1300)
    assert exist(context, SHARED, UNSHARED, USED) == [False, False, True]
    with context.sessions() as session:
        assert session.scalars(select(models.Embedding.id)).all() == [kept_job]


def test_jobs_of_trashed_embedding_continue(client, context, work):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("x.csv", b"1,2\n3,4.5\n5,6\n")}).json()
    move_to_trash(client, created["id"])
    work()
    assert client.get(f"/api/embeddings/{created['id']}").json()["status"] == "ready"


def test_pages_trash_undo_restore_and_purge(client, context, three):
    page = f"/embeddings/{three[0]}"
    moved = client.post(f"{page}/trash").headers["location"]
    assert moved == f"/embeddings?moved={three[0]}"
    notice = client.get(moved).text.partition('role="status"')[2].partition("</form>")[0]
    assert "first is in the" in notice
    assert f'action="{page}/restore"' in notice
    assert "until you restore it" in client.get(page).text
    assert client.post(f"{page}/restore").headers["location"] == page
    assert ">Undo<" not in client.get(moved).text
    assert ">Undo<" not in client.get("/embeddings?moved=none").text

    for embedding_id in three:
        client.post(f"/embeddings/{embedding_id}/trash")
    page_text = " ".join(client.get("/trash").text.split())
    assert "3 embeddings; deleting all frees 1.37 kB." in page_text
    assert "370 bytes</td>" in page_text
    assert "0 bytes <small>its files are shared</small>" in page_text
    assert client.post(f"/embeddings/{three[2]}/restore", data={"back": "trash"}).headers["location"] == "/trash"
    assert "370 bytes of the storage are freed" in client.get(f"/trash/{three[0]}/purge").text
    assert "no bytes of the storage are freed" in client.get(f"/trash/{three[1]}/purge").text
    assert "Delete 2 embeddings?" in client.get("/trash/purge").text
    assert "1.37 kB of the storage are freed" in client.get("/trash/purge").text
    assert client.post(f"/trash/{three[0]}/purge").headers["location"] == "/trash"
    assert "1 embedding; deleting all frees 1.00 kB." in " ".join(client.get("/trash").text.split())
    assert client.post("/trash/purge").headers["location"] == "/trash"
    assert "The trash is empty." in client.get("/trash").text
    for path in ("/trash/purge", f"/trash/{three[2]}/purge"):
        assert client.get(path, headers={"accept": "text/html"}).status_code == 404
    assert "There is nothing to delete." in client.get("/trash/purge", headers={"accept": "text/html"}).text


def test_trashed_layers_are_hidden_and_purged_ones_not_found(context):
    encoding = add_encoding(context)
    layers = {"encoding_id": encoding, "pooling": models.Pooling.MEAN}
    add_embedding(context, "kept", {"isoscore": 0.5, "rankme": None}, layer=0, **layers)
    add_embedding(context, "gone", {"mean_cosine": 0.5}, layer=1, trashed_at=utcnow(), **layers)
    assert list_defined_measures(context, encoding) == {"isoscore"}
    encoding = add_encoding(context)
    layer = get_embedding(context, add_embedding(context, encoding_id=encoding, layer=0, pooling=models.Pooling.MEAN))
    assert find_adjacent_layers(context, layer) is not None
    trash.trash_embedding(context, layer.id)
    assert find_adjacent_layers(context, layer) is not None
    trash.purge_embedding(context, layer.id)
    assert find_adjacent_layers(context, layer) is None
    delete_encoding(context, encoding)
    assert find_adjacent_layers(context, layer) is None
