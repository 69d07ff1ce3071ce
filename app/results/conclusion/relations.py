"""The runs that count, the groups they can be compared in, and the isotropy and performance of each setting."""

from collections import Counter
from collections.abc import Iterable
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


_RunsByCell = dict[tuple[ComparableGroup, Setting, int], list[AnyRun]]
_FamiliesByGroup = dict[ComparableGroup, dict[Regularizer, list[Family]]]


def list_counted_runs(sweep: RunTable) -> list[AnyRun]:
    """Return the finished runs that have a performance, except those of pruned settings."""
    return [
        run
        for run in sweep.scored_runs
        if run.performance is not None and isfinite(run.performance) and sweep.setting(run) not in sweep.pruned_settings
    ]


def group_of(run: AnyRun) -> ComparableGroup:
    return ComparableGroup(run.experiment.dataset_id, run.config.metric, run.config.model, run.config.evaluation_zeta)


def average_performance(runs: Iterable[AnyRun]) -> float:
    return fmean(run.performance for run in runs if run.performance is not None)


def measure_runs(sweep: RunTable, runs: Iterable[AnyRun]) -> tuple[MeasuredRun, ...]:
    """Return isotropy and performance by method, setting and seed.

    A baseline belongs to every family that starts from it, but only for the method with the most values of λ. Otherwise
    methods would share runs.
    """
    runs_by_cell: _RunsByCell = {}
    for run in runs:
        if run.isoscore_star is not None and isfinite(run.isoscore_star):
            runs_by_cell.setdefault((group_of(run), sweep.setting(run), run.seed), []).append(run)
    families_by_group = _list_families(runs_by_cell)
    measured = []
    for (group, setting, seed), cell_runs in runs_by_cell.items():
        families = next(iter(families_by_group[group].values()), []) if setting.is_baseline else [setting.family]
        isotropy = fmean(run.isoscore_star for run in cell_runs if run.isoscore_star is not None)
        performance = average_performance(cell_runs)
        measured += [
            MeasuredRun((group, family.regularizer), family, setting, setting.lam, seed, isotropy, performance)
            for family in families
            if sweep.belongs(setting, family)
        ]
    return tuple(measured)


def _list_families(runs_by_cell: _RunsByCell) -> _FamiliesByGroup:
    """Return the families of each method by comparable group, starting with the method with the most values of λ."""
    families_by_group: _FamiliesByGroup = {}
    for group, setting, _ in runs_by_cell:
        families_by_method = families_by_group.setdefault(group, {})
        if not setting.is_baseline:
            families = families_by_method.setdefault(setting.regularizer, [])
            if (family := setting.family) not in families:
                families.append(family)
    distinct_lambdas = {(group, setting.regularizer, setting.lam) for group, setting, _ in runs_by_cell}
    n_lambdas = Counter((group, regularizer) for group, regularizer, _ in distinct_lambdas)
    return {
        group: dict(sorted(families_by_method.items(), key=lambda item: -n_lambdas[group, item[0]]))
        for group, families_by_method in families_by_group.items()
    }
