"""Read hostile files in a separate process with few rights and limits on memory and time."""

import io
import logging
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from multiprocessing.connection import wait
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Any, TypeVar, TypeVarTuple, cast

from app.core.confinement import confine
from isoscope.core.errors import AbandonedError, InvalidError, IsoscopeError

if TYPE_CHECKING:  # each sandbox imports this module again
    from app.core.settings import Settings

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GIB = 2**30
MIB = 2**20
SMALL_BYTES, SMALL_SECONDS = 10 * MIB, 30
"""CPU seconds for a call on files of fewer bytes in total. A call that takes longer would hardly ever end."""
GRACE_SECONDS = 5
"""Seconds to end before a kill: CPU seconds after SIGXCPU, which tells the parent the reason, or after an answer."""

TOO_SLOW = (
    "Reading this file took longer than {:g} s, the limit here: "
    "upload a part of it, or check that it is what it claims to be."
)
STOPPED = (
    "Reading this file stopped unexpectedly ({}): "
    "check that it is what it claims to be, or write it again in another format."
)
# Environment variables that libraries may need to load. They hold no secrets.
PASSED_VARIABLES = (
    "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHOME",
)  # fmt: skip
# Its arguments are the entries of the parent's ``sys.path``.
SCRIPT = "import sys; sys.path[:] = sys.argv[1:]; from app.sandbox import answer_call; answer_call()"
TIME_CLASSES = {
    "datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone",
    "pydantic_core._pydantic_core.TzInfo",
}  # fmt: skip
"""The only classes of other packages that an outcome may hold."""
MAX_ANSWER_BYTES = GIB // 4
POLL_SECONDS = 0.2
NICENESS = 10
"""Positive, so that requests and training take precedence."""

ABANDONED: ContextVar[Event | None] = ContextVar("abandoned", default=None)
"""The event that is set when nobody waits any longer for the sandboxes of this context. None: it is never set."""

logger = logging.getLogger(__name__)


def limit_resources(memory_bytes: int, cpu_seconds: float) -> None:
    """Limit the memory and CPU time of this process. For a child process only: the limits cannot be lifted.

    The memory limit adds to what is already mapped, because torch alone maps gigabytes. macOS limits only time.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(usage.ru_utime + usage.ru_stime + cpu_seconds)
    _lower_limit(resource.RLIMIT_CPU, seconds, grace=GRACE_SECONDS)
    _lower_limit(resource.RLIMIT_CORE, 0)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        _lower_limit(resource.RLIMIT_AS, pages * os.sysconf("SC_PAGE_SIZE") + memory_bytes)


def _lower_limit(limit: int, value: int, grace: int = 0) -> None:
    """Set a soft limit to ``value`` and its hard limit to ``value + grace``, but neither above the inherited one."""
    _, hard = resource.getrlimit(limit)
    caps = (value, value + grace)
    soft, hard = (cap if hard == resource.RLIM_INFINITY else min(cap, hard) for cap in caps)
    resource.setrlimit(limit, (soft, hard))


@dataclass(frozen=True)
class _Failure:
    """An exception of the sandboxed function, as plain values because not every exception can be pickled."""

    class_name: str
    message: str
    field: str | None = None


class OutcomePickler(pickle.Pickler):
    """Writes members of enums by their value, as Python does from 3.11.4 on. Before, it wrote calls of getattr."""

    def reducer_override(self, value: object) -> Any:
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


class OutcomeUnpickler(pickle.Unpickler):
    """Accepts plain values and our own records only: a hostile file may have taken over the process that sends them."""

    def find_class(self, module: str, name: str) -> Any:
        is_time = f"{module}.{name}" in TIME_CLASSES
        if is_time or module.startswith(("app.", "isoscope.", "isotropy.")):
            value = getattr(sys.modules.get(module), name, None)  # importing a module would run its code
            if isinstance(value, type) and value.__module__ == module:
                is_record = is_dataclass(value) or issubclass(value, (Enum, tuple)) or hasattr(value, "model_fields")
                if is_time or is_record:
                    return value
        raise pickle.UnpicklingError(f"{module}.{name} is not one of our records")


def read_in_sandbox(settings: "Settings", function: Callable[[*Ts], T], *args: *Ts, writable: Path | None = None) -> T:
    """Call ``run_in_sandbox`` with the settings' limits for parsing an upload."""
    memory_bytes, seconds = settings.parse_memory_bytes, settings.parse_seconds
    return run_in_sandbox(function, *args, memory_bytes=memory_bytes, seconds=seconds, writable=writable)


def run_in_sandbox(
    function: Callable[[*Ts], T], *args: *Ts, memory_bytes: int, seconds: float, writable: Path | None = None
) -> T:
    """Return ``function(*args)``, called in a fresh process. The function must be importable by its name.

    It can read the files and folders among its arguments and write to the folder ``writable``. Where the system
    supports it (``core/confinement``), it can reach nothing else.

    Raises the function's IsoscopeError, InvalidError if it exceeded a limit or died, AbandonedError if nobody waits.
    """
    deadline, paths = time.monotonic() + seconds, _find_paths(args)
    files = {path: path.stat() for path in paths if path.is_file()}
    is_small = sum(file.st_size for file in files.values()) < SMALL_BYTES
    cpu_seconds = min(seconds, SMALL_SECONDS) if is_small else seconds
    with subprocess.Popen(  # noqa: S603 - a fixed command
        [sys.executable, "-P", "-c", SCRIPT, *map(os.path.abspath, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
        # On Linux, detach it from the terminal, into which it could type commands. Elsewhere it would outlive us.
        start_new_session=sys.platform == "linux",
    ) as child:
        try:
            with suppress(BrokenPipeError), cast("IO[bytes]", child.stdin) as stdin:
                pickle.dump((paths, writable, memory_bytes, cpu_seconds), stdin)
                pickle.dump((function, args), stdin)
            answer = _read_answer(cast("IO[bytes]", child.stdout), deadline)
            exit_code = child.wait(GRACE_SECONDS)
        except (TimeoutError, subprocess.TimeoutExpired):
            raise InvalidError(TOO_SLOW.format(seconds)) from None
        finally:
            child.kill()
    if exit_code != 0:
        stopped = STOPPED.format(f"its process ended with code {exit_code}")
        raise InvalidError(TOO_SLOW.format(cpu_seconds) if exit_code == -signal.SIGXCPU else stopped)
    try:
        outcome = OutcomeUnpickler(io.BytesIO(answer)).load()
    except Exception as error:  # a hostile process can send anything
        logger.exception("A sandbox sent an unreadable outcome.")
        raise InvalidError(STOPPED.format("its result cannot be read")) from error
    if not isinstance(outcome, _Failure):
        return cast("T", outcome)
    if any(path.exists() and not os.path.samestat(path.stat(), file) for path, file in files.items()):
        # Try again: another upload of the same content replaced a file, and Landlock allowed only the earlier one.
        return run_in_sandbox(function, *args, memory_bytes=memory_bytes, seconds=seconds, writable=writable)
    for error_class in IsoscopeError.__subclasses__():
        if error_class.__name__ == outcome.class_name:
            raise error_class(outcome.message, outcome.field)
    if outcome.class_name == MemoryError.__name__:
        raise InvalidError(
            f"Reading this file needed more than {memory_bytes / GIB:.1f} GiB of memory, the limit here: "
            "upload a part of it, or check that it is what it claims to be."
        )
    # Only developers can fix this, so the traceback goes to the log.
    logger.error("A file could not be read:\n%s", outcome.message)
    raise InvalidError(STOPPED.format(f"it raised {outcome.class_name}"))


def _find_paths(argument: object) -> list[Path]:
    """Return the paths in an argument: the argument itself, or those in its fields or items."""
    if isinstance(argument, Path):
        return [argument]
    if is_dataclass(argument):
        argument = [getattr(argument, field.name) for field in fields(argument)]
    if not isinstance(argument, (list, tuple)):
        return []
    return [path for item in argument for path in _find_paths(item)]


def _read_answer(stream: IO[bytes], deadline: float) -> bytes:
    """Read until the process closes the stream. Raise TimeoutError at the deadline, AbandonedError if nobody waits."""
    abandoned, answer = ABANDONED.get(), bytearray()
    while (seconds_left := deadline - time.monotonic()) > 0:
        if abandoned is not None and abandoned.is_set():
            raise AbandonedError("Nobody waits for this file any longer.")
        if wait([stream.fileno()], min(seconds_left, POLL_SECONDS)):
            block = os.read(stream.fileno(), MIB)
            answer += block
            if not block:
                return bytes(answer)
            if len(answer) > MAX_ANSWER_BYTES:
                raise InvalidError(STOPPED.format("its result is too large"))
    raise TimeoutError


def answer_call() -> None:
    """Run the call on standard input and write its outcome to standard output. Runs inside the sandbox."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries that print write to standard error, not into the answer
    readable, writable, memory_bytes, cpu_seconds = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent
    outcome: Any
    try:
        os.nice(NICENESS)
        # Confine before unpickling the call, because that imports libraries that start threads.
        confine(readable, writable)
        function, args = pickle.load(sys.stdin.buffer)  # noqa: S301
        limit_resources(memory_bytes, cpu_seconds)
        outcome = function(*args)
    except IsoscopeError as error:
        outcome = _Failure(type(error).__name__, error.message, error.field)
    except MemoryError:
        outcome = _Failure(MemoryError.__name__, "")
    except Exception as error:  # noqa: BLE001 -- whatever a hostile file provokes becomes a sentence in the parent
        outcome = _Failure(type(error).__name__, traceback.format_exc())
    with answer:
        OutcomePickler(answer).dump(outcome)
    os._exit(0)
