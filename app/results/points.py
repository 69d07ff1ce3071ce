"""The finished runs of a sweep, gathered by setting, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.models import Run, RunStatus
from app.db.trivial import learned_nothing
from app.figures.figure import Table
from app.figures.trivial import Trivial
from app.results.setting import Setting
from app.results.statistics.estimate import Error, Estimate, estimate
from app.results.statistics.repeats import by_seed
from app.results.sweep import Sweep
from isoscope.core.formatting import count, plural

MOST_NAMED = 3
SEED_COLUMNS = ["seed", "performance", "performance_reason", "isoscore_star", "isoscore_star_reason"]


@dataclass(frozen=True)
class Point:
    """The finished runs of one setting, and the means over their seeds, of which each counts once."""

    setting: Setting
    runs: list[Run]
    performance: Estimate
    isotropy: Estimate | None


def points_of(sweep: Sweep, runs: Sequence[Run], error: Error = Error.CI95) -> list[Point]:
    """Runs that have a performance, one point for all that varies but the seed, by λ."""
    return [_point(setting, alike, error) for setting, alike in sweep.by_setting(runs).items()]


def finished(sweep: Sweep) -> list[Run]:
    """The runs that have finished, whatever came out."""
    return [run for run in sweep.runs if run.status is RunStatus.FINISHED]


def scored(sweep: Sweep) -> list[Run]:
    """The finished runs that have a performance."""
    return [run for run in finished(sweep) if run.performance is not None]


def unscored(sweep: Sweep) -> str:
    """How many finished runs have no performance, and the reason of the first; empty where all have one."""
    left_out = [run for run in finished(sweep) if run.performance is None]
    if not left_out:
        return ""
    reason = f" {left_out[0].performance_reason}" if left_out[0].performance_reason else ""
    return f" Not drawn, because performance is undefined: {plural(len(left_out), 'run')}.{reason}"


def flattered(what: str, labels: Sequence[str]) -> str:
    """What is done with settings that a study gave up a run of, and why; empty where there is none."""
    if not labels:
        return ""
    return (
        f" {what}, because the study pruned some of their runs, and the finished ones overstate them: {named(labels)}."
    )


def given_up(sweep: Sweep, what: str) -> str:
    """The same of all such settings of a sweep."""
    return flattered(what, [sweep.label(setting) for setting in sweep.settings if setting in sweep.given_up])


def named(labels: Sequence[str]) -> str:
    """The first few of them, and how many there are besides."""
    more = f" and {count(len(labels) - MOST_NAMED)} more" if len(labels) > MOST_NAMED else ""
    return "; ".join(labels[:MOST_NAMED]) + more


def empty(sweep: Sweep) -> str:
    """What there is to say while there is no point."""
    if told := unscored(sweep):
        return told.strip()
    if all(run.status.final for run in sweep.runs):
        return "No run has finished, so there is nothing to plot."
    return "The first point appears here when the first run has finished."


def table(sweep: Sweep, points: Sequence[Point], error: Error, trivial: Trivial, *, seeds: bool) -> Table:
    """The means with their error bars, or with ``seeds`` all finished runs, and why a value is missing."""
    if seeds:
        judged = ["trivial_performance", "learned_nothing"] if trivial.columns else []
        return Table(
            [*sweep.columns, *SEED_COLUMNS, *judged],
            [
                [
                    *sweep.cells(setting),
                    *(getattr(run, column) for column in SEED_COLUMNS),
                    *([trivial.score, learned_nothing(run)] if judged else []),
                ]
                for setting, runs in sweep.by_setting(finished(sweep)).items()
                for run in runs
            ],
        )
    return Table(
        [*sweep.columns, *(f"{of}_{what}" for of in ("performance", "isoscore_star")
                           for what in ("seeds", "mean", error.column)), *trivial.columns],
        [[*sweep.cells(p.setting), *_counted(p.performance), *_counted(p.isotropy), *trivial.cells(p.setting)]
         for p in points],
    )  # fmt: skip


def cells(found: Estimate | None) -> list[float | None]:
    """A mean and its error as a table has them."""
    return [found.mean, found.half_width] if found else [None, None]


def _counted(found: Estimate | None) -> list[float | None]:
    return [found.n if found else 0, *cells(found)]


def how_many(sizes: Sequence[int]) -> str:
    """How many seeds are behind each mean: n = 5, or n = 3 to 5."""
    low, high = min(sizes), max(sizes)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def averaged(sizes: Sequence[int], error: Error = Error.CI95) -> str:
    """What stands behind what is drawn, as a sentence: single runs, or means and their error bars."""
    if max(sizes) == 1:
        return "Each is one run (n = 1 seed); an interval needs two seeds or more."
    return f"Means over seeds ({how_many(sizes)}) with {error.name_in_full}s."


def _point(setting: Setting, runs: list[Run], error: Error) -> Point:
    performance = by_seed((run.seed, run.performance) for run in runs if run.performance is not None)
    isotropy = by_seed((run.seed, run.isoscore_star) for run in runs if run.isoscore_star is not None)
    return Point(
        setting,
        runs,
        estimate([*performance.values()], error),
        estimate([*isotropy.values()], error) if isotropy else None,
    )
