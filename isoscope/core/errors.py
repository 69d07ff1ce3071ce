"""What can go wrong for a reason the user can mend: what was expected, what came, what to do."""

import dataclasses


@dataclasses.dataclass
class IsoscopeError(Exception):
    """Base of all errors whose message is shown to the user as it stands.

    ``field`` names the form field or JSON key at fault, so that a page can show the sentence beside it; ``page`` is the
    path of what the sentence names, so that it can be opened from there.
    """

    message: str
    field: str | None = None
    page: str | None = dataclasses.field(default=None, kw_only=True)

    def __str__(self) -> str:
        return self.message


class NotFoundError(IsoscopeError):
    """There is no such thing, or no longer."""


class ConflictError(IsoscopeError):
    """The thing is in a state in which this cannot be done."""


class TooLargeError(IsoscopeError):
    """More bytes, rows or columns than the limit."""


class FullDiskError(IsoscopeError):
    """A disk has no room for what is asked."""


class UnsupportedFormatError(IsoscopeError):
    """A kind of file that is not read here."""


class InvalidError(IsoscopeError):
    """A value or a file's content that cannot be used."""


class UnavailableError(IsoscopeError):
    """Something this server depends on does not answer, or refuses it; the same may work later."""


@dataclasses.dataclass
class BusyError(IsoscopeError):
    """Too many ask for the same at once; the same works after ``retry_seconds``."""

    retry_seconds: int = dataclasses.field(default=5, kw_only=True)


class AbandonedError(IsoscopeError):
    """Nobody waits for the answer any more."""
