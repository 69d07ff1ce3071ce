"""How names that came from outside are shown in a sentence."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice

from app.errors import IsoscopeError

MAX_SHOWN_CHARACTERS = 80
MAX_LISTED = 10


def shown(name: str) -> str:
    """Return a name between quotes, cut short."""
    cut = "..." if len(name) > MAX_SHOWN_CHARACTERS else ""
    return repr(name[:MAX_SHOWN_CHARACTERS]) + cut


def listed(names: Collection[str]) -> str:
    """Return the first ten names between quotes, and how many more there are."""
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(shown, islice(names, MAX_LISTED))) + more


@contextmanager
def blaming(filename: str, field: str | None = None) -> Iterator[None]:
    """Say in an error which file it is about, and in which field that file came unless the error names another."""
    try:
        yield
    except IsoscopeError as error:
        raise type(error)(f"{filename}: {error.message}", error.field or field) from None


def storable(text: str) -> str:
    """Return text without what UTF-8 or PostgreSQL cannot hold: lone surrogates and NUL become a replacement mark."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
