"""Reading hostile files in a process of its own, with a limit on memory and time."""

import logging
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

from isoscope.core.errors import AbandonedError, InvalidError, IsoscopeError

if TYPE_CHECKING:  # each sandbox imports this module anew
    from app.core.settings import Settings

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GIB = 2**30
SMALL_BYTES, SMALL_SECONDS = 10 * 2**20, 30
"""Files of fewer bytes get at most so much processor time: one that takes longer never ends."""
GRACE_SECONDS = 5
"""CPU seconds from SIGXCPU, which tells the parent the reason, to SIGKILL."""

TOO_SLOW = (
    "Reading this file took longer than {:g} s, the limit here: "
    "upload a part of it, or check that it is what it claims to be."
)
STOPPED = (
    "Reading this file stopped unexpectedly ({}): "
    "check that it is what it claims to be, or write it again in another format."
)
POLL_SECONDS = 0.2
NICENESS = 10
"""With few cores, requests and training take precedence."""

ABANDONED: ContextVar[Event | None] = ContextVar("abandoned", default=None)
"""Set once nobody waits for the results of this context's sandboxes."""

logger = logging.getLogger(__name__)


def limit_resources(memory_bytes: int, cpu_seconds: float) -> None:
    """Limit what this process may use from now on. For a child process only: the limits cannot be lifted.

    The memory limit is on top of what is already mapped, because torch alone maps gigabytes. macOS does not enforce
    RLIMIT_AS, so only time is limited there.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(usage.ru_utime + usage.ru_stime + cpu_seconds)
    _lower_limit(resource.RLIMIT_CPU, seconds, grace=GRACE_SECONDS)
    _lower_limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        _lower_limit(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes)


def _lower_limit(limit: int, value: int, grace: int = 0) -> None:
    """Lower a soft and a hard resource limit, within the inherited hard limit."""
    _, hard = resource.getrlimit(limit)
    caps = (value, value + grace)
    soft, hard = (cap if hard == resource.RLIM_INFINITY else min(cap, hard) for cap in caps)
    resource.setrlimit(limit, (soft, hard))


@dataclass(frozen=True)
class _Failure:
    """An exception of the sandboxed function, as plain values because not every exception can be pickled."""

    kind: type[BaseException]
    message: str
    field: str | None = None


def read_in_sandbox(settings: "Settings", function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call ``run_in_sandbox`` with the limits that the settings have for parsing an upload."""
    seconds = settings.parse_seconds
    cpu_seconds = min(seconds, SMALL_SECONDS) if _size_of(args) < SMALL_BYTES else seconds
    memory_bytes = settings.parse_memory_bytes
    return run_in_sandbox(function, *args, memory_bytes=memory_bytes, seconds=seconds, cpu_seconds=cpu_seconds)


def _size_of(argument: object) -> int:
    """Return the bytes of all files that an argument names."""
    if isinstance(argument, Path):
        return argument.stat().st_size if argument.is_file() else 0
    if is_dataclass(argument):
        argument = [getattr(argument, field.name) for field in fields(argument)]
    return sum(map(_size_of, argument)) if isinstance(argument, (list, tuple)) else 0


def run_in_sandbox(
    function: Callable[[*Ts], T], *args: *Ts, memory_bytes: int, seconds: float, cpu_seconds: float | None = None
) -> T:
    """Return ``function(*args)``, called in a fresh process. The function must be importable by its name.

    Raises the function's IsoscopeError, InvalidError if it needed too much memory or time or its process died, and
    AbandonedError if nobody waits for it any more.
    """
    cpu_seconds = cpu_seconds or seconds
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(
        target=_run_in_child,
        args=(sender, memory_bytes, cpu_seconds, function, args),
        name="isoscope-sandbox",
        daemon=True,
    )
    child.start()
    sender.close()
    try:
        if not _wait_for_result(receiver, seconds):
            raise InvalidError(TOO_SLOW.format(seconds))
        outcome = receiver.recv()
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGXCPU:
            raise InvalidError(TOO_SLOW.format(cpu_seconds)) from None
        raise InvalidError(STOPPED.format(f"its process ended with code {child.exitcode}")) from None
    finally:
        receiver.close()
        child.kill()
        child.join()
    if not isinstance(outcome, _Failure):
        return cast("T", outcome)
    if issubclass(outcome.kind, IsoscopeError):
        raise outcome.kind(outcome.message, outcome.field)
    if issubclass(outcome.kind, MemoryError):
        raise InvalidError(
            f"Reading this file needed more than {memory_bytes / GIB:.1f} GiB of memory, the limit here: "
            "upload a part of it, or check that it is what it claims to be."
        )
    # Only developers can fix this, so the traceback goes to the log.
    logger.error("A file could not be read:\n%s", outcome.message)
    raise InvalidError(STOPPED.format(f"it raised {outcome.kind.__name__}"))


def _wait_for_result(receiver: Connection, seconds: float) -> bool:
    abandoned = ABANDONED.get()
    if abandoned is None:
        return receiver.poll(seconds)
    end = time.monotonic() + seconds
    while not receiver.poll(POLL_SECONDS):
        if abandoned.is_set():
            raise AbandonedError("Nobody waits for this file any more.")
        if time.monotonic() >= end:
            return False
    return True


def _run_in_child(
    sender: Connection, memory_bytes: int, cpu_seconds: float, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    outcome: Any
    try:
        os.nice(NICENESS)
        limit_resources(memory_bytes, cpu_seconds)
        outcome = function(*args)
    except IsoscopeError as error:
        outcome = _Failure(type(error), error.message, error.field)
    except MemoryError:
        outcome = _Failure(MemoryError, "")
    except Exception as error:  # noqa: BLE001 -- whatever a hostile file provokes becomes a sentence in the parent
        outcome = _Failure(type(error), traceback.format_exc())
    sender.send(outcome)
