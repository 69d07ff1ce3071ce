"""The numbers of a conclusion: what collapsed, each setting against its baseline, and the shape of the relation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

import numpy as np

from app.core.evidence import COLLAPSED_SHARE, MIN_COLLAPSED_RUNS, MIN_SEEDS, SIGNIFICANCE_LEVEL, look_level
from app.db.run_rows import AnyRun
from app.results.conclusion.comparisons import (
    NOTHING_KNOWN,
    Compared,
    Comparison,
    RunFacts,
    SettingLayout,
    Verdict,
    compare_settings,
)
from app.results.conclusion.relations import counted_runs, measured_runs
from app.results.run_table import RunTable, Setting
from app.results.statistics.layout import Overall
from app.results.statistics.relation import MeasuredRun, Relation, relation

FLAT_MARGIN = 0.02
"""Difference within which all intervals lie if performance is flat."""


class Flagged(NamedTuple):
    """A run that learned nothing or whose training diverged, and how that is known."""

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
    """How it is known of one of them, as a sentence."""


class RelationShape(StrEnum):
    """How performance goes with isotropy across settings."""

    RISING = "rising"
    FALLING = "falling"
    PEAK = "peak"
    FLAT = "flat"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Evidence:
    """All of a sweep."""

    relation: Relation
    """Without seeds added after its test, so that it is tested once."""
    shape: RelationShape
    peak: str | None
    """The setting that exceeds both the least and the most isotropic one of its line over λ."""
    overall: Overall | None
    """None while runs are unfinished, or if there is nothing to test."""
    comparisons: list[Comparison]
    collapsed: list[CollapsedSetting]
    learned: list[str]
    """Settings that did not collapse."""
    unpaired: list[str]
    """Sentences: what has no baseline, or no seed in common with it."""
    repeated: list[str]
    """Settings and seeds that were run more than once, and count once."""
    learned_nothing: list[Flagged]
    diverged: list[Flagged]
    unfinished: int
    """Runs that have not ended; as long as there are any, there is no verdict."""
    looks: int
    """How often settings were tested: once, and again after each round of added seeds."""

    @property
    def best(self) -> Comparison | None:
        """The setting that is better than its baseline by most, if a verdict says so of any."""
        better = [comparison for comparison in self.comparisons if comparison.verdict is Verdict.BETTER]
        return max(better, key=lambda comparison: comparison.estimate, default=None)

    @property
    def direction(self) -> Verdict | None:
        """What more isotropic settings do, where that can be told."""
        return {RelationShape.RISING: Verdict.BETTER, RelationShape.FALLING: Verdict.WORSE}.get(self.shape)

    @property
    def baseline_collapsed(self) -> bool:
        """Whether a baseline collapsed and no setting has another, so that nothing is compared."""
        return not self.comparisons and any(collapse.setting.is_baseline for collapse in self.collapsed)


def collect_evidence(sweep: RunTable, facts: Mapping[str, RunFacts] | None = None) -> Evidence:
    """Return what the finished runs show.

    Settings with a run that a study pruned are left out: only their better runs finished.
    """
    facts = facts or {}
    runs = counted_runs(sweep)
    collapsed = _collapsed_settings(sweep, facts)
    gone = {setting.setting for setting in collapsed}
    gains = {setting: _gain(sweep, runs, setting, gone) for setting in gone}
    learned = [run for run in runs if sweep.setting(run) not in gone]
    compared = Compared([], [], None)
    for seed_round in sorted({1, *(run.seed_round for run in sweep.runs)}):
        table = SettingLayout(sweep, [run for run in learned if run.seed_round <= seed_round], facts)
        compared = compare_settings(sweep, table, gains, compared)
    across = relation(_first_measured(sweep, runs))
    unfinished = sum(not run.status.final for run in sweep.runs)
    all_settings = SettingLayout(sweep, runs, facts)
    # A relation implies that settings differ. To claim it only where they do keeps all claims at one level together.
    may_relate = bool(collapsed) or compared.differs is not False
    can_peak = may_relate and compared.overall is not None
    peak = _find_peak(sweep, all_settings, runs, look_level(max(compared.looks, 1))) if can_peak else None
    return Evidence(
        across,
        RelationShape.UNCLEAR if unfinished else _shape(across if may_relate else None, peak, compared.comparisons),
        peak,
        compared.overall,
        compared.comparisons,
        collapsed,
        [sweep.label(setting) for setting in table.settings],
        compared.notes,
        [
            _label(sweep, setting, seed)
            for setting, alike in sweep.by_setting(runs).items()
            for seed in _repeated(alike)
        ],
        _flag(sweep, facts, lambda run_facts: run_facts.learned_nothing),
        _flag(sweep, facts, lambda run_facts: run_facts.diverged),
        unfinished,
        compared.looks,
    )


def _collapsed_settings(sweep: RunTable, facts: Mapping[str, RunFacts]) -> list[CollapsedSetting]:
    collapsed = []
    for setting, runs in sweep.finished_by_setting.items():
        seeds = {run.seed for run in runs}
        reasons = {run.seed: why for run in runs if (why := facts.get(run.id, NOTHING_KNOWN).collapsed)}
        if len(reasons) >= max(MIN_COLLAPSED_RUNS, COLLAPSED_SHARE * len(seeds)):
            why = next(iter(reasons.values()))
            collapsed.append(CollapsedSetting(setting, sweep.label(setting), len(reasons), len(seeds), why))
    return collapsed


def _gain(sweep: RunTable, runs: Sequence[AnyRun], setting: Setting, collapsed: set[Setting]) -> float | None:
    """Return the mean difference of a collapsed setting from a baseline that learned, over the seeds of both."""
    if setting.is_baseline:
        return None
    scores: dict[bool, dict[int, float]] = {True: {}, False: {}}
    for run in runs:
        run_setting = sweep.setting(run)
        if run.performance is None or (run_setting.is_baseline and run_setting in collapsed):
            continue
        if run_setting == setting or (run_setting.is_baseline and sweep.belongs(run_setting, setting.family)):
            scores[run_setting.is_baseline][run.seed] = run.performance
    common = scores[True].keys() & scores[False].keys()
    return fmean(scores[False][seed] - scores[True][seed] for seed in common) if common else None


def _find_peak(sweep: RunTable, table: SettingLayout, runs: Sequence[AnyRun], level: float) -> str | None:
    """Return the setting that exceeds both the least and the most isotropic one of a line over λ.

    The intervals of all lines hold at once.
    """
    isotropy = {
        setting: fmean(values)
        for setting, setting_runs in sweep.by_setting(runs).items()
        if (values := [run.isoscore_star for run in setting_runs if run.isoscore_star is not None])
    }
    candidates: list[tuple[int, int, int]] = []
    for family in sweep.families:
        measured = [index for index in table.line(family) if table.settings[index] in isotropy]
        order = sorted(measured, key=lambda index: isotropy[table.settings[index]])
        candidates += [(index, order[0], order[-1]) for index in order[1:-1]]
    pairs = [
        pair for pair in dict.fromkeys((index, end) for index, *ends in candidates for end in ends)
        if len(table.shared_seeds(*(table.settings[index] for index in pair))) >= MIN_SEEDS
    ]  # fmt: skip
    contrasts = table.layout.compare(np.array([table.layout.pair(*pair) for pair in pairs]), level)
    exceeding = {
        pair for pair, contrast in zip(pairs, contrasts, strict=True) if contrast.decided and contrast.estimate > 0
    }
    peaks = {index for index, *ends in candidates if exceeding.issuperset((index, end) for end in ends)}
    means = {index: float(table.layout.scores[table.layout.settings == index].mean()) for index in peaks}
    return sweep.label(table.settings[max(means, key=lambda index: means[index])]) if means else None


def _first_measured(sweep: RunTable, runs: Sequence[AnyRun]) -> tuple[MeasuredRun, ...]:
    """Return the runs of the rounds up to the first that could show a relation; later seeds do not test it again."""
    measured: tuple[MeasuredRun, ...] = ()
    for seed_round in sorted({run.seed_round for run in runs}):
        measured = measured_runs(sweep, [run for run in runs if run.seed_round <= seed_round])
        if (relation(measured).smallest_p or 1.0) <= SIGNIFICANCE_LEVEL:
            break
    return measured


def _shape(across: Relation | None, peak: str | None, comparisons: Sequence[Comparison]) -> RelationShape:
    if peak is not None:
        return RelationShape.PEAK
    if across is not None and across.p is not None and across.p <= SIGNIFICANCE_LEVEL:
        return RelationShape.RISING if across.positive else RelationShape.FALLING
    flat = bool(comparisons) and all(
        low is not None and high is not None and -FLAT_MARGIN <= low <= high <= FLAT_MARGIN
        for low, high in (
            (row.contrast.low, row.contrast.high) if row.verdict is not Verdict.TOO_FEW else (None, None)
            for row in comparisons
        )
    )
    return RelationShape.FLAT if flat else RelationShape.UNCLEAR


def _flag(sweep: RunTable, facts: Mapping[str, RunFacts], reason: Callable[[RunFacts], str | None]) -> list[Flagged]:
    return [
        Flagged(run.id, _label(sweep, setting, run.seed), why)
        for setting, runs in sweep.finished_by_setting.items()
        for run in runs
        if (why := reason(facts.get(run.id, NOTHING_KNOWN)))
    ]


def _repeated(runs: Sequence[AnyRun]) -> list[int]:
    return [seed for seed, often in sorted(Counter(run.seed for run in runs).items()) if often > 1]


def _label(sweep: RunTable, setting: Setting, seed: int) -> str:
    return f"{sweep.label(setting)}, seed {seed}"


class PooledTests(NamedTuple):
    """The relation across settings of all data sets and metrics together."""

    measured: int
    """Data sets and metrics."""
    relation: Relation


def pool_sweeps(sweeps: Sequence[RunTable]) -> PooledTests | None:
    """Return the relation over sweeps that are each on one data set by one metric; None of one sweep alone."""
    with_runs = [(sweep, runs) for sweep in sweeps if (runs := counted_runs(sweep))]
    if len(with_runs) < 2:
        return None
    measured = tuple(run for sweep, runs in with_runs for run in _first_measured(sweep, runs))
    return PooledTests(len(with_runs), relation(measured))
