from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from app.context import Context
from app.db.job_kinds import Job
from app.db.work import FileLocks, list_waiting_jobs
from app.queue import Execute, processing_jobs
from workers.executor import JobFeeder
from workers.placement import Device
from workers.process import do_job


@contextmanager
def worker_loop(context: Context, slot: str, execute: Execute) -> Iterator[None]:
    locks = FileLocks(context.settings.root / "locks")
    with (
        processing_jobs(context.settings.queue, slot, execute),
        JobFeeder(context.sessions, context.queue, Device(slot), locks, set),
    ):
        yield


@contextmanager
def job_thread(context: Context, selects: Callable[[Job], bool]) -> Iterator[None]:
    """Do the selected jobs in a thread, which saves the seconds of starting a worker."""
    stop = Event()

    def work() -> None:
        while not stop.wait(0.2):
            for job in filter(selects, list_waiting_jobs(context.sessions)):
                do_job(job.kind.work, job.row_id, context.settings, "cpu")

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
