"""A data folder, exports and requests of version 0.1 (1909e121) still work, and its stopped run resumes."""

import json
import re
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import MetaData, create_engine, insert, select

from app.context import Context, create_context
from app.core.settings import Settings
from app.db.migration import upgrade
from app.db.models import Run, RunStatus
from app.db.session import create_database_engine
from app.main import create_app
from app.operations.migrate import migrate
from isoscope.core.errors import ConflictError
from isoscope.files.yaml_document import read_yaml
from tests.archives import finish_imports
from workers.process import do_job

FIXTURES = Path(__file__).parents[1] / "fixtures" / "version_0_1"
RECORDS = json.loads((FIXTURES / "told.json").read_text())
IDS = RECORDS["ids"]
ANSWERS = json.loads((FIXTURES / "answers.json").read_text())
REMOVED_FIELDS = {"starred", "archived_at"}
LINK = re.compile(r'(?:href|hx-get|src)="(/[^"#?]*)')
EXPORTS = ("sweep", "search", "logged")
LAST_CHECKPOINT = 41


class UpgradedDashboard(NamedTuple):
    """A dashboard on an upgraded data folder."""

    client: TestClient
    context: Context


@pytest.fixture
def data_dir(tmp_path) -> Path:
    folder = tmp_path / "data"
    with tarfile.open(FIXTURES / "data.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def copy_rows(source: str, target: str) -> None:
    upgrade(engine := create_database_engine(target), "0029")
    tables = MetaData()
    tables.reflect(engine)
    source_engine = create_engine(source)
    with source_engine.connect() as rows, engine.begin() as connection:
        connection.exec_driver_sql("SET session_replication_role = replica; SET TIME ZONE 'UTC'")
        for table in tables.sorted_tables:
            if table.name != "alembic_version" and (copied_rows := rows.execute(select(table)).mappings().all()):
                connection.execute(insert(table), [dict(row) for row in copied_rows])
    engine.dispose()
    source_engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def upgraded(request, data_dir, models_dir) -> Iterator[UpgradedDashboard]:
    database = {}
    if request.param == "postgresql":
        url = request.getfixturevalue("empty_postgresql_url")
        copy_rows(f"sqlite:///{data_dir}/isoscope.sqlite", Settings(database_url=url).database)
        for file in data_dir.glob("*.sqlite"):
            file.unlink()
        database = {"database_url": url}
    settings = Settings(data_dir=data_dir, models_dir=models_dir, sample=False, **database)
    migrate(settings)
    context = create_context(settings)
    with TestClient(create_app(settings), base_url="http://localhost", follow_redirects=False) as client:
        yield UpgradedDashboard(client, context)
    context.close()


def assert_same_numbers(before: Any, after: Any, path: str = "") -> None:
    """Compare the fields that both versions answer with."""
    if isinstance(before, dict) and isinstance(after, dict):
        assert before.keys() - after.keys() <= REMOVED_FIELDS, path
        for key in before.keys() & after.keys():
            assert_same_numbers(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list):
        assert len(before) == len(after), path
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            assert_same_numbers(old, new, f"{path}[{position}]")
    else:
        assert before == after, path


@pytest.mark.long
def test_upgrade_keeps_every_answer_and_every_link(upgraded):
    for address, before in ANSWERS.items():
        response = upgraded.client.get(f"/api/{address}")
        assert response.status_code == 200, (address, response.text)
        assert_same_numbers(before, response.json(), address)
    visited, waiting = set(), ["/"]
    while waiting:
        address = waiting.pop()
        if address in visited:
            continue
        visited.add(address)
        response = upgraded.client.get(address, headers={"accept": "text/html"})
        assert response.status_code in (200, 303, 307), (address, response.text)
        if response.headers.get("content-type", "").startswith("text/html"):
            waiting += [link for link in LINK.findall(response.text) if not link.startswith("/static/")]
    for kind in ("embeddings", "experiments", "datasets", "encodings", "runs", "tasks"):
        assert any(address.startswith(f"/{kind}/") for address in visited), kind


@pytest.mark.long
def test_stopped_run_resumes_and_old_requests_launch(upgraded):
    with upgraded.context.sessions() as session:
        runs = session.scalars(select(Run).where(Run.experiment_id == IDS["stopped"])).all()
        stopped = next(run for run in runs if run.steps)
        assert stopped.status in (RunStatus.QUEUED, RunStatus.RUNNING)
        run_id, steps = stopped.id, {step.step: step.task_loss for step in stopped.steps}
    with upgraded.context.sessions.begin() as session:  # as the reconciler does after a worker is lost
        run = session.get_one(Run, run_id)
        run.status, run.worker = RunStatus.QUEUED, None
    do_job("workers.training.job:fine_tune", run_id, upgraded.context.settings, "cpu")
    with upgraded.context.sessions() as session:
        run = session.get_one(Run, run_id)
        assert (run.status, run.error) == (RunStatus.FINISHED, None)
        assert f"step {LAST_CHECKPOINT}" in (run.log or "") + " ".join(map(str, run.notes))
        resumed_steps = {step.step: step.task_loss for step in run.steps}
    assert {step: loss for step, loss in steps.items() if step <= LAST_CHECKPOINT}.items() <= resumed_steps.items()
    for name in ["sweep", "search", "grid"]:
        path = "/api/studies" if name == "search" else "/api/experiments"
        from_yaml = read_yaml((FIXTURES / f"{name}.yaml").read_text())
        responses = [upgraded.client.post(path, json=request) for request in (RECORDS["requests"][name], from_yaml)]
        assert [response.status_code for response in responses] == [201, 201]
        first, second = (response.json() for response in responses)
        assert (first["config"], first["grid"]) == (second["config"], second["grid"])


def test_export_is_imported_with_the_same_numbers(client, context):
    for name in EXPORTS:
        with (FIXTURES / f"{name}.zip").open("rb") as file:
            response = client.post("/api/experiments/import", files={"file": (f"{name}.zip", file)})
        assert response.status_code == 202, response.text
        finish_imports(context)
        imported = client.get(f"/api/imports/{response.json()['id']}").json()
        assert (imported["status"], imported["error"]) == ("finished", None)
        runs = client.get(f"/api/experiments/{imported['experiment_id']}").json()["runs"]
        numbers = [[run[key] for key in ("performance", "isoscore_star", "lam", "seed")] for run in runs]
        before = ANSWERS[f"experiments/{IDS[name]}"]["runs"]
        assert numbers == [[run[key] for key in ("performance", "isoscore_star", "lam", "seed")] for run in before]


def test_database_older_than_0_1_is_refused_and_untouched(data_dir, tmp_path):
    with sqlite3.connect(data_dir / "isoscope.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0017'")
    connection.close()
    shutil.copytree(data_dir, tmp_path / "before")
    with pytest.raises(ConflictError, match=r"revision 0017.* Start it once with Isoscope 0\.1 \(commit 1909e121\)"):
        migrate(Settings(data_dir=data_dir, sample=False))
    for file in (tmp_path / "before").glob("*.sqlite"):
        assert (data_dir / file.name).read_bytes() == file.read_bytes()
