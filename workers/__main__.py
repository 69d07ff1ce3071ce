"""A worker process: ``python -m workers --device cpu``."""

import argparse
import logging
import os
import sys
from multiprocessing import forkserver
from threading import Thread

from app.core import process
from app.core.settings import MAX_RUNS_PER_DEVICE, Settings
from app.db.job_kinds import Job, Queue
from app.db.migration import require_schema
from app.db.session import create_sessions, require_database
from app.queue import JobQueue, processing_jobs
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import IsoscopeError
from isoscope.core.formatting import plural
from isoscope.threads import limit_thread_spinning
from workers.executor import Executor, JobFeeder
from workers.job_rows import RECONNECT_SECONDS
from workers.locks import Heartbeat, open_locks
from workers.placement import Device, choose_device, may_start
from workers.process import JobProcesses
from workers.reconciler import Janitor, Reconciler

# After this long, a worker that still waits for a database call or a thread ends as if killed. ``serve`` waits longer.
EXIT_SECONDS = 15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu, mps, cuda:0, ... (default: %(default)s)")
    parser.add_argument(process.LIFELINE_FLAG, action="store_true", help="stop when standard input closes")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format=process.LOG_FORMAT)
    os.umask(process.PRIVATE_UMASK)
    settings = Settings()
    limit_thread_spinning()
    try:
        work(settings, choose_device(settings, arguments.device), ends_with_parent=arguments.lifeline)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def work(settings: Settings, device: Device, *, ends_with_parent: bool) -> None:
    """Hold the device's slot and take jobs until SIGTERM or SIGINT."""
    stop = process.StopSignals()
    process.raise_file_limit()
    if ends_with_parent:
        process.watch_parent()
    settings.create_folders()
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    sessions = create_sessions(settings.database, retry_seconds=RECONNECT_SECONDS)
    queue = JobQueue(settings.queue)
    processes = JobProcesses(settings, device.name, device.threads_per_run)

    def is_refused(job: Job) -> bool:
        return job.kind.queue is Queue.GPU and not may_start(sessions, device, job, queue.read_queue(Queue.GPU))

    executor = Executor(sessions, processes, device.slot, settings.runs, is_refused)
    with (
        open_locks(settings.queue, settings.root / "locks", kill_jobs=processes.kill_all) as locks,
        locks.held(device.slot),
    ):
        forkserver.ensure_running()  # so that the first job does not wait for imports
        logging.info("ready on %s, for at most %s at once", device.name, plural(device.max_runs, "run"))
        with (
            Heartbeat(sessions, device, processes.running_jobs),
            processing_jobs(settings.queue, device.slot, executor.execute, MAX_RUNS_PER_DEVICE),
            Reconciler(sessions, queue, device.slot, locks, executor.active_ids, settings.webhook_url),
            Janitor(settings, Ledger(sessions, open_storage(settings)), queue, locks),
            JobFeeder(sessions, queue, device, locks, executor.deferred_ids),
        ):
            Thread(target=processes.time_device, args=(device.slot,), name="speed", daemon=True).start()
            stop.wait()
            process.exit_within(EXIT_SECONDS)
            executor.stop()
    queue.close()


if __name__ == "__main__":
    # Not sys.exit, which would wait for a process that cannot start until the fork server has imported all libraries.
    os._exit(main())
