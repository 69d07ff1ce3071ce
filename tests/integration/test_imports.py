import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from sqlalchemy import func, select, text, update

from app.db import job_kinds, removal
from app.db.job_kinds import Job
from app.db.models import Dataset, Experiment, Import, ImportStatus, Run, RunFigure, RunStatus, Step
from app.db.session import INCLUDE_HIDDEN
from app.db.work import list_waiting_jobs
from app.results.archive.reading import open_archive
from app.training.experiments import delete_experiment
from isoscope.core.errors import ConflictError
from tests import factories
from tests.archives import add_experiment, export, finish_imports, unpack
from tests.factories import SHARED
from workers.executor import Executor
from workers.imports import job, tables
from workers.imports.tables import TABLES, ImportTarget, refuse_duplicate
from workers.job_rows import JobProgress, StoppedError

ROWS = 19 + 38 + 57 + 17
"""Runs, attempts, steps and figures."""
PAGES = ("/", "/experiments", "/runs", "/compare/runs", "/datasets", "/api/experiments", "/api/runs", "/api/datasets")


class StoppedHere(BaseException):
    """Stands for a killed process: no code in a job catches it."""


@pytest.fixture
def archive(client, context, tmp_path):
    path = tmp_path / "sweep.zip"
    path.write_bytes(export(client, add_experiment(context)))
    with context.sessions.begin() as session:
        for experiment in session.scalars(select(Experiment)):
            session.delete(experiment)
        session.flush()
        session.query(Dataset).delete()
    return path


@pytest.fixture
def import_id(client, archive):
    answer = client.post("/api/experiments/import", files={"file": ("sweep.zip", archive.read_bytes())})
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert answer.headers["location"] == f"/api/imports/{answer.json()['id']}"
    return answer.json()["id"]


@pytest.fixture
def kill_after(context, import_id, monkeypatch):
    monkeypatch.setattr(job, "TABLES", tuple(table._replace(batch_rows=5) for table in TABLES))
    monkeypatch.setattr(removal, "STEPS_AT_ONCE", 2)

    def kill_after(batches):
        write, remaining = JobProgress.write, batches

        def count_batches(progress, session, **values):
            nonlocal remaining
            if "written" in values:
                remaining -= 1
            if remaining < 0:
                raise StoppedHere
            write(progress, session, **values)

        with monkeypatch.context() as patched:
            patched.setattr(JobProgress, "write", count_batches)
            with pytest.raises(StoppedHere):
                job.import_experiment(import_id, context.settings, "cpu")

    return kill_after


def count(context, *, hidden):
    with context.sessions() as session:
        counts = [select(func.count()).select_from(table) for table in (Experiment, Dataset, Run)]
        return [session.scalar(query, execution_options={INCLUDE_HIDDEN: hidden}) for query in counts]


@pytest.mark.both_databases
def test_killed_import_is_hidden_and_resumed(client, context, import_id, monkeypatch, kill_after):
    before = {page: client.get(page, headers={"accept": "text/html"}).text for page in PAGES}
    kill_after(8)
    assert (count(context, hidden=True), count(context, hidden=False)) == ([1, 1, 19], [0, 0, 0])
    import_row = client.get(f"/api/imports/{import_id}").json()
    assert (import_row["status"], import_row["done"], import_row["total"]) == ("running", 19 + 4 * 5, ROWS)
    with context.sessions() as session:
        run_id = session.scalar(select(Run.id), execution_options={INCLUDE_HIDDEN: True})
        assert session.get(Run, run_id) is None
    for path in (f"experiments/{import_row['experiment_id']}", f"runs/{run_id}"):
        assert (client.get(f"/api/{path}").status_code, client.get(f"/{path}").status_code) == (404, 404)
    assert {page: client.get(page, headers={"accept": "text/html"}).text for page in PAGES} == before
    again = []
    monkeypatch.setattr(job, "read_in_sandbox", lambda *_: again.append("read"))
    assert list_waiting_jobs(context.sessions) == [Job(job_kinds.IMPORT, import_id)]
    finish_imports(context)
    import_row = client.get(f"/api/imports/{import_id}").json()
    assert (import_row["status"], import_row["done"], import_row["error"], again) == ("finished", ROWS, None, [])
    assert count(context, hidden=False) == [1, 1, 19]
    with context.sessions() as session:
        assert session.scalar(select(func.count()).select_from(Step)) == 57
        assert session.scalar(select(func.count()).select_from(RunFigure)) == 17
    assert list(context.storage.list_files()) == []


def test_cancelled_import_stops_and_leaves_no_rows(client, context, import_id, kill_after):
    with context.sessions() as session:
        row = session.get_one(Import, import_id)
    page = client.get(f"/imports/{import_id}").text
    assert "No worker is running. The import resumes when one starts." in page
    assert f'href="/imports/{import_id}"' in client.get("/experiments/import").text
    assert f'<a href="/imports/{import_id}">sweep.zip</a>' in client.get("/queue").text
    kill_after(8)
    progress = JobProgress(context.sessions, Import, ImportStatus.RUNNING, import_id, row.created_at)  # an old attempt
    with context.sessions.begin() as session, pytest.raises(StoppedError):
        progress.write(session, content="x")
    imports = client.get("/api/queue").json()["imports"]
    assert [(listed["id"], listed["status"], listed["done"], listed["total"]) for listed in imports] == [
        (import_id, "running", 39, ROWS)
    ]
    assert f"39 of {ROWS}" in client.get("/queue").text
    assert 'max="131"' in client.get(f"/imports/{import_id}").text
    answer = client.post(f"/imports/{import_id}/cancel", data={"back": "queue"})
    assert answer.headers["location"] == "/queue"
    page = client.get("/queue").text
    assert '<span class="tag removing">removing</span>' in page
    assert "Cancel: sweep.zip" not in page
    assert client.get(f"/api/imports/{import_id}").json()["status"] == "removing"
    assert list_waiting_jobs(context.sessions) == [Job(job_kinds.DISCARD, import_id)]
    finish_imports(context)
    assert client.get(f"/api/imports/{import_id}").json()["status"] == "cancelled"
    assert "sweep.zip" not in client.get("/queue").text
    assert client.get("/api/queue").json()["imports"] == []
    assert count(context, hidden=True) == [0, 0, 0]
    assert list(context.storage.list_files()) == []
    refused = client.post(f"/api/imports/{import_id}/cancel")
    assert refused.status_code == 409
    assert refused.json()["detail"] == "Only a queued or running import can be cancelled. This one is cancelled."


def test_failed_import_is_removed_with_reason(client, context, import_id, kill_after):
    kill_after(8)
    with context.sessions.begin() as session:
        session.execute(update(Import).values(attempts=5, error="signal SIGKILL"))
    executor = Executor(context.sessions, None, "slot", context.settings.runs)
    assert executor._begin(Job(job_kinds.IMPORT, import_id), None, None) is None
    assert client.get(f"/api/imports/{import_id}").json()["status"] == "removing"
    finish_imports(context)
    import_row = client.get(f"/api/imports/{import_id}").json()
    assert (import_row["status"], "ended 5 times without progress" in import_row["error"]) == ("failed", True)
    assert count(context, hidden=True) == [0, 0, 0]


def test_janitor_removes_rows_of_failed_discard(client, context, import_id, kill_after):
    kill_after(8)
    client.post(f"/api/imports/{import_id}/cancel")
    with context.sessions.begin() as session:
        session.execute(update(Import).values(status=ImportStatus.FAILED, error="Given up."))
    assert (count(context, hidden=True), count(context, hidden=False)) == ([1, 1, 19], [0, 0, 0])
    assert removal.resume_removals(context.sessions) == 1
    assert count(context, hidden=True) == [0, 0, 0]
    with context.sessions() as session:
        assert session.get_one(Import, import_id).file_sha256 is None
    assert removal.resume_removals(context.sessions) == 0


@pytest.mark.both_databases
def test_concurrent_import_of_same_rows_fails(client, context, import_id, archive, kill_after):
    kill_after(8)
    second = client.post("/api/experiments/import", files={"file": ("again.zip", archive.read_bytes())}).json()["id"]
    job.import_experiment(second, context.settings, "cpu")
    import_row = client.get(f"/api/imports/{second}").json()
    assert (import_row["status"], import_row["error"]) == ("failed", "This experiment is already being imported.")
    assert import_row["page"] == f"/imports/{import_id}"
    with context.sessions.begin() as session:
        hidden = session.scalar(select(Experiment), execution_options={INCLUDE_HIDDEN: True})
        existing = Dataset(name="x", origin="named", columns=[])
        session.add(Experiment(name="y", dataset=existing, config=SHARED, origin="imported", source=hidden.source))
    assert client.delete(f"/api/datasets/{hidden.dataset_id}").status_code == 404
    finish_imports(context)
    assert client.get(f"/api/imports/{import_id}").json()["status"] == "finished"
    datasets = [row["id"] for row in client.get("/api/datasets").json()]
    assert datasets == [existing.id], "the data set created meanwhile is reused"
    assert client.get(f"/api/experiments/{hidden.id}").json()["dataset_id"] == existing.id
    assert client.get(f"/imports/{import_id}").headers["location"] == f"/experiments/{hidden.id}"
    renewed = client.get(f"/imports/{import_id}", headers={"HX-Request": "true"})
    assert renewed.headers["hx-redirect"] == f"/experiments/{hidden.id}"
    assert client.get("/api/imports/nothing").json()["detail"].startswith("There is no import 'nothing'.")


def test_data_set_of_hidden_experiment_is_not_deleted(client, context, import_id, kill_after):
    with context.sessions.begin() as session:
        existing = Dataset(name="x", origin="named", columns=[])
        session.add(existing)
    kill_after(8)
    with context.sessions.begin() as session:
        session.execute(update(Experiment).values(dataset_id=existing.id))
    assert client.delete(f"/api/datasets/{existing.id}").status_code == 409


def test_old_imports_are_pruned_unless_they_hide_rows(client, context, archive):
    with context.sessions.begin() as session:
        dataset = Dataset(name="x", origin="named", columns=[])
        experiment = Experiment(name="y", dataset=dataset, config=SHARED)
        session.add(experiment)
        session.flush()
        ended = {"finished_at": experiment.created_at.replace(year=2025), "filename": "x"}
        session.add(Import(id="hiding", status=ImportStatus.FAILED, experiment_id=experiment.id, **ended))
        session.add(Import(id="over", status=ImportStatus.CANCELLED, **ended))
    client.post("/api/experiments/import", files={"file": ("sweep.zip", archive.read_bytes())})
    assert {row["id"] for row in client.get("/api/imports").json()} & {"hiding", "over"} == {"hiding"}
    assert client.get("/api/experiments").json() == []


def test_batches_are_bounded_by_rows_and_bytes(archive, monkeypatch):
    runs, target = TABLES[0]._replace(batch_rows=5), ImportTarget("import", "experiment")
    with open_archive(archive) as opened:
        sizes = [len(batch) for batch in runs.batches(opened, target)]
        longest = max(map(len, unpack(archive.read_bytes())["runs.jsonl"].splitlines()))
        monkeypatch.setattr(tables, "MAX_BATCH_BYTES", 2 * longest)
        bounded = [len(batch) for batch in runs.batches(opened, target)]
        sizes_after_skip = [len(batch) for batch in runs.batches(opened, target, skip=17)]
    assert (sizes, sum(bounded), sizes_after_skip) == ([5, 5, 5, 4], 19, [2])
    assert max(bounded) <= 3


def count_all(context, table):
    with context.sessions() as session:
        return session.scalar(select(func.count()).select_from(table), execution_options={INCLUDE_HIDDEN: True})


@pytest.mark.parametrize("transactions", [1, 21])
@pytest.mark.both_databases
def test_interrupted_removal_is_hidden_and_resumed(client, context, monkeypatch, transactions):
    monkeypatch.setattr(removal, "STEPS_AT_ONCE", 2)
    monkeypatch.setattr(removal, "RUNS_AT_ONCE", 5)
    experiment_id = add_experiment(context)
    run_id = client.get(f"/api/experiments/{experiment_id}").json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.execute(update(Run).values(status=RunStatus.FINISHED))
    steps, runs = count_all(context, Step), count_all(context, Run)
    with monkeypatch.context() as patched:
        pauses = Mock(side_effect=[*[None] * (transactions - 1), StoppedHere])
        patched.setattr(removal, "let_others_write", pauses)
        with pytest.raises(StoppedHere):
            delete_experiment(context, experiment_id)
    assert 0 < count_all(context, Step) + count_all(context, Run) < steps + runs
    for path in (f"experiments/{experiment_id}", f"runs/{run_id}"):
        assert (client.get(f"/api/{path}").status_code, client.get(f"/{path}").status_code) == (404, 404)
    assert client.get("/api/experiments").json() == client.get("/api/runs").json() == []
    assert client.delete(f"/api/experiments/{experiment_id}").status_code == 404
    archive = SimpleNamespace(experiment=SimpleNamespace(id=experiment_id), content="c" * 64)
    with context.sessions() as session, pytest.raises(ConflictError, match="is being deleted"):
        refuse_duplicate(session, archive, "i" * 32)
    assert removal.resume_removals(context.sessions) == 1
    assert [count_all(context, table) for table in (Experiment, Run, Step)] == [0, 0, 0]
    assert removal.resume_removals(context.sessions) == 0


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_experiment_of_later_version_is_listed_and_deleted(client, context):
    broken, intact = (factories.add_experiment(context, factories.run_row(), name=name) for name in ("broken", "whole"))
    written = text("update experiments set config = :config where id = :id")
    with context.sessions.begin() as session:
        config = session.get_one(Experiment, broken).config.model_dump(mode="json") | {"schedule": "of a later version"}
        session.execute(written, {"config": json.dumps(config), "id": broken})
    page = client.get("/experiments")
    assert page.status_code == 200
    assert "broken" in page.text
    assert client.get("/").status_code == 200
    assert {experiment["name"] for experiment in client.get("/api/experiments").json()} == {"broken", "whole"}
    assert client.delete(f"/api/experiments/{broken}").status_code == 204
    assert [experiment["id"] for experiment in client.get("/api/experiments").json()] == [intact]
