"""The numbers of a conclusion: collapsed settings, comparisons with baselines, and the shape of the relation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

import numpy as np

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL, look_level, most_collapsed
from app.db.run_rows import AnyRun
from app.results.conclusion.comparisons import (
    NO_FACTS,
    Comparison,
    ComparisonSet,
    RunFacts,
    SettingLayout,
    Verdict,
    compare_with_baselines,
)
from app.results.conclusion.relations import list_counted_runs, measure_runs
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import average_by_seed
from app.results.statistics.layout import Overall
from app.results.statistics.relation import MeasuredRun, Relation, measure_relation
from app.web.dependencies import Row

FLAT_MARGIN = 0.02
"""Difference within which all intervals lie if performance is flat."""


class FlaggedRun(Row):
    """A run that learned nothing or whose training diverged, and why, as a sentence."""

    run_id: str
    label: str
    why: str


class CollapsedSetting(NamedTuple):
    """A setting that gives almost all rows one prediction, or diverges, in two thirds of its seeds or more."""

    setting: Setting
    label: str
    collapsed: int
    seeds: int
    why: str
    """Why one of these seeds collapsed, as a sentence."""


class RelationShape(StrEnum):
    """How performance changes with isotropy across settings."""

    RISING = "rising"
    FALLING = "falling"
    PEAK = "peak"
    FLAT = "flat"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Evidence:
    """The numbers of a sweep's conclusion."""

    relation: Relation
    """Tested once: seeds that were added after its test are left out."""
    shape: RelationShape
    peak: str | None
    """Labels of the settings that exceed both the least and the most isotropic one of their line; None if none does."""
    overall: Overall | None
    """None while runs are unfinished, or if there is nothing to test."""
    comparisons: list[Comparison]
    collapsed: list[CollapsedSetting]
    learned: list[str]
    """Labels of settings that did not collapse."""
    uncompared_notes: list[str]
    """Sentences about settings without a usable baseline, or without a seed in common with it."""
    repeated: list[str]
    """Labels of the pairs of setting and seed that were run more than once. Each pair counts once."""
    learned_nothing: list[FlaggedRun]
    diverged: list[FlaggedRun]
    unfinished: int
    """Number of runs that have not ended. There are no verdicts before all have."""
    looks: int
    """Number of times settings were tested: once, and again after each round of added seeds."""

    @property
    def best(self) -> Comparison | None:
        """Return the comparison with the largest difference among those with the verdict better; None without any."""
        better = [comparison for comparison in self.comparisons if comparison.verdict is Verdict.BETTER]
        return max(better, key=lambda comparison: comparison.estimate, default=None)

    @property
    def direction(self) -> Verdict | None:
        """Return whether more isotropic settings do better or worse; None if the shape shows neither."""
        return {RelationShape.RISING: Verdict.BETTER, RelationShape.FALLING: Verdict.WORSE}.get(self.shape)

    @property
    def baseline_collapsed(self) -> bool:
        """Return whether nothing is compared because a baseline collapsed and no setting has another."""
        return not self.comparisons and any(collapse.setting.is_baseline for collapse in self.collapsed)


def collect_evidence(sweep: RunTable, facts: Mapping[str, RunFacts] | None = None) -> Evidence:
    """Compute the evidence of the finished runs, with ``facts`` by run id.

    Settings with a run that a study pruned are left out, because only their better runs finished.
    """
    facts = facts or {}
    runs = list_counted_runs(sweep)
    collapsed = _find_collapsed(sweep, facts)
    collapsed_settings = {collapse.setting for collapse in collapsed}
    gains = {setting: _compute_gain(sweep, runs, setting, collapsed_settings) for setting in collapsed_settings}
    learned_runs = [run for run in runs if sweep.setting(run) not in collapsed_settings]
    comparison_set = ComparisonSet([], [], overall=None)
    for seed_round in sorted({1, *(run.seed_round for run in sweep.runs)}):
        setting_layout = SettingLayout(sweep, [run for run in learned_runs if run.seed_round <= seed_round], facts)
        comparison_set = compare_with_baselines(sweep, setting_layout, gains, comparison_set)
    relation = measure_relation(_measure_first_rounds(sweep, runs))
    unfinished = sum(not run.status.final for run in sweep.runs)
    # A relation implies that settings differ. Claim one only if they do, so that all claims share one level.
    may_relate = bool(collapsed) or comparison_set.differs is not False
    peak = None
    if may_relate and comparison_set.overall is not None:
        level = look_level(max(comparison_set.looks, 1))
        peak = _find_peak(sweep, SettingLayout(sweep, runs, facts), runs, collapsed_settings, level)
    shape = RelationShape.UNCLEAR
    if not unfinished:
        shape = _find_shape(relation if may_relate else None, peak, comparison_set.comparisons)
    return Evidence(
        relation=relation,
        shape=shape,
        peak=peak,
        overall=comparison_set.overall,
        comparisons=comparison_set.comparisons,
        collapsed=collapsed,
        learned=[sweep.label(setting) for setting in setting_layout.settings],
        uncompared_notes=comparison_set.notes,
        repeated=[
            _label_run(sweep, setting, seed)
            for setting, setting_runs in sweep.by_setting(runs).items()
            for seed, n_runs in sorted(Counter(run.seed for run in setting_runs).items())
            if n_runs > 1
        ],
        learned_nothing=_flag_runs(sweep, facts, lambda run_facts: run_facts.learned_nothing),
        diverged=_flag_runs(sweep, facts, lambda run_facts: run_facts.diverged),
        unfinished=unfinished,
        looks=comparison_set.looks,
    )


def _find_collapsed(sweep: RunTable, facts: Mapping[str, RunFacts]) -> list[CollapsedSetting]:
    collapsed = []
    for setting, runs in sweep.finished_by_setting.items():
        seeds = {run.seed for run in runs}
        reasons = {run.seed: why for run in runs if (why := facts.get(run.id, NO_FACTS).collapse_note)}
        if most_collapsed(len(reasons), len(seeds)):
            why = next(iter(reasons.values()))
            collapsed.append(CollapsedSetting(setting, sweep.label(setting), len(reasons), len(seeds), why))
    return collapsed


def _compute_gain(sweep: RunTable, runs: Sequence[AnyRun], setting: Setting, collapsed: set[Setting]) -> float | None:
    """Return a collapsed setting's mean difference from a baseline that did not collapse; None without shared seeds."""
    if setting.is_baseline:
        return None
    runs_by_setting = sweep.by_setting(runs)
    baseline = sweep.find_baseline(setting, (key for key in runs_by_setting if key not in collapsed))
    if baseline is None:
        return None
    scores, baseline_scores = (
        average_by_seed((run.seed, run.performance) for run in setting_runs if run.performance is not None)
        for setting_runs in (runs_by_setting.get(setting, []), runs_by_setting[baseline])
    )
    seeds = scores.keys() & baseline_scores.keys()
    return fmean(scores[seed] - baseline_scores[seed] for seed in seeds) if seeds else None


def _find_peak(
    sweep: RunTable, setting_layout: SettingLayout, runs: Sequence[AnyRun], collapsed: set[Setting], level: float
) -> str | None:
    """Return the label of the best setting above both the least and the most isotropic one of its line, or None.

    It is followed by those of other such settings that share seeds with it and do not clearly differ from it.
    Intervals are simultaneous over all lines. There is no peak between two collapsed ends.
    """
    isotropy = {
        setting: fmean(values)
        for setting, setting_runs in sweep.by_setting(runs).items()
        if (values := [run.isoscore_star for run in setting_runs if run.isoscore_star is not None])
    }
    layout, settings = setting_layout.layout, setting_layout.settings
    # Indices of each setting between the two ends of isotropy, and of its pair with either end.
    candidates: list[tuple[int, list[tuple[int, int]]]] = []
    for family in sweep.families:
        measured = [index for index in setting_layout.line_indices(family) if settings[index] in isotropy]
        by_isotropy = sorted(measured, key=lambda index: isotropy[settings[index]])
        ends = [*by_isotropy[:1], *by_isotropy[-1:]]
        if not collapsed.issuperset(settings[end] for end in ends):
            candidates += [(index, [(index, end) for end in ends]) for index in by_isotropy[1:-1]]
    pairs = [
        (index, end)
        for index, end in dict.fromkeys(pair for _, index_pairs in candidates for pair in index_pairs)
        if len(setting_layout.list_shared_seeds(settings[index], settings[end])) >= MIN_SEEDS
    ]
    contrasts = layout.compare(np.array([layout.pair_weights(*pair) for pair in pairs]), level)
    exceeding = {
        pair for pair, contrast in zip(pairs, contrasts, strict=True) if contrast.decided and contrast.estimate > 0
    }
    peaks = {index for index, index_pairs in candidates if exceeding.issuperset(index_pairs)}
    if not peaks:
        return None
    best = max(peaks, key=lambda index: layout.scores[layout.settings == index].mean())
    rivals = [index for index in peaks - {best} if setting_layout.list_shared_seeds(settings[index], settings[best])]
    contrasts = layout.compare(np.array([layout.pair_weights(best, rival) for rival in rivals]), level)
    tied = [rival for rival, contrast in zip(rivals, contrasts, strict=True) if not contrast.decided]
    return " or ".join(sweep.label(settings[index]) for index in sorted([best, *tied]))


def _measure_first_rounds(sweep: RunTable, runs: Sequence[AnyRun]) -> tuple[MeasuredRun, ...]:
    """Measure the runs up to the first seed round that could give a significant p: the relation is tested once."""
    measured: tuple[MeasuredRun, ...] = ()
    for seed_round in sorted({run.seed_round for run in runs}):
        measured = measure_runs(sweep, [run for run in runs if run.seed_round <= seed_round])
        if (measure_relation(measured).smallest_p or 1.0) <= SIGNIFICANCE_LEVEL:
            break
    return measured


def _find_shape(relation: Relation | None, peak: str | None, comparisons: Sequence[Comparison]) -> RelationShape:
    if peak is not None:
        return RelationShape.PEAK
    if relation is not None and relation.p is not None and relation.p <= SIGNIFICANCE_LEVEL:
        return RelationShape.RISING if relation.positive else RelationShape.FALLING
    return RelationShape.FLAT if comparisons and all(map(_is_flat, comparisons)) else RelationShape.UNCLEAR


def _is_flat(comparison: Comparison) -> bool:
    low, high = comparison.contrast.low, comparison.contrast.high
    if comparison.verdict is not Verdict.UNDECIDED or low is None or high is None:
        return False
    return -FLAT_MARGIN <= low <= high <= FLAT_MARGIN


def _flag_runs(
    sweep: RunTable, facts: Mapping[str, RunFacts], find_reason: Callable[[RunFacts], str | None]
) -> list[FlaggedRun]:
    return [
        FlaggedRun(run_id=run.id, label=_label_run(sweep, setting, run.seed), why=reason)
        for setting, runs in sweep.finished_by_setting.items()
        for run in runs
        if (reason := find_reason(facts.get(run.id, NO_FACTS)))
    ]


def _label_run(sweep: RunTable, setting: Setting, seed: int) -> str:
    return f"{sweep.label(setting)}, seed {seed}"


class PooledRelation(NamedTuple):
    """The relation across the settings of several sweeps, each with one data set and one metric."""

    n_sweeps: int
    relation: Relation


def pool_sweeps(sweeps: Sequence[RunTable]) -> PooledRelation | None:
    """Return the relation pooled over sweeps with one data set and metric each; None if fewer than two have runs."""
    with_runs = [(sweep, runs) for sweep in sweeps if (runs := list_counted_runs(sweep))]
    if len(with_runs) < 2:
        return None
    measured = tuple(run for sweep, runs in with_runs for run in _measure_first_rounds(sweep, runs))
    return PooledRelation(len(with_runs), measure_relation(measured))
