"""Errors that users can fix: each says what was expected, what was found, and what to do."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class FieldError(NamedTuple):
    """A form field or JSON key, and a sentence about what is wrong with it."""

    field: str | None
    detail: str


@dataclasses.dataclass
class IsoscopeError(Exception):
    """Base of all errors whose message is shown to the user.

    ``field`` is the form field or JSON key at fault, ``page`` the URL path of the record that the message names, and
    ``other_errors`` are the errors of other fields.
    """

    message: str
    field: str | None = None
    page: str | None = dataclasses.field(default=None, kw_only=True)
    other_errors: tuple[FieldError, ...] = dataclasses.field(default=(), kw_only=True)

    def __str__(self) -> str:
        return self.message

    def at(self, field: str) -> str:
        """Return the messages about a field as one text, which is empty if there are none."""
        return " ".join(error.detail for error in self.errors if error.field == field)

    @property
    def errors(self) -> tuple[FieldError, ...]:
        return (FieldError(self.field, self.message), *self.other_errors)


class NotFoundError(IsoscopeError):
    """The record does not exist, or was deleted."""


class ConflictError(IsoscopeError):
    """The state of the record does not allow this."""


class TooLargeError(IsoscopeError):
    """More bytes, rows or columns than the limit."""


class FullDiskError(IsoscopeError):
    """A disk has no room for the requested files."""


class UnsupportedFormatError(IsoscopeError):
    """A file format that is not supported."""


class InvalidError(IsoscopeError):
    """A value or a file's content that cannot be used."""


class UnavailableError(IsoscopeError):
    """A service that this server depends on does not answer or refuses; the same request may work later."""


@dataclasses.dataclass
class BusyError(IsoscopeError):
    """Too many requests at once; retry after ``retry_seconds``."""

    retry_seconds: int = dataclasses.field(default=5, kw_only=True)


class AbandonedError(IsoscopeError):
    """The client no longer waits for the response."""


@contextmanager
def value_errors_as_invalid() -> Iterator[None]:
    """Raise InvalidError instead of any ValueError. Only for ``isotropy``, whose messages are written for users."""
    try:
        yield
    except ValueError as error:
        raise InvalidError(str(error)) from error


def combine_errors(errors: Iterable[FieldError]) -> InvalidError:
    """Combine one or more errors into one InvalidError without duplicates."""
    first_error, *other_errors = dict.fromkeys(errors)
    return InvalidError(first_error.detail, first_error.field, other_errors=tuple(other_errors))


def check_all(*checks: Callable[[], object]) -> None:
    """Run every check, then raise one InvalidError with all their errors."""
    field_errors: list[FieldError] = []
    for check in checks:
        try:
            check()
        except InvalidError as error:
            field_errors += error.errors
    if field_errors:
        raise combine_errors(field_errors)
