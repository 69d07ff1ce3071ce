"""Which runs count, what they can be compared with, and isotropy and performance of each setting."""

from collections.abc import Iterable, Mapping
from math import isfinite
from statistics import fmean
from typing import NamedTuple

from app.db.run_rows import AnyRun
from app.results.run_table import Family, RunTable, Setting
from app.results.statistics.relation import MeasuredRun
from isotropy.catalog import Regularizer


class ComparableGroup(NamedTuple):
    """Runs whose performance and isotropy can be compared with each other."""

    dataset: str | None
    metric: str
    model: str
    evaluation_zeta: float | None
    """ζ of IsoScore*."""


def counted_runs(sweep: RunTable) -> list[AnyRun]:
    """Return the finished runs that have a performance, except those of pruned settings."""
    return [
        run
        for run in sweep.scored_runs
        if run.performance is not None and isfinite(run.performance) and sweep.setting(run) not in sweep.pruned_settings
    ]


def group_of(run: AnyRun) -> ComparableGroup:
    """Return the group of runs that a run can be compared with."""
    return ComparableGroup(
        run.experiment.dataset_id,
        run.config.metric,
        run.config.model,
        run.config.evaluation_zeta,
    )


def measured_runs(sweep: RunTable, runs: Iterable[AnyRun]) -> tuple[MeasuredRun, ...]:
    """Return isotropy and performance by method, setting and seed.

    A baseline belongs to every line that starts from it, but only for the method with the most values of λ. Otherwise
    methods would share runs.
    """
    cells = _cells(sweep, (run for run in runs if run.isoscore_star is not None and isfinite(run.isoscore_star)))
    lines = _lines(sweep, cells)
    measured = []
    for (group, setting, seed), cell_runs in cells.items():
        families = _baseline_families(lines[group]) if setting.is_baseline else [setting.family]
        isotropy = fmean(run.isoscore_star for run in cell_runs if run.isoscore_star is not None)
        performance = fmean(map(_performance, cell_runs))
        measured += [
            MeasuredRun((group, family.regularizer), family, setting, setting.lam, seed, isotropy, performance)
            for family in families
            if sweep.belongs(setting, family)
        ]
    return tuple(measured)


_Cells = dict[tuple[ComparableGroup, Setting, int], list[AnyRun]]
_Lines = dict[ComparableGroup, dict[Regularizer, list[Family]]]


def _cells(sweep: RunTable, runs: Iterable[AnyRun]) -> _Cells:
    cells: _Cells = {}
    for run in runs:
        cells.setdefault((group_of(run), sweep.setting(run), run.seed), []).append(run)
    return cells


def _lines(sweep: RunTable, cells: _Cells) -> _Lines:
    """Return the families of each method by comparable group, starting with the method with the most values of λ."""
    lines: _Lines = {}
    for group, setting, _ in cells:
        methods = lines.setdefault(group, {})
        if not setting.is_baseline:
            families = methods.setdefault(setting.regularizer, [])
            if (family := setting.family) not in families:
                families.append(family)
    lambdas = {(group, setting.regularizer, setting.lam) for group, setting, _ in cells}

    def values(group: ComparableGroup, method: Regularizer) -> int:
        return sum(measured_lambda[:2] == (group, method) for measured_lambda in lambdas)

    return {
        group: dict(sorted(methods.items(), key=lambda item: -values(group, item[0])))
        for group, methods in lines.items()
    }


def _baseline_families(methods: Mapping[Regularizer, list[Family]]) -> list[Family]:
    """Return the families of the method that the baseline is counted for."""
    return next(iter(methods.values()), [])


def _performance(run: AnyRun) -> float:
    return run.performance if run.performance is not None else float("nan")
