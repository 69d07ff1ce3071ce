"""Each job runs in its own process, so that a kill is clean and all of its memory is freed.

Processes are forked from a server process that has imported torch and transformers once; a job starts in
milliseconds instead of the seconds those imports take. The server never starts threads or touches a device, so
forking it is safe.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pkgutil import resolve_name

from app.core.process import LOG_FORMAT, PROC, die_with_parent, read_memory_field
from app.core.settings import Settings
from app.db.job_kinds import BACKGROUND_PRIORITY, Job, Queue
from app.db.models.runs import RunningJob
from app.db.session import error_line
from app.db.types import utcnow
from app.queue import JobQueue
from workers.failure import DATABASE_ERRORS, DeviceLostError, is_disk_full


def read_group_memory(group: int) -> tuple[int | None, int | None]:
    """Return the current memory of a process group and the sum of its processes' peaks, in bytes; None if unknown."""
    status_paths = []
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            # A program's name may hold spaces and parentheses; state, parent and group follow it.
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                status_paths.append(process / "status")
    totals: list[int | None] = []
    for entry in ("VmRSS", "VmHWM"):  # resident memory now and at its peak
        sizes = [size for status in status_paths if (size := read_memory_field(status, entry)) is not None]
        totals.append(sum(sizes) if sizes else None)
    current, peak = totals
    return current, peak


logger = logging.getLogger(__name__)

SECONDS_TO_END = 10  # after SIGTERM
BACKGROUND_NICENESS = 10
# Exit codes of a job's process that could not reach the database, found the disk full, could not import its code, or
# lost its GPU: EX_TEMPFAIL, EX_IOERR, EX_UNAVAILABLE and EX_NOHOST of sysexits.h.
DATABASE_AWAY = 75
DISK_FULL = 74
LIBRARY_MISSING = 69
DEVICE_LOST = 68


class JobProcesses:
    """Starts and ends the processes of jobs; those with a model get ``model_threads`` threads (None: torch chooses)."""

    def __init__(self, settings: Settings, device: str, model_threads: int | None = None) -> None:
        self._settings = settings
        self._device = device
        self._model_threads = model_threads
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(["workers.preload"])
        # Keyed by process, because the engine may start a job again before its first process has ended.
        self._running: dict[ForkServerProcess, tuple[Job, datetime]] = {}
        self._is_stopped = False

    def time_device(self, slot: str) -> None:
        """Start a process that writes the device's speed into the worker's row; waits, so call it in a thread."""
        self._context.Process(
            target=_time_device, args=(slot, self._device, self._settings), name="speed", daemon=True
        ).start()

    async def run(self, job: Job) -> int:
        """Do a job in a new process and return its exit code, negative for a signal.

        If this call is cancelled, the process and all that it started end.
        """
        # Pass strings only, because a Job refers to columns of tables, which cannot be pickled.
        job_strings = (job.workflow_id, job.kind.work, job.row_id)
        niceness = BACKGROUND_NICENESS if job.kind.priority == BACKGROUND_PRIORITY else 0
        threads = self._model_threads if job.kind.queue is Queue.GPU else None
        process = self._context.Process(
            target=_run_job, args=(*job_strings, self._settings, self._device, niceness, threads), name=job.workflow_id
        )
        # Start in a thread, because this waits for the fork server, which may still import libraries.
        await asyncio.to_thread(process.start)
        self._running[process] = (job, utcnow())
        if self._is_stopped:  # ``kill_all`` was called before the process started
            _signal_group(process, signal.SIGKILL)
        try:
            await _wait_for_end(process)
        finally:
            await _terminate(process)
            del self._running[process]
        return process.exitcode or 0

    def running_jobs(self) -> list[RunningJob]:
        jobs = []
        for process, (job, since) in list(self._running.items()):
            current, peak = read_group_memory(process.pid or 0)
            jobs.append(RunningJob(id=job.workflow_id, since=since, memory_bytes=current, peak_bytes=peak))
        return jobs

    def kill_all(self) -> None:
        """Kill every job's process, including those that have yet to start."""
        self._is_stopped = True
        for process in list(self._running):
            _signal_group(process, signal.SIGKILL)


async def _wait_for_end(process: ForkServerProcess, seconds: float | None = None) -> None:
    """Wait for the end of a process without blocking the loop; raise TimeoutError after ``seconds``."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()


async def _terminate(process: ForkServerProcess) -> None:
    """Send SIGTERM to the process group, and SIGKILL if it does not end in time."""
    if process.exitcode is not None:
        return
    _signal_group(process, signal.SIGTERM)
    try:
        await _wait_for_end(process, SECONDS_TO_END)
    except BaseException as error:
        _signal_group(process, signal.SIGKILL)
        process.join()
        if not isinstance(error, TimeoutError):
            raise


def _signal_group(process: ForkServerProcess, signal_number: signal.Signals) -> None:
    if process.pid is None:
        return
    try:
        os.killpg(process.pid, signal_number)
    except ProcessLookupError:  # the process has ended, or has not yet made its group
        process.kill()


def do_job(work: str, row_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Call the function that ``work`` names (``JobKind.work``); return the follow-up jobs."""
    follow_up_jobs: Sequence[Job] = resolve_name(work)(row_id, settings, device)
    return follow_up_jobs


def _run_job(
    workflow_id: str, work: str, row_id: str, settings: Settings, device: str, niceness: int, threads: int | None
) -> None:
    """Run a job in this process, which exists for it, then enqueue the follow-up jobs."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    os.nice(niceness)
    try:
        if threads is not None:
            import torch  # noqa: PLC0415 - the fork server has it already

            torch.set_num_threads(threads)
        follow_up_jobs = do_job(work, row_id, settings, device)
    except Exception as error:
        if is_disk_full(error):
            logger.warning("%s had no room on the disk: %s", workflow_id, error_line(error))
            sys.exit(DISK_FULL)
        if isinstance(error, DATABASE_ERRORS):
            logger.warning("%s could not reach the database: %s", workflow_id, error_line(error))
            sys.exit(DATABASE_AWAY)
        if isinstance(error, ImportError):
            logger.exception("%s needs a library that is missing or too old", workflow_id)
            sys.exit(LIBRARY_MISSING)
        if isinstance(error, DeviceLostError):
            logger.exception("%s lost its device", workflow_id)
            sys.exit(DEVICE_LOST)
        raise
    if immediate_jobs := [job for job in follow_up_jobs if not job.kind.waits_in_row]:
        queue = JobQueue(settings.queue)
        for job in immediate_jobs:
            queue.ensure_enqueued(job)
        queue.close()


def _time_device(slot: str, device: str, settings: Settings) -> None:
    from workers.speed import write_speed  # noqa: PLC0415 - it imports torch, which the fork server has already

    write_speed(slot, device, settings)
