"""Start the processes of a run, wait for them, and end all once one of them fails."""

import logging
import os
import signal
from contextlib import nullcontext
from enum import IntEnum
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event
from time import monotonic

import torch

from app.core.process import LOG_FORMAT, die_with_parent
from app.core.settings import Settings
from app.db.config import RunConfig
from app.db.models import FailureCause
from isoscope.core.errors import InvalidError, IsoscopeError
from workers.failure import DeviceLostError, Failure, OtherProcessError, classify_error, is_temporary
from workers.job_rows import job_sessions
from workers.models import hide_other_gpus
from workers.training.ddp_sync import joined_process_group
from workers.training.folder import DamagedError, RunFolder
from workers.training.progress import Progress, RunStoppedError, SilentProgress
from workers.training.run_spec import OutOfMemoryError, RunSpec
from workers.training.training import train

logger = logging.getLogger(__name__)

# When one process fails, the others lose their connection to it and may report that first. Wait for its own report.
GRACE_SECONDS_AFTER_FAILURE = 3
# For ends that no error explains.
NO_FAILURE = Failure("", FailureCause.UNSPECIFIED, None)


class RankEnd(IntEnum):
    """How a process of a run ended. If several end, the one with the largest value is taken for the cause."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    """Failed with an IsoscopeError, such as for a label that is not configured."""
    OUT_OF_MEMORY = 3
    STOPPED = 4
    LOST = 5
    """Killed, cut off from the database, out of disk space, or with damaged weights: the job starts again."""


def train_in_processes(spec: RunSpec, progress: Progress, folder: RunFolder, settings: Settings, device: str) -> None:
    """Train in several processes. Raise the error that ended one, or SystemExit if one is lost, to restart the job."""
    devices = assign_devices(spec.config, device)
    context = get_context("forkserver")
    context.set_forkserver_preload(["workers.preload"])
    rendezvous = folder.path / f"meeting-{os.getpid()}"
    rendezvous.unlink(missing_ok=True)
    processes: dict[Connection, ForkServerProcess] = {}
    try:
        for rank, rank_device in enumerate(devices):
            receiver, sender = context.Pipe(duplex=False)
            arguments = (rank, spec, progress.run_id, progress.slot, settings, rank_device, rendezvous, sender)
            process = context.Process(target=_run_rank, args=arguments, name=f"{progress.run_id}, rank {rank}")
            process.start()
            sender.close()
            processes[receiver] = process
        end, failure = _wait_for_end(list(processes))
    finally:
        progress.skip_elapsed_time()
        # Kill all before joining any: a survivor would log the broken connections as a failure.
        for process in processes.values():
            process.kill()
        for connection, process in processes.items():
            process.join()
            connection.close()
        rendezvous.unlink(missing_ok=True)
    match end:
        case RankEnd.LOST:
            raise SystemExit(f"A process of the run {progress.run_id} is lost.")
        case RankEnd.STOPPED:
            raise RunStoppedError
        case RankEnd.OUT_OF_MEMORY:
            raise OutOfMemoryError(failure.sentence)
        case RankEnd.REFUSED | RankEnd.FAILED:
            raise OtherProcessError(failure)


def assign_devices(config: RunConfig, device: str) -> list[str]:
    """Return a device for each process; raise InvalidError if there are too few, DeviceLostError without any."""
    if device == "cpu":
        return [device] * config.processes
    n_devices = torch.cuda.device_count() if device.startswith("cuda") else 1
    if n_devices == 0:
        raise DeviceLostError
    if config.processes > n_devices:
        raise InvalidError(
            f"Expected at most {n_devices} processes, one for each device of this machine, got {config.processes}. "
            "Choose fewer, or start a worker on a machine with more devices.",
            "processes",
        )
    first_index = torch.device(device).index or 0
    return [f"cuda:{(first_index + rank) % n_devices}" for rank in range(config.processes)]


def _wait_for_end(connections: list[Connection]) -> tuple[RankEnd, Failure]:
    """Wait for the ends that processes send over connections; return the one that caused the others.

    Stop waiting at the first STOPPED, or ``GRACE_SECONDS_AFTER_FAILURE`` after the first failure.
    """
    ends: list[tuple[RankEnd, Failure]] = []
    deadline = None
    while connections:
        timeout = None if deadline is None else max(0.0, deadline - monotonic())
        if not (ready := wait(connections, timeout)):
            break
        # In rank order, so that of several ends of a kind the first process's is returned.
        for connection in [candidate for candidate in connections if candidate in ready]:
            connections.remove(connection)
            try:
                ends.append(connection.recv())
            except EOFError:
                ends.append((RankEnd.LOST, NO_FAILURE))
            if ends[-1][0] is RankEnd.STOPPED:
                return ends[-1]
        if deadline is None and any(end is not RankEnd.DONE for end, _ in ends):
            deadline = monotonic() + GRACE_SECONDS_AFTER_FAILURE
    return max(ends, key=lambda end: end[0])


def _run_rank(
    rank: int,
    spec: RunSpec,
    run_id: str,
    slot: str,
    settings: Settings,
    device: str,
    rendezvous: Path,
    sender: Connection,
) -> None:
    """Train in this process, which is one of several, and send its RankEnd with its failure."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    folder = RunFolder(settings, run_id)
    progress_class = Progress if rank == 0 else SilentProgress
    progress = progress_class(job_sessions(settings), run_id, slot)
    with folder.log.capture_stderr(), folder.locked_for_first_process() if rank == 0 else nullcontext():
        end, failure = RankEnd.DONE, NO_FAILURE
        try:
            hide_other_gpus(device)  # the process group would take the first one that it sees
            with joined_process_group(rank, spec.config.processes, rendezvous, device) as process_rank:
                try:
                    train(spec, progress, folder, settings, device, process_rank)
                except RunStoppedError:
                    sender.send((RankEnd.STOPPED, NO_FAILURE))
                    # The parent now kills all processes. Exiting here would break the connections of the others, which
                    # would log that as a failure.
                    Event().wait()
        except OutOfMemoryError as error:
            logger.warning("Memory ran out in process %s.", rank, exc_info=error)
            end, failure = RankEnd.OUT_OF_MEMORY, Failure(str(error), FailureCause.MEMORY, None)
        except DamagedError as error:
            logger.warning("%s", error)
            end = RankEnd.LOST
        except Exception as error:
            if is_temporary(error):
                raise  # A lost process makes the executor retry the run
            end = RankEnd.REFUSED if isinstance(error, IsoscopeError) else RankEnd.FAILED
            failure = classify_error(error)
        sender.send((end, failure))
