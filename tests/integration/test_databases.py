import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from io import BytesIO
from threading import Barrier

import numpy as np
import psycopg
import pytest
from fastapi.testclient import TestClient

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.migration import upgrade
from app.db.models import Embedding, ResultStatus, StoredFile, ZetaCurve
from app.db.session import create_database_engine, require_database
from app.embeddings.service import create_embedding
from app.embeddings.zeta_curves import request_zeta_curve
from app.main import create_app
from app.storage import Incoming, Stored
from isoscope.core.errors import ConflictError
from tests.factories import add_embedding
from tests.uploads.good import npy

NUL = "a\0b"


@pytest.mark.both_databases
def test_nul_in_address_or_form_is_rejected(client, pair):
    for path in (
        "/embeddings/%00", "/api/embeddings/a%00b", "/runs/%00/figures/loss.csv", "/api/nowhere?source=%00",
        "/embeddings/x?source=a%00b", "/experiments/new?dataset_id=%00",
    ):  # fmt: skip
        answer = client.get(path)
        assert (answer.status_code, "NUL" in answer.text) == (422, True)
    assert client.post(f"/embeddings/{pair[0]}/curves", data={"source_id": NUL}).status_code == 422
    assert client.post("/tasks/x/others", data={"others": [NUL]}).status_code == 422
    sweep = {"dataset_id": NUL, "model": "m", "text_columns": "a", "label_column": "b"}
    answer = client.post("/experiments", data=sweep, follow_redirects=True)
    assert (answer.status_code, "contains a NUL character" in answer.text) == (422, True)
    created = client.post("/api/embeddings", files={"file": ("a\0b.csv", b"1,2\n3,4\n")}, data={"name": NUL})
    assert (created.status_code, created.json()["name"]) == (201, "a b"), "names are kept without it"


@pytest.mark.both_databases
def test_impossible_id_or_seed_in_body_is_rejected(client, context, pair):
    json = {"Content-Type": "application/json"}
    form = '{"model": "all-MiniLM-L6-v2", "dataset_id": %s, "text_columns": ["a"], "label_column": "b"}'
    for text in (NUL, "\ud800"):
        body = f'{{"source_id": {json_text(text)}}}'
        assert client.post(f"/api/embeddings/{pair[0]}/curves/zeta", content=body, headers=json).status_code == 422
        launched = client.post("/api/experiments", content=form % json_text(text), headers=json)
        assert (launched.status_code, launched.json()["field"]) == (422, "dataset_id")
    sweep = form.replace("}", ', "seeds": [2147483648]}') % '"x"'
    answer = client.post("/api/experiments", content=sweep, headers=json)
    assert (answer.status_code, answer.json()["field"]) == (422, "seeds")
    with context.sessions() as session:
        assert session.get_one(Embedding, pair[0]).created_at.tzinfo is UTC


@pytest.mark.both_databases
def test_concurrent_requests_share_curve_and_retry_failed_one(context, pair):
    curves = call_concurrently(lambda: request_zeta_curve(context, *pair))
    first = curves[0].id
    assert {curve.id for curve in curves} == {first}
    assert context.queue.list_active() == {Job(job_kinds.CURVE, first).workflow_id}
    with context.sessions.begin() as session:
        curve = session.query(ZetaCurve).one()
        curve.status, curve.error, curve.attempts = ResultStatus.FAILED, "no memory", 5
    again = call_concurrently(lambda: request_zeta_curve(context, *pair))[0]
    assert (again.id, again.status, again.error, again.attempts) == (first, ResultStatus.QUEUED, None, 0)
    assert context.queue.list_active() == {Job(job_kinds.CURVE, first).workflow_id}


@pytest.mark.both_databases
def test_concurrent_uploads_share_file_until_last_is_released(context):
    content = npy(np.eye(3))
    embeddings = call_concurrently(lambda: create_embedding(context, [Incoming(BytesIO(content), "x.npy")]))
    assert len({embedding.files[0].file_sha256 for embedding in embeddings}) == 1
    with context.sessions.begin() as session:
        assert session.query(StoredFile).count() == 1
        for embedding in embeddings[1:]:
            session.delete(session.get_one(Embedding, embedding.id))
    sha256 = embeddings[0].files[0].file_sha256
    context.ledger.release(sha256)
    assert context.storage.exists(sha256)
    with context.sessions.begin() as session:
        session.delete(session.get_one(Embedding, embeddings[0].id))
    context.ledger.release(sha256)
    assert not context.storage.exists(sha256)
    gone = Stored("0" * 64, 1)
    with (
        pytest.raises(ConflictError, match="The same file was just deleted; upload it again"),
        context.ledger.recording(gone),
    ):
        pytest.fail("there is nothing to record")


@pytest.mark.both_databases
def test_concurrent_deletion_is_conflict(context, client, pair, monkeypatch, caplog):
    def delete_first(*_: object, **__: object) -> None:
        with context.sessions.begin() as session:
            session.add(ZetaCurve(embedding_id="gone", source="sample"))

    monkeypatch.setattr("app.embeddings.api.embeddings.service.commit_embedding", delete_first)
    answer = client.post(f"/api/embeddings/{pair[0]}/commit")
    assert answer.status_code == 409
    assert "was just changed or deleted" in answer.json()["detail"]
    assert "a request was overtaken: " in caplog.text


class TestPostgreSQL:
    def test_unreachable_database_returns_503(self, tmp_path, caplog):
        away = Settings(data_dir=tmp_path, database_url="postgresql://isoscope:secret@127.0.0.1:1/isoscope")
        with TestClient(create_app(away), base_url="http://localhost") as client:
            answer = client.get("/api/embeddings")
        assert answer.status_code == 503
        assert answer.json()["detail"] == "The database does not respond. Try again in a moment."
        [logged] = [record for record in caplog.records if "the database does not answer" in record.getMessage()]
        assert logged.exc_info is not None
        with pytest.raises(ConflictError, match="Start it, or correct ISOSCOPE_DATABASE_URL") as refused:
            require_database(away.database, "ISOSCOPE_DATABASE_URL")
        assert "isoscope:***@127.0.0.1" in str(refused.value)
        assert "secret" not in str(refused.value)

    def test_unreachable_queue_database_leaves_rows_to_reconciler(self, tmp_path, caplog):
        away = Settings(data_dir=tmp_path, queue_url="postgresql://isoscope:secret@127.0.0.1:1/queue")
        engine = create_database_engine(away.database)
        upgrade(engine)
        engine.dispose()
        began = time.monotonic()
        with TestClient(create_app(away), base_url="http://localhost") as client:
            created = client.post("/api/embeddings", files={"file": ("eye.npy", npy(np.eye(3)))})
            assert (created.status_code, created.json()["status"]) == (201, "inspecting")
            assert client.delete(f"/api/embeddings/{created.json()['id']}").status_code == 204
            assert client.delete("/api/trash").json()["embeddings"] == 1
        assert time.monotonic() - began < 20
        job = Job(job_kinds.INSPECT, created.json()["id"]).workflow_id
        assert f"the job engine's database does not answer; {job} has to wait: connection failed" in caplog.text
        assert "secret" not in caplog.text

    def test_worker_refuses_slot_held_by_other_machine(self, postgresql_url, tmp_path):
        settings = Settings(database_url=postgresql_url)
        with psycopg.connect(settings.queue, autocommit=True) as connection:
            connection.execute("select pg_advisory_lock(hashtextextended('isoscope:lab-7/cpu', 0))")
            folder = {"ISOSCOPE_DATA_DIR": str(tmp_path), "ISOSCOPE_DATABASE_URL": postgresql_url}
            command = [sys.executable, "-m", "workers", "--device", "cpu"]
            environment = os.environ | folder | {"ISOSCOPE_WORKER_NAME": "lab-7"}
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 1
        sentence = "Another worker already works as lab-7/cpu. Stop it first, or give this one another --device "
        assert ended.stderr.strip().endswith(f"{sentence}or another ISOSCOPE_WORKER_NAME.")


def json_text(text: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'


@pytest.fixture
def pair(context):
    return [add_embedding(context, contents=[b"x"], d=3) for _ in range(2)]


def call_concurrently(call):
    barrier = Barrier(4)

    def wait_and_call(_: int):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(wait_and_call, range(4)))
