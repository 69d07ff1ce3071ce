import asyncio
import os
import signal
import time
from multiprocessing import get_context

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.queue import migrate
from tests.waiting import wait_for
from workers.process import JobProcesses, _terminate


def test_a_process_does_a_job_of_every_kind_and_may_be_called_for_again_before_its_end(settings, sessions):
    migrate(settings.queue)
    processes = JobProcesses(settings, "cpu")
    curve = Job(job_kinds.CURVE, "no such row")

    async def run_all() -> list[int]:
        twice = await asyncio.gather(processes.run(curve), processes.run(curve))
        return [*twice, *[await processes.run(Job(kind, "no such row")) for kind in job_kinds.KINDS.values()]]

    assert asyncio.run(run_all()) == [0] * (2 + len(job_kinds.KINDS))
    processes.kill_all()


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_cancelled_job_leaves_no_process_and_no_task(settings, cancels):
    """As the engine does at its end: it cancels a step and the workflow around it, which cancels the step again."""
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
