"""Runs of any experiments that are read together: which, in which groups, their tables and figures."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Query
from sqlalchemy import select

from app.context import Context
from app.db.models import Run
from app.figures.figure import Figure
from app.figures.labels import inside
from app.results.conclusion.conclusion import Conclusion, read_conclusion
from app.results.labels import SCALES
from app.results.run_set import COMPARABLE, COORDINATES, OF_THE_TASK, SEED, TASK, WITHOUT_EFFECT, Measured, RunSet
from app.results.search.conditions import ALIASES
from app.results.search.listing import MOST, matching
from app.results.sweep import Sweep
from app.results.sweep_figures import FIGURES, SCATTERS, FigureRequest, SweepQuery, with_what_they_need
from app.results.tables.printed import MOST_DECIMALS, Style
from app.results.tables.summary import Metrics, Shown, Summary, summary
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind


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


def read_across(context: Context, chosen: Chosen, slug: str, on: str, look: SweepQuery) -> Figure:
    """One figure of the runs on one data set by one metric, those on which the most have finished unless it is said."""
    if slug not in offered_of(chosen.gathered):
        raise NotFoundError(f"There is no figure {slug!r} of these runs.")
    return draw_across(context, sweep_across(chosen, on, told_apart_by(chosen, slug, look)), slug, look)


def sweep_across(chosen: Chosen, on: str, told_apart: Sequence[str] = ()) -> Sweep:
    """The runs that figures are of, told apart by what groups are made of, and by further fields.

    Where data sets are told apart, the runs of all are there.
    """
    gathered = chosen.gathered
    if not gathered.runs:
        return gathered.sweep(())
    shown = gathered if TASK in told_apart else gathered.on(measured_on(gathered, on))
    return shown.sweep([*chosen.fields, *told_apart])


def told_apart_by(chosen: Chosen, slug: str, look: SweepQuery) -> list[str]:
    """The settings that the axes, colors and panels of a scatter name, in which runs of one group differ."""
    if slug not in SCATTERS:
        return []
    style = look.look
    named = (ALIASES.get(name, name) for name in (style.x, style.y, style.colour, style.facet))
    return [
        field for field in dict.fromkeys(named) if field in drawable(chosen.gathered) and field not in chosen.fields
    ]


def drawable(gathered: RunSet) -> list[str]:
    """The settings that the runs differ in, besides regularizer, λ and ζ, and that figures can tell them apart by."""
    return [field for field in gathered.differing if field not in (SEED, *COORDINATES, *WITHOUT_EFFECT, *OF_THE_TASK)]


def conclude_across(context: Context, chosen: Chosen, on: str) -> Conclusion:
    """Return what the runs say on one data set by one metric, and what all of them say together."""
    gathered = chosen.gathered
    if not gathered.runs:
        return read_conclusion(context, gathered.sweep(()))
    shown = measured_on(gathered, on)
    others = [gathered.on(measured).sweep(chosen.fields) for measured in gathered.measured if measured != shown]
    return read_conclusion(context, gathered.on(shown).sweep(chosen.fields), others)


def draw_across(context: Context, sweep: Sweep, slug: str, look: SweepQuery) -> Figure:
    """One figure of some runs at least, all of which have the metric of the first one's experiment."""
    return FIGURES[slug].draw(
        FigureRequest(context, sweep.runs[0].experiment, sweep, look, [run.id for run in sweep.runs])
    )


def offered_of(gathered: RunSet) -> list[str]:
    """The figures that they can have, besides those of a search for the best λ: see ``sweep_figures.offered``."""
    if not gathered.runs:
        return []
    classes = any(run.config.task is TaskKind.CLASSIFICATION for run in gathered.runs)
    return with_what_they_need({"classes": classes, "search": False})


def measured_in_words(gathered: RunSet) -> dict[str, str]:
    """What figures can be of, by what the URL says: the data set and the metric in words."""
    return {
        on_of(measured): f"{gathered.datasets[measured.dataset_id]}, {SCALES[measured.metric].title}"
        for measured in gathered.measured
    }


def on_of(measured: Measured) -> str:
    """A data set and a metric as the URL says them."""
    return f"{measured.dataset_id}.{measured.metric}"


def measured_on(gathered: RunSet, on: str) -> Measured:
    """The data set and metric asked for, or where no run is on them those on which the most have finished."""
    return next((measured for measured in gathered.measured if on_of(measured) == on), next(iter(gathered.measured)))


def cautions(chosen: Chosen, on: str) -> list[str]:
    """What a reader has to know before comparing, each a sentence or two."""
    gathered = chosen.gathered
    if not gathered.runs:
        return []
    measured = measured_on(gathered, on)
    shown = gathered.on(measured)
    told = []
    if len(gathered.measured) > 1:
        what = " and ".join(
            plural(len(several), noun)
            for noun, several in (
                ("data set", gathered.datasets),
                ("metric", {one.metric for one in gathered.measured}),
            )
            if len(several) > 1
        )
        told.append(
            f"These runs are of {what}, between which performance cannot be compared. Figures show "
            f"{measured_in_words(gathered)[on_of(measured)]}: {count(len(shown.runs))} of "
            f"{plural(len(gathered.runs), 'run')}. The table of means has a column for each."
        )
    if "evaluation_zeta" in shown.differing:
        told.append("IsoScore★ was taken at different ζ, between which it cannot be compared. No mean is over several.")
    if others := shown.beside([*chosen.fields, *COORDINATES, *COMPARABLE]):
        named = ", ".join(inside(field) for field in others)
        told.append(f"Some points are means over runs that differ in {named} too.")
    return told


def _table(columns: Shown = Shown.PERFORMANCE, decimals: str = "", bold: bool = True) -> TableQuery:
    known = decimals.isdecimal() and decimals.isascii() and int(decimals[:3]) <= MOST_DECIMALS
    return TableQuery(columns, Style(int(decimals) if known else None, bold))


TableDep = Annotated[TableQuery, Depends(_table)]


def _across(
    q: str = "",
    group: Annotated[list[str] | None, Query()] = None,
    on: str = "",
) -> AcrossQuery:
    return AcrossQuery(q.strip(), tuple(group or ()), on)


AcrossDep = Annotated[AcrossQuery, Depends(_across)]
