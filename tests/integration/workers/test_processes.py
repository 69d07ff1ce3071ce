import asyncio
import dataclasses
import io
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import StoredFile
from app.db.types import utcnow
from app.db.work import FileLocks
from app.queue import migrate
from app.storage import open_storage
from app.storage.ledger import Ledger
from tests.waiting import wait_for
from workers.process import LIBRARY_MISSING, JobProcesses, _terminate
from workers.reconciler import Janitor

DAY = 24 * 60 * 60


def test_process_runs_every_kind_of_job_until_killed(settings, sessions):
    migrate(settings.queue)
    processes = JobProcesses(settings, "cpu")
    curve = Job(job_kinds.CURVE, "no such row")

    async def run_all() -> list[int]:
        twice = await asyncio.gather(processes.run(curve), processes.run(curve))
        return [*twice, *[await processes.run(Job(kind, "no such row")) for kind in job_kinds.KINDS.values()]]

    assert asyncio.run(run_all()) == [0] * (2 + len(job_kinds.KINDS))
    processes.kill_all()
    assert asyncio.run(processes.run(curve)) == -signal.SIGKILL


def test_job_with_missing_library_has_its_exit_code(settings):
    kind = dataclasses.replace(job_kinds.CURVE, work="a_module_that_is_missing:work")
    assert asyncio.run(JobProcesses(settings, "cpu").run(Job(kind, "row"))) == LIBRARY_MISSING


def test_import_error_of_jobs_is_logged_and_does_not_end_server(tmp_path):
    (tmp_path / "torch.py").write_text("raise AttributeError('of an old library')")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"}
    command = [sys.executable, "-c", "import workers.preload"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert "Jobs will fail: a library is missing or too old." in process.stderr
    assert "of an old library" in process.stderr


@pytest.mark.parametrize("cancels", [1, 2])
def test_cancelled_job_leaves_no_process_and_no_task(tmp_path, forked, cancels):
    """The engine cancels a step and then its workflow, which cancels the step again."""
    process = forked.Process(target=sleep_through_sigterm, args=(ready := tmp_path / "ready",))
    process.start()
    wait_for(ready.exists, 60)

    async def end() -> set[asyncio.Task[None]]:
        task = asyncio.create_task(_terminate(process))
        for _ in range(cancels):
            await asyncio.sleep(0.1)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(end()) == set()
    assert process.exitcode is not None


def sleep_through_sigterm(ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    ready.touch()
    time.sleep(60)


@pytest.fixture
def ledger(settings, sessions):
    return Ledger(sessions, open_storage(settings))


def store_file(ledger, content, seconds_ago):
    sha256 = ledger.store(io.BytesIO(content), 100).sha256
    os.utime(ledger.storage.local_path(sha256), (time.time() - seconds_ago,) * 2)
    return sha256


@pytest.fixture
def referenced(sessions, ledger):
    sha256 = store_file(ledger, b"named", 3 * DAY)
    with sessions.begin() as session:
        session.add(StoredFile(sha256=sha256, size_bytes=5, created_at=utcnow() - timedelta(days=3)))
    return sha256


def test_unreferenced_files_are_deleted_after_a_day(ledger, referenced):
    old, fresh = store_file(ledger, b"old", 2 * DAY), store_file(ledger, b"fresh", DAY - 60)
    assert ledger.sweep() == 1
    assert {key: ledger.storage.exists(key) for key in (old, fresh, referenced)} == {
        old: False,
        fresh: True,
        referenced: True,
    }


def test_files_older_than_every_row_are_kept(ledger, sessions):
    old = store_file(ledger, b"old", 2 * DAY)
    assert ledger.sweep() == 0
    with sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=5, created_at=utcnow() - timedelta(days=1)))
    assert ledger.sweep() == 0
    assert ledger.storage.exists(old)


@pytest.fixture
def queue():
    class UnreachableQueue:
        def delete_ended(self, days):
            raise OperationalError("delete", {}, ConnectionError("away"))

    return UnreachableQueue()


def test_worker_sweeps_when_it_starts(settings, ledger, queue, referenced, tmp_path):
    old = store_file(ledger, b"old", 2 * DAY)
    with Janitor(settings, ledger, queue, FileLocks(tmp_path)):
        wait_for(lambda: not ledger.storage.exists(old))
    assert ledger.storage.exists(referenced)


@pytest.mark.both_databases
def test_one_worker_sweeps_and_each_removes_folders_of_runs_ended_elsewhere(
    settings, ledger, queue, referenced, tmp_path
):
    folder, locks = settings.runs / "moved", FileLocks(tmp_path)
    (folder / "checkpoint-4").mkdir(parents=True)
    old = store_file(ledger, b"old", 2 * DAY)
    with locks.held("janitor"), Janitor(settings, ledger, queue, locks):
        time.sleep(0.5)
        wait_for(lambda: not folder.exists())
    assert ledger.storage.exists(old)
