"""Every setting against its baseline, paired by seed and, where predictions are stored, by validation row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import comb
from statistics import fmean

import numpy as np
import numpy.typing as npt

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL, t_quantile, two_sided_p
from app.db.predictions import Predictions
from app.db.run_rows import AnyRun
from app.results.captions import join_first
from app.results.run_table import RunTable, Setting
from app.results.statistics.mean_difference import (
    MeanDifference,
    SignFlips,
    over_rows,
    over_rows_and_seeds,
    over_seeds,
    pairs_needed,
    sign_flips,
)
from app.results.statistics.row_values import (
    accuracy_values,
    f1_values,
    matthews_values,
    pearson_values,
    spearman_values,
)
from app.results.statistics.verdict import JudgedDifference, holm, judge
from isoscope.core.task import Metric, TaskKind

CLOSE = 1e-3
"""Tolerance between logged performance and that of the predictions, because scripts round to three digits."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowValues:
    """Contribution of each validation row to the performance of a run."""

    rows: bytes
    """A digest of the scored rows and their labels; runs with equal digests can be paired by row."""
    values: npt.NDArray[np.float32]
    """[rows]; their mean is the performance."""


@dataclass(frozen=True)
class RunFacts:
    """Cached facts of a finished run, which pages poll."""

    rows: RowValues | None = None
    no_rows_reason: str = "no predictions are stored"
    """Why there are no row values, as a clause."""
    learned_nothing: str | None = None
    """Why the run is considered to have learned nothing, as a sentence."""
    diverged: str | None = None
    """How its training diverged, as a sentence."""
    has_trivial_score: bool = False
    """Whether the trivial predictor's score is known. Otherwise no note means that the run learned something."""


NOTHING_KNOWN = RunFacts()


def row_values(run: AnyRun, predictions: Predictions, rows: bytes) -> RowValues | str:
    """Return the metric of a run row by row, or the reason why that is impossible."""
    if len(predictions) < 2:
        return "there is only one row"
    values = _metric_values(run, predictions)
    if values is None:
        return "the metric has no value by row"
    if run.performance is None or abs(float(values.mean()) - run.performance) > CLOSE:
        return "the stored predictions do not give the logged performance"
    return RowValues(rows, values.astype(np.float32))


def _metric_values(run: AnyRun, predictions: Predictions) -> Values | None:
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
        return f1_values(reference_labels, predicted_labels, 1 if len(run.config.label_names) == 2 else None)
    return (matthews_values if metric == Metric.MATTHEWS else accuracy_values)(reference_labels, predicted_labels)


class Method(StrEnum):
    """Sources of the error of a difference."""

    SEEDS_AND_ROWS = "seeds and rows"
    SEEDS = "seeds"


@dataclass(frozen=True)
class RowsOnly:
    """A difference between these very runs, for new rows like those of the validation set."""

    low: float
    high: float
    p: float
    """McNemar's exact test where a row is right or wrong and there is one seed, else Student's t over rows."""
    mcnemar: bool


@dataclass(frozen=True)
class Comparison:
    """A setting against its baseline, over the seeds that both have."""

    setting: Setting
    label: str
    seeds: list[int]
    method: Method
    judgment: JudgedDifference
    rows_only: RowsOnly | None
    """For fewer than three seeds, if predictions are stored."""
    flips: SignFlips
    """The exact sign-flip test, reported next to the verdict; it never decides the verdict."""
    p_holm: float
    flip_seeds_needed: int | None
    """The number of seeds with which the exact test could reach p = 0.05 after correction; None if none suffices."""
    no_rows_reason: str
    """Why rows are not part of the error, as a clause; empty where they are."""

    @property
    def estimate(self) -> float:
        """Return the mean difference in performance."""
        return self.judgment.difference.estimate

    @property
    def rows(self) -> int | None:
        """Return the number of validation rows compared; None if only seeds are compared."""
        return self.judgment.difference.rows


def compare_with_baselines(
    sweep: RunTable, runs: Sequence[AnyRun], facts: Mapping[str, RunFacts]
) -> tuple[list[Comparison], list[str]]:
    """Compare every setting that has a baseline, in order of λ. Also return sentences about the other settings."""
    by_setting = {setting: _by_seed(setting_runs) for setting, setting_runs in sweep.by_setting(runs).items()}
    paired: list[tuple[Setting, Setting, list[int]]] = []
    without_baseline, other_seeds = [], []
    for setting, runs_by_seed in by_setting.items():
        if setting.is_baseline:
            continue
        family = setting.family
        baseline = next(
            (candidate for candidate in by_setting if candidate.is_baseline and sweep.belongs(candidate, family)), None
        )
        if baseline is None:
            without_baseline.append(sweep.label(setting))
        elif seeds := sorted(runs_by_seed.keys() & by_setting[baseline].keys()):
            paired.append((setting, baseline, seeds))
        else:
            other_seeds.append(sweep.label(setting))
    sentences = []
    if without_baseline:
        qualifier = " that counts" if any(setting.is_baseline for setting in sweep.pruned_settings) else ""
        reason = f"no run at λ = 0 that is alike in all else has a performance{qualifier}"
        sentences.append(f"Not compared, because {reason}: {join_first(without_baseline)}.")
    if other_seeds:
        sentences.append(f"Not compared, because λ = 0 was run with other seeds: {join_first(other_seeds)}.")
    pairs = [_Pair(by_setting[setting], by_setting[baseline], seeds, facts) for setting, baseline, seeds in paired]
    return _compare_pairs(sweep, [setting for setting, _, _ in paired], pairs), sentences


class _Pair:
    """The runs of a setting and of its baseline, by the seeds that both have."""

    def __init__(
        self,
        setting_runs: Mapping[int, list[AnyRun]],
        baseline_runs: Mapping[int, list[AnyRun]],
        seeds: list[int],
        facts: Mapping[str, RunFacts],
    ) -> None:
        self.seeds = seeds
        self.scores = np.array([_performance(setting_runs[seed]) - _performance(baseline_runs[seed]) for seed in seeds])
        self._sides = [[by_seed[seed] for seed in seeds] for by_seed in (setting_runs, baseline_runs)]
        self._facts = facts
        self.no_rows_reason = self._explain_missing_rows()

    def _explain_missing_rows(self) -> str:
        runs = [run for side in self._sides for seed_runs in side for run in seed_runs]
        run_facts = [self._facts.get(run.id, NOTHING_KNOWN) for run in runs]
        if why := next((fact.no_rows_reason for fact in run_facts if fact.rows is None), ""):
            return why
        rows_differ = len({fact.rows.rows for fact in run_facts if fact.rows is not None}) > 1
        return "the runs were scored on different rows" if rows_differ else ""

    @property
    def rows(self) -> Values | None:
        """Return the differences by row and seed, [rows, seeds]; None if rows cannot be compared."""
        if self.no_rows_reason:
            return None
        setting_values, baseline_values = (
            np.stack([self._values(seed_runs) for seed_runs in side], axis=1) for side in self._sides
        )
        return np.asarray(setting_values - baseline_values, float)

    def _values(self, alike: Sequence[AnyRun]) -> Values:
        run_values = [rows.values.astype(float) for run in alike if (rows := self._facts[run.id].rows) is not None]
        return np.asarray(np.mean(run_values, axis=0), float)


def _compare_pairs(sweep: RunTable, settings: Sequence[Setting], pairs: Sequence[_Pair]) -> list[Comparison]:
    means, row_intervals = [], []
    for pair in pairs:
        rows = pair.rows
        mean, rows_only = _mean_difference(pair, rows)
        means.append(mean)
        row_intervals.append(rows_only)
    flips = [sign_flips(pair.scores.tolist()) for pair in pairs]
    corrected_p = holm([flip.p for flip in flips])
    seeds_needed = pairs_needed(SIGNIFICANCE_LEVEL, len(pairs))
    return [
        Comparison(
            setting,
            sweep.label(setting),
            pair.seeds,
            Method.SEEDS if pair.no_rows_reason else Method.SEEDS_AND_ROWS,
            judged,
            rows_only,
            flipped,
            p_holm,
            seeds_needed,
            pair.no_rows_reason,
        )
        for setting, pair, judged, rows_only, flipped, p_holm in zip(
            settings, pairs, judge(means), row_intervals, flips, corrected_p, strict=True
        )
    ]


def _mean_difference(pair: _Pair, rows: Values | None) -> tuple[MeanDifference, RowsOnly | None]:
    """Return the mean difference of the logged scores, and an interval over rows if there are too few seeds."""
    if rows is None:
        return over_seeds(pair.scores), None
    if len(pair.seeds) >= MIN_SEEDS:
        return over_rows_and_seeds(rows)._replace(estimate=float(pair.scores.mean())), None
    difference = over_rows(rows)
    estimate = float(pair.scores.mean())
    return difference._replace(estimate=estimate), _rows_only(rows, difference, estimate)


def _rows_only(rows: Values, difference: MeanDifference, estimate: float) -> RowsOnly | None:
    """Return an interval over rows for these runs; None if the differences do not vary, which leaves no error."""
    error = difference.error or 0.0
    if not error:
        return None
    half_width = t_quantile(SIGNIFICANCE_LEVEL, difference.degrees) * error
    is_binary = rows.shape[1] == 1 and bool(np.isin(rows, (-1, 0, 1)).all())
    p = _mcnemar(rows) if is_binary else two_sided_p(estimate / error, difference.degrees)
    return RowsOnly(estimate - half_width, estimate + half_width, p, is_binary)


def _mcnemar(rows: Values) -> float:
    """Return the exact p of McNemar's test: a row that differs is equally likely to be won or lost."""
    won, lost = int((rows > 0).sum()), int((rows < 0).sum())
    n_differing, smaller = won + lost, min(won, lost)
    ways = sum(comb(n_differing, k) for k in range(smaller + 1))
    return min(1.0, float(2 * ways / 2**n_differing))


def _by_seed(runs: Sequence[AnyRun]) -> dict[int, list[AnyRun]]:
    by_seed: dict[int, list[AnyRun]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    return by_seed


def _performance(runs: Sequence[AnyRun]) -> float:
    return fmean(run.performance for run in runs if run.performance is not None)
