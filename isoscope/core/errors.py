"""What can go wrong for a reason the user can mend: what was expected, what came, what to do."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple


class FieldError(NamedTuple):
    """A form field or JSON key, and a sentence about what is wrong with it."""

    field: str | None
    detail: str


@dataclasses.dataclass
class IsoscopeError(Exception):
    """Base of all errors whose message is shown to the user.

    ``field`` is the form field or JSON key at fault, ``page`` the path of what the sentence names, ``more`` further
    fields that are wrong.
    """

    message: str
    field: str | None = None
    page: str | None = dataclasses.field(default=None, kw_only=True)
    further: tuple[FieldError, ...] = dataclasses.field(default=(), kw_only=True)

    def __str__(self) -> str:
        return self.message

    def at(self, field: str) -> str:
        return " ".join(error.detail for error in self.errors if error.field == field)

    @property
    def errors(self) -> tuple[FieldError, ...]:
        return (FieldError(self.field, self.message), *self.further)


class NotFoundError(IsoscopeError):
    """The thing does not exist, or no longer."""


class ConflictError(IsoscopeError):
    """The thing is in a state in which this cannot be done."""


class TooLargeError(IsoscopeError):
    """More bytes, rows or columns than the limit."""


class FullDiskError(IsoscopeError):
    """A disk has no room for what is asked."""


class UnsupportedFormatError(IsoscopeError):
    """A file format that is not supported."""


class InvalidError(IsoscopeError):
    """A value or a file's content that cannot be used."""


class UnavailableError(IsoscopeError):
    """Something this server depends on does not answer, or refuses it; the same may work later."""


@dataclasses.dataclass
class BusyError(IsoscopeError):
    """Too many requests at once; the same works after ``retry_seconds``."""

    retry_seconds: int = dataclasses.field(default=5, kw_only=True)


class AbandonedError(IsoscopeError):
    """Nobody waits for the answer any more."""


def invalid(errors: Iterable[FieldError]) -> InvalidError:
    """Combine errors into one InvalidError without duplicates."""
    first_error, *further = dict.fromkeys(errors)
    return InvalidError(first_error.detail, first_error.field, further=tuple(further))


def check_all(*checks: Callable[[], object]) -> None:
    """Run every check, then raise one InvalidError with all their errors."""
    faults: list[FieldError] = []
    for check in checks:
        try:
            check()
        except InvalidError as error:
            faults += error.errors
    if faults:
        raise invalid(faults)
