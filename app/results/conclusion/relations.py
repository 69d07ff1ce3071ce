"""Inputs of the tests of a sweep, and curves of performance over λ with their peaks."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import NamedTuple

from app.core.evidence import SIGNIFICANCE_LEVEL
from app.db.run_rows import AnyRun
from app.results.run_table import Family, RunTable, Setting
from app.results.statistics.relation import MeasuredRun, adjusted_means
from app.results.statistics.setting_effect import ScoredRun, setting_effect
from isotropy.catalog import Regularizer


class ComparableGroup(NamedTuple):
    """Runs whose performance and isotropy can be compared with each other."""

    dataset: str | None
    metric: str
    model: str
    evaluation_zeta: float | None
    """ζ of IsoScore*."""


class Curve(NamedTuple):
    """Mean performance of a method by λ minus that at λ = 0, averaged over the settings crossed with λ."""

    group: ComparableGroup
    regularizer: Regularizer
    gains: dict[float, float]
    """Differences from λ = 0, by λ."""
    settings: frozenset[Setting]
    """The settings in the average, without the baselines."""
    lower: tuple[bool, bool]
    """Whether every λ below 0 does worse than λ = 0 by more than chance; and the same above 0."""

    @property
    def sides(self) -> tuple[list[float], list[float]]:
        """Return the gains below λ = 0 and those above."""
        below = [gain for lam, gain in self.gains.items() if lam < 0]
        return below, [gain for lam, gain in self.gains.items() if lam > 0]


def counted_runs(sweep: RunTable, left_out: Collection[str] = ()) -> list[AnyRun]:
    """Return the finished runs that have a performance, except those in ``left_out`` and those of pruned settings."""
    return [
        run
        for run in sweep.scored_runs
        if run.performance is not None
        and isfinite(run.performance)
        and sweep.setting(run) not in sweep.pruned_settings
        and run.id not in left_out
    ]


def group_of(run: AnyRun) -> ComparableGroup:
    """Return the group of runs that a run can be compared with."""
    return ComparableGroup(
        run.experiment.dataset_id,
        run.config.metric,
        run.config.model,
        run.config.evaluation_zeta,
    )


def scored_runs(sweep: RunTable, runs: Iterable[AnyRun]) -> tuple[ScoredRun, ...]:
    """Return performance by setting and seed, averaged over repeated runs."""
    cells = _cells(sweep, runs)
    return tuple(
        ScoredRun(group, setting, seed, fmean(_performance(run) for run in cell_runs))
        for (group, setting, seed), cell_runs in cells.items()
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


def curves(sweep: RunTable, runs: Iterable[AnyRun]) -> list[Curve]:
    """Return performance over λ for every method that was run at λ = 0, adjusted for seeds."""
    cells = _cells(sweep, runs)
    method_curves = []
    for group, by_method in _lines(sweep, cells).items():
        group_cells = {
            (setting, seed): cell_runs
            for (cell_group, setting, seed), cell_runs in cells.items()
            if cell_group == group
        }
        values = [fmean(map(_performance, cell_runs)) for cell_runs in group_cells.values()]
        means = adjusted_means([setting for setting, _ in group_cells], [seed for _, seed in group_cells], values)
        for regularizer, families in by_method.items():
            baselines = _baselines(sweep, means, families)
            if baselines:
                gains = _gains(means, baselines)
                lower_below, lower_above = (_is_lower(sweep, group_cells, baselines, gains, sign) for sign in (-1, 1))
                method_curves.append(Curve(group, regularizer, gains, frozenset(baselines), (lower_below, lower_above)))
    return method_curves


def _is_lower(
    sweep: RunTable,
    cells: Mapping[tuple[Setting, int], list[AnyRun]],
    baselines: Mapping[Setting, Setting],
    gains: Mapping[float, float],
    sign: int,
) -> bool:
    """Return whether every λ on one side of 0 loses and these settings and their baselines differ significantly."""
    side_gains = [gain for lam, gain in gains.items() if sign * lam > 0]
    if not side_gains or max(side_gains) >= 0:
        return False
    side_baselines = {setting: baseline for setting, baseline in baselines.items() if sign * setting.lam > 0}
    compared_settings = side_baselines.keys() | {*side_baselines.values()}
    side_runs = [run for (setting, _), cell_runs in cells.items() if setting in compared_settings for run in cell_runs]
    p = setting_effect(scored_runs(sweep, side_runs)).p
    return p is not None and p <= SIGNIFICANCE_LEVEL


def _baselines(sweep: RunTable, means: Mapping[Hashable, float], families: Sequence[Family]) -> dict[Setting, Setting]:
    """Map each setting of these families to its baseline. Leave out settings without one."""
    settings = [setting for setting in means if isinstance(setting, Setting)]
    baseline_of: dict[Setting, Setting] = {}
    for family in families:
        baseline = next(
            (candidate for candidate in settings if candidate.is_baseline and sweep.belongs(candidate, family)), None
        )
        if baseline is not None:
            family_settings = (
                candidate for candidate in settings if not candidate.is_baseline and candidate.family == family
            )
            baseline_of |= dict.fromkeys(family_settings, baseline)
    return baseline_of


def _gains(means: Mapping[Hashable, float], baselines: Mapping[Setting, Setting]) -> dict[float, float]:
    differences_by_lambda: dict[float, list[float]] = {}
    for setting, baseline in baselines.items():
        differences_by_lambda.setdefault(setting.lam, []).append(means[setting] - means[baseline])
    return {lam: fmean(differences_by_lambda[lam]) for lam in sorted(differences_by_lambda)}


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
