"""Nearest neighbours by name: those of the row that the URL names, before and after a method."""

from typing import Any, NamedTuple

from app.context import Context
from app.db.models import Embedding, Lookup, ResultStatus
from app.services.lookups import find_lookup
from app.services.positions import described


class Neighbour(NamedTuple):
    """A row by its name, and the cosine of the angle to it."""

    name: str
    cosine: float


class Neighbours(NamedTuple):
    """What is stored of a few rows, and the row that was chosen of them."""

    names: list[str]
    chosen: str
    unknown: str
    """The name that was asked for if it is none of them, so that the first stands in; else empty."""
    rows: int
    """Rows among which neighbours were sought."""
    method: str
    before: list[Neighbour]
    after: list[Neighbour]
    lookup: Lookup | None = None
    """Among all rows of the name in ``unknown``, or of what is shown; None if nobody asked for it."""

    @property
    def waiting(self) -> bool:
        """Whether a worker still has to look the name up."""
        return self.lookup is not None and self.lookup.status is ResultStatus.QUEUED

    @property
    def pairs(self) -> list[tuple[Neighbour | None, Neighbour | None]]:
        """The lists side by side, the nearest first."""
        longest = max(len(self.before), len(self.after))
        return [(_at(self.before, i), _at(self.after, i)) for i in range(longest)]

    @property
    def kept(self) -> int:
        """How many names are in both lists."""
        return len({one.name for one in self.before} & {one.name for one in self.after})

    @property
    def new(self) -> set[str]:
        """Names that are there after, and were not before."""
        return {one.name for one in self.after} - {one.name for one in self.before}


def read_neighbours(data: dict[str, Any] | None, name: str | None) -> Neighbours | None:
    """The neighbours of the named row, or of the first; None where none are stored."""
    if data is None or not data["of"]:
        return None
    by_name = {one["name"]: one for one in reversed(data["of"])}
    names = list(dict.fromkeys(one["name"] for one in data["of"]))
    chosen = name if name is not None and name in by_name else names[0]
    before, after = (
        [Neighbour(each["name"], each["cosine"]) for each in by_name[chosen][side]] for side in ("before", "after")
    )
    unknown = name if name and name != chosen else ""
    return Neighbours(
        names, chosen, unknown, data["rows"], described(data["method"], data["parameters"]), before, after
    )


def with_lookup(found: Neighbours | None, context: Context, embedding: Embedding) -> Neighbours | None:
    """The same where the name is among those of the report; else what is known of its look-up among all rows."""
    if found is None or not found.unknown:
        return found
    lookup = find_lookup(context, embedding, found.unknown)
    shown = read_neighbours(lookup.results, None) if lookup else None
    return (shown or found)._replace(names=found.names, lookup=lookup)


def _at(found: list[Neighbour], place: int) -> Neighbour | None:
    return found[place] if place < len(found) else None
