"""The tests of a conclusion: the relation across settings, the effect of settings, and each against its baseline."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import or_
from typing import NamedTuple

from app.core.evidence import SIGNIFICANCE_LEVEL
from app.db.models import RunStatus
from app.db.run_rows import AnyRun
from app.results.conclusion.comparisons import NOTHING_KNOWN, Comparison, RunFacts, compare_with_baselines
from app.results.conclusion.relations import (
    ComparableGroup,
    Curve,
    counted_runs,
    curves,
    group_of,
    measured_runs,
    scored_runs,
)
from app.results.run_table import RunTable, Setting
from app.results.statistics.relation import Relation, relation
from app.results.statistics.setting_effect import SettingEffect, setting_effect
from app.results.statistics.verdict import Verdict

BEST = 1.0
"""Best value of every metric. At it, equal scores mean that the task is solved."""
FEWEST_ALIKE = 3
"""Minimum number of equal scores to conclude that models give every row the same answer."""


class FlaggedRun(NamedTuple):
    """A run that learned nothing or diverged, and the reason."""

    run_id: str
    label: str
    why: str


@dataclass(frozen=True)
class Evidence:
    """All tests of a sweep."""

    relation: Relation
    effect: SettingEffect
    curves: list[Curve]
    comparisons: list[Comparison]
    unpaired: list[str]
    """Sentences about settings without a baseline, or without a seed in common with it."""
    repeated: list[str]
    """Settings and seeds that were run more than once, and count once."""
    learned_nothing: list[FlaggedRun]
    diverged: list[FlaggedRun]
    without_flagged: "Evidence | None"
    """Tests without the runs that learned nothing or diverged; None without such runs, or if no run is left."""

    @property
    def peaks(self) -> list[Curve]:
        """Return the curves that fall on both sides of λ = 0, each time by more than chance."""
        return [curve for curve in self.curves if all(map(or_, curve.lower, self._worse_by_side(curve)))]

    @property
    def peaks_at_zero(self) -> bool:
        """Return whether every curve with values on both sides of λ = 0 peaks there, which leaves no direction."""
        two_sided = [curve for curve in self.curves if all(curve.sides)]
        return bool(two_sided) and all(curve in self.peaks for curve in two_sided)

    @property
    def direction(self) -> Verdict | None:
        """Return whether more isotropic settings do better or worse; None if that is not clear."""
        is_significant = (
            self.relation.p is not None and self.relation.p <= SIGNIFICANCE_LEVEL and not self.peaks_at_zero
        )
        return (Verdict.BETTER if self.relation.positive else Verdict.WORSE) if is_significant else None

    @property
    def smallest_p_holm(self) -> float | None:
        """Return the smallest p that the exact test can reach after Holm's correction; None without comparisons."""
        reachable = [comparison.flips.smallest_p for comparison in self.comparisons]
        return min(1.0, len(reachable) * min(reachable)) if reachable else None

    def _worse_by_side(self, curve: Curve) -> tuple[bool, bool]:
        """Return whether settings below λ = 0 do worse, and whether settings above do.

        A side does worse if some verdict says so and none says better.
        """
        curve_comparisons = [comparison for comparison in self.comparisons if comparison.setting in curve.settings]
        verdicts_by_side = (
            {comparison.judgment.verdict for comparison in curve_comparisons if sign * comparison.setting.lam > 0}
            for sign in (-1, 1)
        )
        below, above = (Verdict.WORSE in side and Verdict.BETTER not in side for side in verdicts_by_side)
        return below, above


def collect_evidence(sweep: RunTable, facts: Mapping[str, RunFacts] | None = None) -> Evidence:
    """Summarize what the finished runs show.

    Settings with a run that a study pruned are left out, because only their better runs finished.
    """
    known_facts = facts or {}
    runs = counted_runs(sweep)
    untrained = _flag_untrained(sweep, runs, known_facts)
    diverged = _flag_diverged(sweep, known_facts)
    left_out_ids = {run_flag.run_id for run_flag in (*untrained, *diverged)}
    has_other_runs = any(run.id not in left_out_ids for run in runs)
    reduced_evidence = (
        _evidence(sweep, known_facts, left_out_ids)
        if has_other_runs and any(run.id in left_out_ids for run in runs)
        else None
    )
    complete = _evidence(sweep, known_facts)
    return Evidence(
        **vars(complete) | {"learned_nothing": untrained, "diverged": diverged, "without_flagged": reduced_evidence}
    )


def _evidence(sweep: RunTable, facts: Mapping[str, RunFacts], left_out: Collection[str] = ()) -> Evidence:
    runs = counted_runs(sweep, left_out)
    compared, unpaired = compare_with_baselines(sweep, runs, facts)
    by_setting = sweep.by_setting(runs)
    return Evidence(
        relation(measured_runs(sweep, runs)),
        setting_effect(scored_runs(sweep, runs)),
        curves(sweep, runs),
        compared,
        unpaired,
        [
            _label(sweep, setting, seed)
            for setting, setting_runs in by_setting.items()
            for seed in _repeated_seeds(setting_runs)
        ],
        [],
        [],
        None,
    )


def _flag_untrained(sweep: RunTable, runs: Sequence[AnyRun], facts: Mapping[str, RunFacts]) -> list[FlaggedRun]:
    by_setting = sweep.by_setting(runs)
    constant_settings = _constant_settings(by_setting)
    flagged = []
    for setting, setting_runs in by_setting.items():
        for run in setting_runs:
            run_facts = facts.get(run.id, NOTHING_KNOWN)
            reason = run_facts.learned_nothing
            if reason is None and setting in constant_settings and not run_facts.has_trivial_score:
                reason = "All seeds of its setting score alike, as models do that give every row the same answer."
            if reason is not None:
                flagged.append(FlaggedRun(run.id, _label(sweep, setting, run.seed), reason))
    return flagged


def _constant_settings(by_setting: Mapping[Setting, Sequence[AnyRun]]) -> set[Setting]:
    """Return the settings whose seeds all share one score that no other run falls below.

    A model that answers every row the same scores like this. With few rows or rounded scores, seeds of a model that
    learned can share a score by chance: with 7 settings of 2 seeds and scores in steps of 1/300, this happened in half
    of all sweeps. So at least ``FEWEST_ALIKE`` runs must have the score.
    """
    scores_by_group: dict[ComparableGroup, dict[Setting, list[float]]] = {}
    for setting, setting_runs in by_setting.items():
        scores_by_group.setdefault(group_of(setting_runs[0]), {})[setting] = [
            run.performance or 0.0 for run in setting_runs
        ]
    repeated_settings = {
        setting for setting, setting_runs in by_setting.items() if len({run.seed for run in setting_runs}) > 1
    }
    constant_settings = set()
    for scores in scores_by_group.values():
        common_scores = {
            setting: seed_values[0]
            for setting, seed_values in scores.items()
            if setting in repeated_settings and len({*seed_values}) == 1
        }
        lowest = min(
            (score for setting, seed_values in scores.items() if setting not in common_scores for score in seed_values),
            default=BEST,
        )
        score_counts = Counter(chain.from_iterable(scores.values()))
        constant_settings |= {
            setting
            for setting, score in common_scores.items()
            if score_counts[score] >= FEWEST_ALIKE and BEST > score <= lowest
        }
    return constant_settings


def _flag_diverged(sweep: RunTable, facts: Mapping[str, RunFacts]) -> list[FlaggedRun]:
    return [
        FlaggedRun(run.id, _label(sweep, setting, run.seed), reason)
        for setting, setting_runs in sweep.by_setting(sweep.runs).items()
        for run in setting_runs
        if run.status is RunStatus.FINISHED and (reason := facts.get(run.id, NOTHING_KNOWN).diverged)
    ]


def _repeated_seeds(runs: Sequence[AnyRun]) -> list[int]:
    return [seed for seed, n_runs in sorted(Counter(run.seed for run in runs).items()) if n_runs > 1]


def _label(sweep: RunTable, setting: Setting, seed: int) -> str:
    return f"{sweep.label(setting)}, seed {seed}"


class PooledTests(NamedTuple):
    """The relation and the effect of settings, over all data sets and metrics together."""

    measured: int
    """Data sets and metrics."""
    relation: Relation
    effect: SettingEffect


def pool_sweeps(sweeps: Sequence[RunTable]) -> PooledTests | None:
    """Test several sweeps together, each on one data set and metric; return None for fewer than two."""
    with_runs = [(sweep, runs) for sweep in sweeps if (runs := counted_runs(sweep))]
    if len(with_runs) < 2:
        return None
    measured = tuple(run for sweep, runs in with_runs for run in measured_runs(sweep, runs))
    scored = tuple(run for sweep, runs in with_runs for run in scored_runs(sweep, runs))
    return PooledTests(len(with_runs), relation(measured), setting_effect(scored))
