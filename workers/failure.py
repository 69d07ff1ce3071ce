"""Classify and describe the errors of jobs, for their rows."""

import errno
import logging
import re
from typing import Any, NamedTuple

from sqlalchemy import Update
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from app.core.devices import ask_torch
from app.db.models import FailureCause
from app.db.session import Sessions
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from isoscope.core.formatting import one_line, storable

logger = logging.getLogger(__name__)

DATABASE_ERRORS = (OperationalError, InterfaceError)
# Parts of error messages from torch's checkpoint writer, which hides the system's error number and message.
TORCH_CANNOT_WRITE = ("inline_container.cc", "iostream error")
# Torch raises most errors of a GPU as RuntimeError, with one of these in the message.
GPU_ERROR = re.compile("CUDA|cuDNN|HIP")
# Torch raises these as RuntimeError too: on a CPU, on a GPU that others have filled, and from libraries such as cuBLAS.
OUT_OF_MEMORY = re.compile("can't allocate memory|(CUDA|HIP) error: out of memory|STATUS_ALLOC_FAILED")
COLUMN_FIELDS = ("dataset_id", "label_column", "text_columns")


class Failure(NamedTuple):
    """A failure's sentence and cause, and the form field of the setting at fault, if any."""

    sentence: str
    cause: FailureCause
    field: str | None


class NotFiniteError(InvalidError):
    """A loss or a penalty is NaN or infinite."""


class DeviceLostError(Exception):
    """The worker's GPU no longer answers."""


class OtherProcessError(InvalidError):
    """Another process of the job failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence, failure.field)
        self.cause = failure.cause


def record_error(error: Exception, sessions: Sessions, update: Update, **values: Any) -> None:
    """Write an error's sentence and further values into the row of a failed job, if ``update`` still matches it.

    Raises the error again if it is temporary (``raise_if_temporary``).
    """
    raise_if_temporary(error)
    with sessions.begin() as session:
        session.execute(update.values(error=log_and_describe(error), **values))


def raise_if_temporary(error: Exception) -> None:
    """Raise an error again if the job is retried after it: no database, a full disk or a lost device."""
    if is_temporary(error):
        raise error
    if is_device_lost(error):
        raise DeviceLostError from error


def is_temporary(error: Exception) -> bool:
    return isinstance(error, (*DATABASE_ERRORS, DeviceLostError)) or is_disk_full(error)


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error or its cause means a full disk; torch and C libraries have no exception type for it."""
    message = f"{type(error).__name__}: {error}".lower()
    is_full = (
        (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))
        or (isinstance(error, SQLAlchemyError) and "is full" in message)
        or "no space left on device" in message
        or any(fragment in message for fragment in TORCH_CANNOT_WRITE)
    )
    causes = filter(None, (error.__cause__, error.__context__))
    return is_full or any(map(is_disk_full, causes))


def classify_error(error: Exception) -> Failure:
    """Return an error's sentence, cause and field; log an unexpected error with its traceback."""
    if isinstance(error, OtherProcessError):
        cause = error.cause
    elif isinstance(error, NotFiniteError):
        cause = FailureCause.NOT_A_NUMBER
    elif not isinstance(error, IsoscopeError):
        cause = FailureCause.MEMORY if is_out_of_memory(error) else FailureCause.UNSPECIFIED
    elif error.field is None:
        cause = FailureCause.UNSPECIFIED
    elif error.field in COLUMN_FIELDS:
        cause = FailureCause.COLUMN
    else:
        cause = FailureCause.MODEL if error.field == "model" else FailureCause.SETTING
    field = "batch_size" if cause is FailureCause.MEMORY else getattr(error, "field", None)
    return Failure(log_and_describe(error), cause, field)


def log_and_describe(error: Exception) -> str:
    """Return the sentence to show for an error; log any error but an IsoscopeError with its traceback.

    Characters of a hostile file that no database can store, NUL and lone surrogates, are replaced.
    """
    if isinstance(error, IsoscopeError):
        sentence = error.message
    elif is_out_of_memory(error):
        logger.warning("A job ran out of memory.", exc_info=error)
        sentence = (
            "There was not enough memory. Take fewer rows or columns, a smaller batch, shorter texts or a smaller "
            "model, or a worker with more memory."
        )
    elif isinstance(error, ImportError):
        logger.error("A job lacks a library.", exc_info=error)
        sentence = f"The worker has a library that is missing or too old: {error}. Install what Isoscope needs there."
    else:
        logger.error("A job failed unexpectedly.", exc_info=error)
        sentence = f"{type(error).__name__}: {one_line(str(error))}"
    return storable(sentence)


def is_device_lost(error: Exception) -> bool:
    """Return whether a GPU failed and does not answer a new process either; it takes seconds to find out."""
    if not isinstance(error, RuntimeError) or is_out_of_memory(error) or not GPU_ERROR.search(str(error)):
        return False
    try:
        return all(device.name == "cpu" for device in ask_torch())
    except UnavailableError:
        return True


def is_out_of_memory(error: Exception) -> bool:
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    from torch import OutOfMemoryError  # noqa: PLC0415 - the process that starts jobs must not load torch

    return isinstance(error, OutOfMemoryError) or OUT_OF_MEMORY.search(str(error)) is not None
