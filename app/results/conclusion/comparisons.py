"""Compare every setting with its baseline: one model of all runs, with simultaneous intervals."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.core.evidence import MIN_SEEDS, look_level
from app.db.predictions import Predictions
from app.db.run_rows import AnyRun
from app.results.captions import join_first
from app.results.conclusion.relations import average_performance, group_of
from app.results.run_table import Family, RunTable, Setting
from app.results.statistics.layout import Contrast, Layout, Overall, RowSpread
from app.results.statistics.row_values import (
    accuracy_values,
    f1_values,
    matthews_values,
    pearson_values,
    spearman_values,
)
from isoscope.core.task import Metric, TaskKind

MIN_SEEDS_FOR_ERROR = 2
PERFORMANCE_TOLERANCE = 1e-3
"""Tolerance between logged performance and that of the predictions, because scripts round to three digits."""

PREDICTIONS_DISAGREE = "the stored predictions do not give the logged performance"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowValues:
    """Contribution of each validation row to the performance of a run."""

    digest: bytes
    """Identifies the scored rows and their labels; runs with equal digests can be paired by row."""
    values: npt.NDArray[np.float32]
    """[rows]; their mean is the performance."""


@dataclass(frozen=True)
class RunFacts:
    """What verdicts need to know of a finished run. Facts are cached, because pages poll verdicts."""

    row_values: RowValues | None = None
    no_rows_reason: str = "no predictions are stored"
    """Why there are no row values, as a clause; empty if there are."""
    learned_nothing: str | None = None
    """Why the run is considered to have learned nothing, as a sentence. It need not have collapsed."""
    diverged: str | None = None
    """How its training diverged, as a sentence."""
    same_prediction_note: str | None = None
    """Reports that the run gives 99% of its rows or more the same prediction, as a sentence; None if it does not."""

    @property
    def collapse_note(self) -> str | None:
        """Report how the run collapsed, as a sentence; None if it did not."""
        return self.diverged or self.same_prediction_note


NO_FACTS = RunFacts()


def compute_row_values(run: AnyRun, predictions: Predictions, digest: bytes) -> RowValues | str:
    """Return each row's contribution to the performance of a run, or why there is none, as a clause."""
    if len(predictions) < 2:
        return "there is only one row"
    values = _compute_metric_values(run, predictions)
    if values is None:
        return "the metric has no value by row"
    if run.performance is None or abs(float(values.mean()) - run.performance) > PERFORMANCE_TOLERANCE:
        return PREDICTIONS_DISAGREE
    return RowValues(digest, values.astype(np.float32))


def _compute_metric_values(run: AnyRun, predictions: Predictions) -> Values | None:
    metric, predicted = run.config.metric, predictions.predicted
    if isinstance(predicted, tuple):
        return predictions.exact_match if metric == Metric.EXACT_MATCH else predictions.f1
    if predictions.reference is None:
        return None
    if predictions.kind is TaskKind.REGRESSION:
        correlation_values = pearson_values if metric == Metric.PEARSON else spearman_values
        return correlation_values(predictions.reference.astype(float), predicted.astype(float))
    reference_labels, predicted_labels = predictions.reference.astype(np.int64), predicted.astype(np.int64)
    if metric == Metric.F1:
        positive = 1 if len(run.config.label_names) == 2 else None
        return f1_values(reference_labels, predicted_labels, positive)
    if metric == Metric.MATTHEWS:
        return matthews_values(reference_labels, predicted_labels)
    return accuracy_values(reference_labels, predicted_labels)


class Method(StrEnum):
    """Sources of the error of a difference."""

    SEEDS_AND_ROWS = "seeds and rows"
    SEEDS = "seeds"


class Verdict(StrEnum):
    """How a setting compares with its baseline."""

    COLLAPSED = "collapsed"
    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "no difference seen"
    TOO_FEW_SEEDS = "too few seeds"
    UNFINISHED = "runs unfinished"


DECIDED = (Verdict.BETTER, Verdict.WORSE)


@dataclass(frozen=True)
class Comparison:
    """A setting against its baseline, over the seeds that both have."""

    setting: Setting
    label: str
    seeds: list[int]
    contrast: Contrast
    verdict: Verdict
    family_size: int
    """Number of settings compared; their intervals hold simultaneously."""
    n_rows: int | None
    """Number of validation rows that are part of the error; None if seeds alone are."""
    no_rows_reason: str
    """Why rows are not part of the error, as a clause; empty if they are."""
    look: int = 1
    """Number, from 1, of the look (the test after a round of seeds) that decided; of the last one if none did."""

    @property
    def estimate(self) -> float:
        """Return the mean difference in performance."""
        return self.contrast.estimate

    @property
    def tested(self) -> bool:
        """Return whether a test decided or could have decided."""
        return self.contrast.p is not None and self.verdict in (*DECIDED, Verdict.UNDECIDED)

    @property
    def method(self) -> Method:
        return Method.SEEDS_AND_ROWS if self.n_rows is not None else Method.SEEDS


class SettingLayout:
    """Runs of a sweep as a layout of settings and seeds; repeated runs count once, by their mean."""

    def __init__(self, sweep: RunTable, runs: Sequence[AnyRun], facts: Mapping[str, RunFacts]) -> None:
        self._sweep, self._facts = sweep, facts
        self._cells: dict[tuple[Setting, int], list[AnyRun]] = {}
        for setting, setting_runs in sweep.by_setting(runs).items():
            for run in setting_runs:
                self._cells.setdefault((setting, run.seed), []).append(run)
        self.settings = list(dict.fromkeys(setting for setting, _ in self._cells))
        self.index_by_setting = {setting: index for index, setting in enumerate(self.settings)}

    def list_shared_seeds(self, first: Setting, second: Setting) -> list[int]:
        """Return the seeds that both settings were run with, in runs that can be compared."""
        first_cells, second_cells = (
            {(group_of(runs[0]), seed) for (cell_setting, seed), runs in self._cells.items() if cell_setting == setting}
            for setting in (first, second)
        )
        return sorted(seed for _, seed in first_cells & second_cells)

    def line_indices(self, family: Family) -> list[int]:
        """Return the settings on a family's line with enough seeds for a verdict, by index, in the order of λ."""
        indices = [
            index for index, setting in enumerate(self.settings)
            if self._sweep.belongs(setting, family) and self._n_seeds[setting] >= MIN_SEEDS
        ]  # fmt: skip
        return sorted(indices, key=lambda index: self.settings[index].lam)

    @cached_property
    def _n_seeds(self) -> Counter[Setting]:
        return Counter(setting for setting, _ in self._cells)

    @cached_property
    def groups(self) -> list[list[int]]:
        """Return groups of comparable settings by index, without those that have too few seeds for a verdict."""
        groups: dict[object, list[int]] = {}
        for (setting, _), runs in self._cells.items():
            if self._n_seeds[setting] < MIN_SEEDS:
                continue
            index, group = self.index_by_setting[setting], groups.setdefault(group_of(runs[0]), [])
            if index not in group:
                group.append(index)
        return [*groups.values()]

    @cached_property
    def layout(self) -> Layout:
        """Return the scores by setting and seed. Groups that cannot be compared share no seed numbers."""
        seed_numbers: dict[object, int] = {}
        seeds = [
            seed_numbers.setdefault((group_of(runs[0]), seed), len(seed_numbers))
            for (_, seed), runs in self._cells.items()
        ]
        return Layout(
            np.array([average_performance(runs) for runs in self._cells.values()]),
            np.array([self.index_by_setting[setting] for setting, _ in self._cells]),
            np.array(seeds),
            self._spread,
        )

    def explain_missing_rows(self, settings: Sequence[Setting]) -> str:
        """Return why rows are not part of the error of a comparison of settings, as a clause; empty if they are."""
        for (setting, _), runs in self._cells.items():
            for run in runs if setting in settings else ():
                facts = self._facts.get(run.id, NO_FACTS)
                if facts.row_values is None:
                    return facts.no_rows_reason
                if facts.row_values.digest != self._common_digest:
                    return "the runs were scored on different rows"
        return ""

    @cached_property
    def _common_digest(self) -> bytes | None:
        """Return the digest of the rows that most runs were scored on; None if no run has values by row."""
        facts = [self._facts.get(run.id, NO_FACTS) for runs in self._cells.values() for run in runs]
        digests = [run_facts.row_values.digest for run_facts in facts if run_facts.row_values is not None]
        return Counter(digests).most_common(1)[0][0] if digests else None

    @property
    def n_rows(self) -> int | None:
        """Return the number of rows that most runs were scored on; None if no run has values by row."""
        return None if self._spread is None else self._spread.rows

    @cached_property
    def _spread(self) -> RowSpread | None:
        """Return how runs vary over the rows that most of them were scored on; None without values by row."""
        values = [self._average_row_values(runs) for runs in self._cells.values()]
        stored = [row_values for row_values in values if row_values is not None]
        if not stored:
            return None
        has_rows = np.array([row_values is not None for row_values in values])
        covariances = np.full((len(values), len(values)), np.nan)
        centered = np.stack(stored) - np.mean(stored, axis=1, keepdims=True)
        covariances[np.ix_(has_rows, has_rows)] = centered @ centered.T / max(centered.shape[1] - 1, 1)
        return RowSpread(covariances, centered.shape[1])

    def _average_row_values(self, runs: Sequence[AnyRun]) -> npt.NDArray[np.float32] | None:
        """Return the mean, by row, of runs of one setting and seed; None if a run was not scored on these rows."""
        rows = [self._facts.get(run.id, NO_FACTS).row_values for run in runs]
        stored = [row.values for row in rows if row is not None and row.digest == self._common_digest]
        return np.mean(stored, axis=0, dtype=np.float32) if len(stored) == len(rows) else None


class BaselinePair(NamedTuple):
    """A setting, its baseline, and the seeds that both have."""

    setting: Setting
    baseline: Setting
    seeds: list[int]


def compare_with_baselines(
    sweep: RunTable, setting_layout: SettingLayout, collapsed: Mapping[Setting, float | None], earlier: "ComparisonSet"
) -> "ComparisonSet":
    """Compare every setting with its baseline, in the order of λ, and note which settings have none.

    Args:
        sweep: the runs, for labels and baselines.
        setting_layout: the runs that count, without those of settings that collapsed.
        collapsed: settings that collapsed, each with its mean difference from a baseline that did not, or None.
        earlier: the comparisons of the previous look, at fewer of the runs. Its verdicts stand.

    """
    pairs: list[BaselinePair] = []
    unpaired: list[str] = []
    unmatched: list[str] = []
    with_collapsed_baseline: list[str] = []
    for setting in setting_layout.settings:
        if setting.is_baseline:
            continue
        if (baseline := sweep.find_baseline(setting, setting_layout.settings)) is not None:
            if seeds := setting_layout.list_shared_seeds(setting, baseline):
                pairs.append(BaselinePair(setting, baseline, seeds))
            else:
                unmatched.append(sweep.label(setting))
        elif sweep.find_baseline(setting, collapsed) is not None:
            with_collapsed_baseline.append(sweep.label(setting))
        else:
            unpaired.append(sweep.label(setting))
    notes = []
    if unpaired:
        suffix = " that counts" if any(setting.is_baseline for setting in sweep.pruned_settings) else ""
        reason = f"no run at λ = 0 with the same other settings has a performance{suffix}"
        notes.append(f"Not compared, because {reason}: {join_first(unpaired)}.")
    if unmatched:
        notes.append(f"Not compared, because λ = 0 was run with other seeds: {join_first(unmatched)}.")
    if with_collapsed_baseline and pairs:  # without pairs, the first finding says so
        notes.append(f"Not compared, because the baseline collapsed: {join_first(with_collapsed_baseline)}.")
    finished = all(run.status.final for run in sweep.runs)
    look = earlier.looks + 1
    comparisons = _compare_pairs(sweep, setting_layout, pairs, look, finished=finished)
    comparisons += [
        Comparison(setting, sweep.label(setting), [], Contrast(gain), Verdict.COLLAPSED, 0, None, "")
        for setting, gain in collapsed.items()
        if gain is not None
    ]
    order = {setting: index for index, setting in enumerate(sweep.settings)}
    overall = None
    if finished and setting_layout.settings:
        lines = [setting_layout.line_indices(family) for family in sweep.families]
        overall = setting_layout.layout.test_settings(setting_layout.groups, lines, look_level(look))
    comparisons.sort(key=lambda comparison: order[comparison.setting])
    return ComparisonSet(comparisons, notes, overall).keep_verdicts(earlier)


@dataclass(frozen=True)
class ComparisonSet:
    """The comparisons of a sweep, sentences about settings without one, and the overall test."""

    comparisons: list[Comparison]
    notes: list[str]
    overall: Overall | None
    looks: int = 0
    """Number of times settings were tested, at levels that sum to less than .05."""

    @property
    def differs(self) -> bool | None:
        """Return whether a verdict or the overall test shows that settings differ; None if they were not tested."""
        if any(comparison.verdict in DECIDED for comparison in self.comparisons):
            return True
        return None if self.overall is None or self.overall.p is None else self.overall.decided

    def keep_verdicts(self, earlier: "ComparisonSet") -> "ComparisonSet":
        """Return a copy in which what earlier looks decided stands. A look that tested nothing is not counted."""
        decided = {
            comparison.setting: comparison for comparison in earlier.comparisons if comparison.verdict in DECIDED
        }
        overall_tests = [test for test in (self.overall, earlier.overall) if test is not None and test.p is not None]
        tested = any(comparison.tested for comparison in self.comparisons) or self.overall in overall_tests
        return replace(
            self,
            comparisons=[decided.get(comparison.setting, comparison) for comparison in self.comparisons],
            overall=min(overall_tests, key=lambda test: test.p or 0.0, default=self.overall),
            looks=earlier.looks + int(tested),
        )


def _compare_pairs(
    sweep: RunTable, setting_layout: SettingLayout, pairs: Sequence[BaselinePair], look: int, *, finished: bool
) -> list[Comparison]:
    if not pairs:
        return []
    layout, index_by_setting = setting_layout.layout, setting_layout.index_by_setting
    weights = [layout.pair_weights(index_by_setting[pair.setting], index_by_setting[pair.baseline]) for pair in pairs]
    contrasts = [Contrast(float(row @ layout.scores)) for row in weights]
    testable = [index for index, pair in enumerate(pairs) if finished and len(pair.seeds) >= MIN_SEEDS_FOR_ERROR]
    tested_contrasts = layout.compare(np.array([weights[index] for index in testable]), look_level(look))
    for index, contrast in zip(testable, tested_contrasts, strict=True):
        contrasts[index] = contrast
    comparisons = []
    for (setting, baseline, seeds), contrast in zip(pairs, contrasts, strict=True):
        reason = setting_layout.explain_missing_rows([setting, baseline])
        n_rows = None if reason else setting_layout.n_rows
        verdict = _decide_verdict(contrast, len(seeds)) if finished else Verdict.UNFINISHED
        comparisons.append(
            Comparison(setting, sweep.label(setting), seeds, contrast, verdict, len(testable), n_rows, reason, look)
        )
    return comparisons


def _decide_verdict(contrast: Contrast, n_seeds: int) -> Verdict:
    # Seeds that all differ by the same amount give no p, because the error is unknown.
    if n_seeds < MIN_SEEDS or (contrast.p is None and contrast.estimate != 0):
        return Verdict.TOO_FEW_SEEDS
    if not contrast.decided:
        return Verdict.UNDECIDED
    return Verdict.BETTER if contrast.estimate > 0 else Verdict.WORSE
