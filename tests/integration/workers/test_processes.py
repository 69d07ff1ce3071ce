"""Processes of jobs whose row is gone, so that each ends by itself."""

import asyncio

import pytest

from app.queue import Job, JobKind, migrate
from workers.process import JobProcesses

pytestmark = pytest.mark.one_database


def test_a_job_may_be_called_for_again_before_its_first_process_is_at_its_end(settings, sessions):
    migrate(settings.queue)
    processes = JobProcesses(settings, "cpu")
    job = Job(JobKind.CURVE, "no such row")

    async def run_twice() -> list[int]:
        return await asyncio.gather(processes.run(job), processes.run(job))

    assert asyncio.run(run_twice()) == [0, 0]
    processes.kill_all()
