"""Runs of any experiments that are read together: which, in which groups, and what is read beside their rows."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from sqlalchemy import select

from app.context import Context
from app.db.models import Run
from app.results.run_set import RunSet
from app.results.tables.printed import Style
from app.results.tables.summary import Metrics, Shown, Summary, summary
from app.search.fields import ALIASES
from app.services.run_search import MOST, matching
from isoscope.core.errors import InvalidError


class Chosen(NamedTuple):
    """Runs that were searched for, those of the newest experiments where there are too many, and how many there are."""

    gathered: RunSet
    total: int
    named: list[str]
    """The fields that were named to make groups of; none where that is left to what varies."""

    @property
    def fields(self) -> list[str]:
        """What groups are made of."""
        return self.named or self.gathered.varying


def choose_runs(context: Context, q: str, group: Sequence[str] = ()) -> Chosen:
    """The runs of a search, grouped by these fields, or where none is named by all that varies.

    Raises InvalidError of ``q`` or ``group``.
    """
    found = matching(context, q, most=MOST)
    gathered = RunSet(found.runs)
    return Chosen(gathered, found.total, _fields(group, gathered.fields))


def summarise(context: Context, chosen: Chosen, shown: Shown) -> Summary:
    """Means and deviations of the groups."""
    runs = chosen.gathered.runs
    metrics = list_metrics(context, [run.id for run in runs]) if shown is Shown.METRICS else {}
    found = summary(chosen.gathered, chosen.fields, shown, metrics)
    if len(runs) < chosen.total:
        found.notes.append(f"{shown_of(chosen)}.")
    return found


def shown_of(chosen: Chosen) -> str:
    """How many there are, and how many of them are read."""
    runs = len(chosen.gathered.runs)
    if runs == chosen.total:
        return f"{runs:,} of {chosen.total:,} runs shown"
    return f"{runs:,} of {chosen.total:,} runs shown, those of the newest experiments"


def list_metrics(context: Context, ids: Sequence[str]) -> Metrics:
    """All metrics of these runs, of each that has some."""
    wanted = select(Run.id, Run.results["metrics"]).where(Run.id.in_(ids), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: metrics for run_id, metrics in session.execute(wanted) if metrics}


def _fields(group: Sequence[str], known: Sequence[str]) -> list[str]:
    named = dict.fromkeys(ALIASES.get(name.lower(), name) if name not in known else name for name in group if name)
    if unknown := [name for name in named if name not in known]:
        raise InvalidError(
            f"Expected fields to group runs by, got {unknown[0]!r}; known are {', '.join(sorted(known))}.", "group"
        )
    return list(named)


class AcrossQuery(NamedTuple):
    """What the URL says: the search, what groups are made of, and what figures are of."""

    q: str = ""
    group: tuple[str, ...] = ()
    on: str = ""
    """A data set and a metric."""

    def encoded(self, **changed: str) -> str:
        """The query string again, or one that differs; what is not said otherwise is left out."""
        return urlencode([pair for pair in self.pairs(**changed) if pair[1]])

    def pairs(self, **changed: str) -> list[tuple[str, str]]:
        """The same as names with values."""
        given = {"q": self.q, "on": self.on} | changed
        return [*given.items(), *(("group", field) for field in self.group)]


class TableQuery(NamedTuple):
    """What the columns are, and how cells are printed."""

    shown: Shown
    style: Style

    def encoded(self) -> str:
        """The query string again; what is not said otherwise is left out."""
        return urlencode({name: value for name, value in self.pairs() if value})

    def pairs(self) -> list[tuple[str, str]]:
        """The same as names with values."""
        return [
            ("columns", "" if self.shown is Shown.PERFORMANCE else self.shown.value),
            ("decimals", "" if self.style.decimals is None else str(self.style.decimals)),
            ("bold", "" if self.style.bold else "0"),
        ]
