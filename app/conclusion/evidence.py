"""The numbers of a conclusion: whether isotropy and performance go together, and every λ against λ = 0."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from app.db.models import Run
from app.figures.points import named, scored
from app.figures.setting import Setting
from app.figures.sweep import Sweep
from app.statistics.correlation import Correlation, correlation
from app.statistics.estimate import Estimate, estimate
from app.statistics.holm import holm
from app.statistics.paired import SignFlips, sign_flips
from app.statistics.repeats import by_seed

LEVEL = 0.05
BEST = 1.0
"""What every metric is at best: there seeds score alike because the task is solved."""


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
    """All of a sweep; ``correlation`` is over seeds of settings, not over the means of settings."""

    correlation: Correlation
    within: list[str]
    """Fields that mean something to every run: within them runs are correlated, and settings are permuted."""
    differences: list[Difference]
    unpaired: list[str]
    """Sentences: what has no baseline, or no seed in common with it."""
    repeated: list[str]
    """Settings and seeds that were run more than once, and count once."""
    alike: Mapping[Setting, list[float]]
    """Settings whose seeds, two or more, all score the same and not the best: their training may have failed."""
    without_alike: Correlation | None
    """The correlation of all other settings; None without such settings, or without two others."""

    @property
    def smallest_p_holm(self) -> float | None:
        """What no corrected p-value of these differences can fall below; None where there is none."""
        reachable = [one.flips.smallest_p for one in self.differences]
        return min(1.0, len(reachable) * min(reachable)) if reachable else None

    def cannot_tell(self, one: Difference) -> bool:
        """Whether so few seeds leave its corrected p above the level, however great the difference."""
        return max(one.flips.smallest_p, self.smallest_p_holm or 0.0) > LEVEL


def evidence(sweep: Sweep) -> Evidence:
    """Of the finished runs, but for settings of which a study gave up a run: those left to finish do not count."""
    finite = [run for run in scored(sweep) if run.performance is not None and isfinite(run.performance)]
    by_setting = {setting: runs for setting, runs in sweep.by_setting(finite).items() if setting not in sweep.given_up}
    within = [field for i, field in enumerate(sweep.fields)
              if all(setting.values[i] is not None for setting in sweep.settings)]  # fmt: skip
    differences, unpaired = _differences(sweep, by_setting)
    alike = {
        setting: scores for setting, runs in by_setting.items() if _alike(scores := [*_performances(runs).values()])
    }
    others = {setting: runs for setting, runs in by_setting.items() if setting not in alike}
    return Evidence(
        _correlation(sweep, by_setting, within),
        within,
        differences,
        unpaired,
        [f"{sweep.label(setting)}, seed {seed}" for setting, runs in by_setting.items() for seed in _repeated(runs)],
        alike,
        _correlation(sweep, others, within) if alike and len(others) > 1 else None,
    )


def _correlation(sweep: Sweep, by_setting: Mapping[Setting, Sequence[Run]], within: Sequence[str]) -> Correlation:
    places = [sweep.fields.index(field) for field in within]
    x: list[float] = []
    y: list[float] = []
    seeds: list[int] = []
    groups: list[Hashable] = []
    for setting, runs in by_setting.items():
        measured = [run for run in runs if run.isoscore_star is not None and isfinite(run.isoscore_star)]
        isotropy = by_seed((run.seed, run.isoscore_star) for run in measured if run.isoscore_star is not None)
        x += isotropy.values()
        y += _performances(measured).values()
        seeds += isotropy
        groups += [tuple(setting.values[place] for place in places)] * len(isotropy)
    return correlation(tuple(x), tuple(y), tuple(seeds), tuple(groups))


def _differences(sweep: Sweep, by_setting: Mapping[Setting, Sequence[Run]]) -> tuple[list[Difference], list[str]]:
    """Every setting that has one, in the order of λ; and what there is to say of the others."""
    performances = {setting: _performances(runs) for setting, runs in by_setting.items()}
    found: list[tuple[Setting, list[int], list[float]]] = []
    alone, apart = [], []
    for setting, mine in performances.items():
        if setting.baseline:
            continue
        family = sweep.family(setting)
        plain = next((of for one, of in performances.items() if one.baseline and sweep.belongs(one, family)), None)
        if plain is None:
            alone.append(sweep.label(setting))
        elif seeds := sorted(mine.keys() & plain.keys()):
            found.append((setting, seeds, [mine[seed] - plain[seed] for seed in seeds]))
        else:
            apart.append(sweep.label(setting))
    told = []
    if alone:
        counts = " that counts" if any(setting.baseline for setting in sweep.given_up) else ""
        without = f"no run at λ = 0 that is alike in all else has a performance{counts}"
        told.append(f"Not compared, because {without}: {named(alone)}.")
    if apart:
        told.append(f"Not compared, because λ = 0 was run with other seeds: {named(apart)}.")
    return _tested(sweep, found), told


def _tested(sweep: Sweep, found: Sequence[tuple[Setting, list[int], list[float]]]) -> list[Difference]:
    flips = [sign_flips(values) for _, _, values in found]
    corrected = holm([one.p for one in flips])
    return [
        Difference(setting, sweep.label(setting), seeds, estimate(values), flipped, p)
        for (setting, seeds, values), flipped, p in zip(found, flips, corrected, strict=True)
    ]


def _performances(runs: Sequence[Run]) -> Mapping[int, float]:
    return by_seed((run.seed, run.performance) for run in runs if run.performance is not None)


def _alike(scores: Sequence[float]) -> bool:
    return len(scores) > 1 and len(set(scores)) == 1 and scores[0] < BEST


def _repeated(runs: Sequence[Run]) -> list[int]:
    return [seed for seed, often in sorted(Counter(run.seed for run in runs).items()) if often > 1]
