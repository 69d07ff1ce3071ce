"""The numbers of a conclusion: whether isotropy and performance go together, and every λ against λ = 0."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from app.db.models import Run
from app.figures.points import scored
from app.figures.setting import Setting
from app.figures.sweep import Sweep
from app.statistics.correlation import Correlation, correlation
from app.statistics.estimate import Estimate, estimate
from app.statistics.holm import holm
from app.statistics.paired import SignFlips, sign_flips

LEVEL = 0.05
MOST_NAMED = 3


@dataclass(frozen=True)
class Difference:
    """The performance of a setting less that of its baseline, over the seeds that both have."""

    setting: Setting
    label: str
    seeds: list[int]
    difference: Estimate
    """With its 95 % confidence interval by Student's t."""
    flips: SignFlips
    p_holm: float
    """Corrected for all settings of the sweep."""

    @property
    def verdict(self) -> str:
        """Better or worse where the corrected p-value says so, else nothing."""
        if self.p_holm > LEVEL:
            return ""
        return "better" if self.difference.mean > 0 else "worse"


@dataclass(frozen=True)
class Evidence:
    """All of a sweep; ``correlation`` is over single runs, not over their means."""

    correlation: Correlation
    within: list[str]
    """Fields within which runs are correlated and λ is permuted: whatever is no part of the regularizer's settings."""
    differences: list[Difference]
    unpaired: list[str]
    """Sentences: what has no baseline, no seed in common with it, or two runs of a seed."""

    @property
    def smallest_p_holm(self) -> float | None:
        """What no corrected p-value of these differences can fall below; None where there is none."""
        reachable = [one.flips.smallest_p for one in self.differences]
        return min(1.0, len(reachable) * min(reachable)) if reachable else None


def evidence(sweep: Sweep) -> Evidence:
    """Of the finished runs."""
    runs = [run for run in scored(sweep) if run.performance is not None and isfinite(run.performance)]
    within = [field for i, field in enumerate(sweep.fields)
              if all(setting.values[i] is not None for setting in sweep.settings)]  # fmt: skip
    differences, unpaired = _differences(sweep, runs)
    return Evidence(_correlation(sweep, runs, within), within, differences, unpaired)


def _correlation(sweep: Sweep, runs: Sequence[Run], within: Sequence[str]) -> Correlation:
    places = [sweep.fields.index(field) for field in within]
    x, y, seeds = [], [], []
    groups: list[Hashable] = []
    for run in runs:
        if run.performance is not None and run.isoscore_star is not None and isfinite(run.isoscore_star):
            x.append(run.isoscore_star)
            y.append(run.performance)
            values = sweep.setting(run).values
            seeds.append(run.seed)
            groups.append(tuple(values[place] for place in places))
    return correlation(tuple(x), tuple(y), tuple(seeds), tuple(groups))


def _differences(sweep: Sweep, runs: Sequence[Run]) -> tuple[list[Difference], list[str]]:
    """Every setting that has one, in the order of λ; and what there is to say of the others."""
    by_setting = {setting: _by_seed(alike) for setting, alike in sweep.by_setting(runs).items()}
    baselines = [setting for setting in by_setting if setting.baseline]
    found: list[tuple[Setting, list[int], list[float]]] = []
    alone, apart = [], []
    for setting, performances in by_setting.items():
        if setting.baseline:
            continue
        baseline = next((one for one in baselines if sweep.belongs(one, sweep.family(setting))), None)
        if baseline is None:
            alone.append(sweep.label(setting))
            continue
        seeds = sorted(performances.keys() & by_setting[baseline].keys())
        if not seeds:
            apart.append(sweep.label(setting))
            continue
        mine, plain = performances, by_setting[baseline]
        found.append((setting, seeds, [fmean(mine[seed]) - fmean(plain[seed]) for seed in seeds]))
    told = []
    if alone:
        without = "no run at λ = 0 that is alike in all else has a performance"
        told.append(f"Not compared, because {without}: {_named(alone)}.")
    if apart:
        told.append(f"Not compared, because λ = 0 was run with other seeds: {_named(apart)}.")
    return _tested(sweep, found), [*told, *_twice(sweep, by_setting)]


def _tested(sweep: Sweep, found: Sequence[tuple[Setting, list[int], list[float]]]) -> list[Difference]:
    flips = [sign_flips(values) for _, _, values in found]
    corrected = holm([one.p for one in flips])
    return [
        Difference(setting, sweep.label(setting), seeds, estimate(values), flipped, p)
        for (setting, seeds, values), flipped, p in zip(found, flips, corrected, strict=True)
    ]


def _by_seed(runs: Sequence[Run]) -> Mapping[int, list[float]]:
    gathered: dict[int, list[float]] = {}
    for run in runs:
        if run.performance is not None:
            gathered.setdefault(run.seed, []).append(run.performance)
    return gathered


def _named(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    return "; ".join(labels[:MOST_NAMED]) + more


def _twice(sweep: Sweep, by_setting: Mapping[Setting, Mapping[int, Sequence[float]]]) -> list[str]:
    doubled = [
        f"{sweep.label(setting)}, seed {seed}"
        for setting, by_seed in by_setting.items()
        for seed, performances in by_seed.items()
        if len(performances) > 1
    ]
    if not doubled:
        return []
    return [f"Run more than once, and compared by the mean of such runs: {_named(doubled)}."]
