"""A worker process: ``python -m workers --device cpu``."""

import argparse
import logging
import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path
from threading import Thread

from app.core import process
from app.core.settings import Settings
from app.db.migration import require_schema
from app.db.session import create_sessions, require_database
from app.db.work import slot_name
from app.queue import JobQueue, processing_jobs
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import IsoscopeError
from isoscope.threads import limit_thread_spinning
from workers.executor import Executor, JobFeeder
from workers.job_rows import PATIENCE_SECONDS
from workers.locks import Heartbeat, open_locks
from workers.process import JobProcesses
from workers.reconciler import Janitor, Reconciler

# Shorter than ``serve`` waits. A database call or thread that still hangs by then is ended as if killed.
EXIT_SECONDS = 15


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu, mps, cuda:0, ... (default: %(default)s)")
    parser.add_argument(process.PARENT_FLAG, action="store_true", help="stop when standard input closes")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format=process.LOG_FORMAT)
    os.umask(process.PRIVATE_UMASK)
    settings = Settings()
    limit_thread_spinning()
    try:
        work(settings, find_device() if arguments.device == "auto" else arguments.device, lifeline=arguments.lifeline)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def find_device() -> str:
    """Return the first GPU that torch can use, or ``cpu``."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return "cpu"
    # This process must not load torch, and a subprocess takes seconds to import it, so read the version file first.
    version = runpy.run_path(str(Path(torch.origin).with_name("version.py")))
    if sys.platform == "linux" and not version.get("cuda") and not version.get("hip"):
        return "cpu"
    script = (
        "import torch; print('cuda:0' if torch.cuda.is_available() else "
        "'mps' if torch.backends.mps.is_available() else 'cpu')"
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - fixed


def work(settings: Settings, device: str, *, lifeline: bool) -> None:
    """Hold the device's slot and take jobs until SIGTERM or SIGINT."""
    stop = process.StopSignals()
    process.raise_file_limit()
    if lifeline:
        process.watch_parent()
    settings.create_folders()
    require_database(settings.database, "ISOSCOPE_DATABASE_URL")
    require_schema(settings.database)
    slot = slot_name(settings, device)
    sessions = create_sessions(settings.database, patience=PATIENCE_SECONDS)
    queue = JobQueue(settings.queue)
    processes = JobProcesses(settings, device)
    executor = Executor(sessions, processes, slot, settings.runs)
    with open_locks(settings.queue, settings.root / "locks", fence=processes.kill_all) as locks, locks.held(slot):
        forkserver.ensure_running()  # so that the first job does not wait for imports
        logging.info("ready on %s", device)
        with (
            Heartbeat(sessions, slot, device, processes.running_jobs),
            processing_jobs(settings.queue, slot, executor.execute),
            Reconciler(sessions, queue, slot, locks, executor.active_ids, settings.webhook_url),
            Janitor(settings, Ledger(sessions, open_storage(settings)), queue, locks),
            JobFeeder(sessions, queue, slot, locks, executor.deferred_ids),
        ):
            Thread(target=processes.time_device, args=(slot,), name="speed", daemon=True).start()
            stop.wait()
            process.exit_within(EXIT_SECONDS)
            executor.stop()
    queue.close()


if __name__ == "__main__":
    # Not sys.exit, which would wait for a process that starts late, once the fork server has imported all libraries.
    os._exit(main())
