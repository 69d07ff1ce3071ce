"""The log of a run's processes, a file in the run's folder that survives a kill. The run's row has its last lines."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from app.core.process import LOG_FORMAT, LOG_NAME
from app.db.types import utcnow

# Limits of the tail: lines of each attempt, bytes of the last one and bytes of all earlier ones together.
MAX_LINES = 200
MAX_EARLIER_LINES = 20
MAX_BYTES = 16 * 1024
MAX_EARLIER_BYTES = 16 * 1024
MAX_READ_BYTES = 512 * 1024
ATTEMPT_HEADER = "=== Attempt "
SECONDS_BETWEEN_TAILS = 3.0
# Progress messages of this logger go to the file but not to the terminal.
WORKERS_LOGGER = logging.getLogger("workers")


class Log:
    """The log of one run, over all its attempts and processes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_NAME

    def begin(self, attempt: int, slot: str, earlier_log: str | None) -> None:
        """Write an attempt's header. A new file begins with ``earlier_log``, the end of the log as the row has it."""
        with self._path.open("a", encoding="utf-8") as file:
            if not file.tell() and earlier_log is not None:
                file.write(f"{earlier_log}\n")
            file.write(f"{ATTEMPT_HEADER}{attempt} on {slot}, {utcnow():%Y-%m-%d %H:%M:%S} UTC\n")

    @contextmanager
    def capture_stderr(self) -> Iterator[None]:
        """Append log messages and standard error, also of C libraries, to the file; warnings go to the terminal too."""
        terminal, file = os.dup(2), os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        file_handler = logging.FileHandler(self._path, encoding="utf-8", errors="backslashreplace")
        file_handler.setFormatter(logging.Formatter(LOG_FORMAT))
        root = logging.getLogger()
        stream_handlers = [handler for handler in root.handlers if isinstance(handler, logging.StreamHandler)]
        stderr_handlers = [handler for handler in stream_handlers if handler.stream is sys.stderr]
        old_levels = [stderr_handler.level for stderr_handler in stderr_handlers]
        old_workers_level = WORKERS_LOGGER.level
        with os.fdopen(terminal, "w", errors="backslashreplace") as terminal_stream:
            try:
                for stderr_handler in stderr_handlers:
                    stderr_handler.setStream(terminal_stream)
                    stderr_handler.setLevel(logging.WARNING)
                WORKERS_LOGGER.setLevel(logging.INFO)
                root.addHandler(file_handler)
                os.dup2(file, 2)
                yield
            finally:
                sys.stderr.flush()
                os.dup2(terminal, 2)
                os.close(file)
                root.removeHandler(file_handler)
                file_handler.close()
                WORKERS_LOGGER.setLevel(old_workers_level)
                for stderr_handler, old_level in zip(stderr_handlers, old_levels, strict=True):
                    stderr_handler.setStream(sys.stderr)
                    stderr_handler.setLevel(old_level)

    @contextmanager
    def send_tail_regularly(
        self, send: Callable[[str | None], None], interval: float = SECONDS_BETWEEN_TAILS
    ) -> Iterator[None]:
        """Send the tail every ``interval`` seconds while the context is open, unless it is the same as before."""
        stop = Event()
        thread = Thread(target=self._send_until_stopped, args=(send, interval, stop), name="log", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _send_until_stopped(self, send: Callable[[str | None], None], interval: float, stop: Event) -> None:
        sent_tail = None
        while not stop.wait(interval):
            tail = self.tail()
            # A brief database outage must not end the job; the next round sends the tail.
            with suppress(SQLAlchemyError):
                if tail != sent_tail:
                    send(tail)
                    sent_tail = tail

    def tail(self) -> str | None:
        """Return the last lines of the last attempt, and fewer of earlier ones; None if nothing was logged."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_READ_BYTES))
                content = file.read()
        except FileNotFoundError:
            return None
        if size > MAX_READ_BYTES:  # the first line is incomplete
            content = content.partition(b"\n")[2]
        # PostgreSQL cannot store NUL.
        lines = content.decode(errors="replace").replace("\0", "\ufffd").splitlines()
        later_starts = [index for index, line in enumerate(lines) if index > 0 and line.startswith(ATTEMPT_HEADER)]
        bounds = [0, *later_starts, len(lines)]
        *earlier_attempts, last_attempt = [lines[start:end] for start, end in pairwise(bounds)]
        tail = _last_lines(last_attempt, MAX_LINES, MAX_BYTES)
        bytes_left = MAX_EARLIER_BYTES
        for attempt in reversed(earlier_attempts):
            last_lines = _last_lines(attempt, MAX_EARLIER_LINES, bytes_left)
            tail = last_lines + tail
            bytes_left -= _count_bytes(last_lines)
        return "\n".join(tail) or None


def _last_lines(lines: list[str], max_lines: int, max_bytes: int) -> list[str]:
    """Return an attempt's header and as many of its last lines as fit; nothing if the header alone does not fit."""
    n_header = 1 if lines and lines[0].startswith(ATTEMPT_HEADER) else 0
    header, last_lines = lines[:n_header], lines[n_header:][-max_lines:]
    while last_lines and _count_bytes(header + last_lines) > max_bytes:
        last_lines = last_lines[1:]
    return header + last_lines if _count_bytes(header + last_lines) <= max_bytes else []


def _count_bytes(lines: list[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
