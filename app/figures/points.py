"""The finished runs of a sweep, gathered by λ, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.models import Run, RunStatus
from app.figures.figure import Table
from app.figures.stats import Estimate, estimate

COLUMNS = [
    "lambda",
    "runs",
    "performance_mean",
    "performance_ci95_half_width",
    "isoscore_star_mean",
    "isoscore_star_ci95_half_width",
]
SEED_COLUMNS = ["lambda", "seed", "performance", "isoscore_star", "isoscore_star_reason"]


@dataclass(frozen=True)
class Point:
    """The finished runs of one λ."""

    lam: float
    runs: list[Run]
    performance: Estimate
    isotropy: Estimate | None


def points_by_lambda(runs: Sequence[Run]) -> list[Point]:
    """The runs that have a performance, grouped by λ from the least to the greatest."""
    done = [run for run in runs if run.status is RunStatus.FINISHED and run.performance is not None]
    return [_point(lam, [run for run in done if run.lam == lam]) for lam in sorted({run.lam for run in done})]


def table(points: list[Point], *, seeds: bool) -> Table:
    """The means with their intervals, or with ``seeds`` the runs behind them."""
    if seeds:
        runs = [run for point in points for run in point.runs]
        return Table(
            SEED_COLUMNS,
            [[run.lam, run.seed, run.performance, run.isoscore_star, run.isoscore_star_reason] for run in runs],
        )
    return Table(COLUMNS, [[p.lam, len(p.runs), *_cells(p.performance), *_cells(p.isotropy)] for p in points])


def _point(lam: float, runs: list[Run]) -> Point:
    performance = [run.performance for run in runs if run.performance is not None]
    isotropy = [run.isoscore_star for run in runs if run.isoscore_star is not None]
    return Point(lam, runs, estimate(performance), estimate(isotropy) if isotropy else None)


def _cells(found: Estimate | None) -> list[float | None]:
    return [found.mean, found.half_width] if found else [None, None]
