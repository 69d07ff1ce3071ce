"""The finished runs of a sweep, gathered by setting, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.models import Run, RunStatus
from app.figures.figure import Table
from app.figures.stats import Estimate, estimate
from app.figures.sweep import Setting, Sweep

COLUMNS = [
    "runs",
    "performance_mean",
    "performance_ci95_half_width",
    "isoscore_star_mean",
    "isoscore_star_ci95_half_width",
]
SEED_COLUMNS = ["seed", "performance", "isoscore_star", "isoscore_star_reason"]


@dataclass(frozen=True)
class Point:
    """The finished runs of one setting."""

    setting: Setting
    runs: list[Run]
    performance: Estimate
    isotropy: Estimate | None


def points_of(sweep: Sweep, runs: Sequence[Run]) -> list[Point]:
    """Finished runs, one point for all that varies but the seed, by λ."""
    return [_point(setting, alike) for setting, alike in sweep.by_setting(runs).items()]


def finished(sweep: Sweep) -> list[Run]:
    """The runs that have a performance."""
    return [run for run in sweep.runs if run.status is RunStatus.FINISHED and run.performance is not None]


def table(sweep: Sweep, points: Sequence[Point], *, seeds: bool) -> Table:
    """The means with their intervals, or with ``seeds`` the runs behind them."""
    if seeds:
        return Table(
            [*sweep.columns, *SEED_COLUMNS],
            [
                [*sweep.cells(p.setting), run.seed, run.performance, run.isoscore_star, run.isoscore_star_reason]
                for p in points
                for run in p.runs
            ],
        )
    return Table(
        [*sweep.columns, *COLUMNS],
        [[*sweep.cells(p.setting), len(p.runs), *cells(p.performance), *cells(p.isotropy)] for p in points],
    )


def cells(found: Estimate | None) -> list[float | None]:
    """A mean and its interval as a table has them."""
    return [found.mean, found.half_width] if found else [None, None]


def how_many(sizes: Sequence[int]) -> str:
    """How many seeds are behind each mean: n = 5, or n = 3 to 5."""
    low, high = min(sizes), max(sizes)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def _point(setting: Setting, runs: list[Run]) -> Point:
    performance = [run.performance for run in runs if run.performance is not None]
    isotropy = [run.isoscore_star for run in runs if run.isoscore_star is not None]
    return Point(setting, runs, estimate(performance), estimate(isotropy) if isotropy else None)
