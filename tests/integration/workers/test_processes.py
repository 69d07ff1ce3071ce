import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.queue import migrate
from tests.waiting import wait_for
from workers.process import LIBRARY_MISSING, JobProcesses, _terminate


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
def test_cancelled_job_leaves_no_process_and_no_task(settings, cancels):
    """The engine cancels a step and then its workflow, which cancels the step again."""
    process = get_context("spawn").Process(target=sleep_through_sigterm)
    process.start()
    wait_for(process.is_alive)

    async def end() -> set[asyncio.Task[None]]:
        task = asyncio.create_task(_terminate(process))
        for _ in range(cancels):
            await asyncio.sleep(0.1)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(end()) == set()
    assert process.exitcode is not None


def sleep_through_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    time.sleep(60)
