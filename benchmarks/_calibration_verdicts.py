"""Simulated sweeps of answered rows: how often a verdict is false, and how often a true gain is detected."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from app.core.evidence import MIN_SEEDS, look_level
from app.results.statistics.layout import Contrast, Layout, Overall, RowSpread
from app.results.statistics.row_values import f1_values
from benchmarks._calibration import SEED
from benchmarks._earlier_rule import half_widths_by_rows, half_widths_by_seeds

SIMULATIONS = 4_000
ROWS = 300
STEP = 1 / ROWS
EASE = 0.6
"""Mean ease of a row, which is answered rightly if its ease with all effects is above 0."""
BY_ANSWER = 0.3
"""Standard deviation of the ease of one answer."""
BY_SEED = 0.05
"""Standard deviation of the effect of a seed, the same for all settings."""
MAX_FALSE, MIN_COVERAGE = 0.065, 0.925
NORMAL = NormalDist()

Values = npt.NDArray[np.float64]
Random = np.random.Generator


@dataclass(frozen=True)
class SweepCase:
    """A kind of sweep: a baseline and settings with the same seeds, evaluated on the same rows."""

    name: str
    lines: tuple[int, ...]
    """Number of settings of each line over λ, without the baseline in its middle."""
    seeds: int
    by_run: float = 0.1
    """Standard deviation of the effect of a run, in standard deviations of the ease of rows."""
    by_row: float = 0.15
    """Standard deviation of the effect of a setting on a row."""
    noise: dict[int, float] = field(default_factory=dict)
    """Factors of ``by_run`` by setting; 0 is the baseline."""
    stored: bool = True
    """Whether predictions are stored; else scores are rounded to multiples of ``STEP``."""
    metric: str = "accuracy"
    missing: float = 0.0
    """Share of runs without a score."""
    collapsing: float = 0.0
    """Share of runs that give all rows the same answer."""
    gains: tuple[int, ...] = ()
    """Gains of the last setting to detect, in standard deviations of one run about its setting's mean."""
    added: tuple[int, ...] = ()
    """Total seeds of the baseline and of settings without a verdict after each further look."""

    @property
    def has_earlier(self) -> bool:
        """Return whether the earlier rule applies to this case."""
        return self.missing == 0 and not self.added

    @property
    def settings(self) -> int:
        """Return the number of settings, with the baseline."""
        return 1 + sum(self.lines)

    @property
    def scales(self) -> Values:
        """Return the standard deviation of the effect of a run, by setting."""
        return self.by_run * np.array([self.noise.get(index, 1.0) for index in range(self.settings)])

    @property
    def ordered_lines(self) -> list[list[int]]:
        """Return the settings of each line in the order of λ, the baseline in the middle."""
        starts = np.cumsum([1, *self.lines[:-1]]).tolist()
        lines = [[*range(start, start + size)] for start, size in zip(starts, self.lines, strict=True)]
        return [[*line[: len(line) // 2], 0, *line[len(line) // 2 :]] for line in lines]

    def true_accuracy(self, ease: Values) -> Values:
        """Return the true accuracy of settings with this ease."""
        spread = np.sqrt(1 + self.by_row**2 + self.scales**2 + BY_ANSWER**2 + BY_SEED**2)
        return np.array([NORMAL.cdf(scaled_ease) for scaled_ease in ease / spread])

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a run's accuracy about its setting's mean, over seeds and answers."""
        random = np.random.default_rng(SEED)
        equal_settings = SweepCase("", (1,), 400, self.by_run, self.by_row)
        return float(
            np.sqrt(answer_rows(equal_settings, np.zeros(2), 20, random).mean(axis=3).var(axis=2, ddof=1).mean())
        )

    def ease_gain(self, gain: float) -> float:
        """Return the gain in ease of the last setting that raises its accuracy by ``gain``."""
        low, high, start = 0.0, 5.0, float(self.true_accuracy(np.full(self.settings, EASE))[-1])
        while high - low > 1e-9:
            middle = (low + high) / 2
            is_enough = self.true_accuracy(np.full(self.settings, EASE + middle))[-1] - start >= gain
            low, high = (low, middle) if is_enough else (middle, high)
        return high


class Outcome(NamedTuple):
    """Errors, coverage and power in one sweep, by the current and by the earlier rule."""

    false_verdict: bool
    anything_false: bool
    covered: bool
    gain_detected: bool
    overall: bool
    earlier_false: bool
    earlier_gain_detected: bool
    half_width: float
    earlier_half_width: float


def answer_rows(case: SweepCase, gains: Values, sweeps: int, random: Random) -> npt.NDArray[np.bool_]:
    """Return which rows are answered rightly [sweeps, settings, seeds, rows]."""
    draw = partial(random.standard_normal, dtype=np.float32)
    n_seeds = max(case.seeds, *case.added, 0)
    shape = sweeps, len(gains), n_seeds, ROWS
    ease: npt.NDArray[np.float32] = np.asarray(draw(shape), np.float32)
    ease *= np.float32(BY_ANSWER)
    ease += draw((sweeps, 1, 1, ROWS))
    ease += np.float32(case.by_row) * draw((*shape[:2], 1, ROWS))
    ease += case.scales.astype(np.float32)[:, None, None] * draw((*shape[:3], 1))
    ease += np.float32(BY_SEED) * draw((sweeps, 1, n_seeds, 1))
    ease += (EASE + gains).astype(np.float32)[:, None, None]
    is_right: npt.NDArray[np.bool_] = np.asarray(ease > 0)
    if case.collapsing:
        collapsed = random.random(shape[:3]) < case.collapsing
        is_right = np.where(collapsed[..., None], random.random((sweeps, 1, 1, ROWS)) < 0.5, is_right)
    return is_right


def outcomes(case: SweepCase, gain: float, sweeps: int, random: Random) -> Iterator[Outcome]:
    """Simulate sweeps in which the last setting gains this much accuracy and no other setting differs."""
    gains = np.zeros(case.settings)
    gains[-1] = case.ease_gain(gain) if gain else 0.0
    truth = np.zeros(case.settings)
    if case.metric == "accuracy" and not case.collapsing:
        truth = case.true_accuracy(EASE + gains)
    true_gains = np.zeros(case.settings)
    true_gains[-1] = gain
    for start in range(0, sweeps, 100):
        for answers in answer_rows(case, gains, min(100, sweeps - start), random):
            values = values_by_row(case, answers, random)
            scores = values.mean(axis=2)
            if not case.stored:
                scores = np.round(scores / STEP) * STEP
            present = random.random(scores.shape) >= case.missing
            # Subtract the effect of noise on the mean accuracy, so that settings without a gain are equal.
            yield _judge(case, scores - truth[:, None] + true_gains[:, None], values, present, true_gains)


def values_by_row(case: SweepCase, answers: npt.NDArray[np.bool_], random: Random) -> Values:
    """Return what each row contributes to the metric, in the shape of the answers."""
    if case.metric == "accuracy":
        return answers.astype(float)
    labels = (random.random(ROWS) < 0.3).astype(np.int64)
    runs = answers.reshape(-1, ROWS)
    return np.array([f1_values(labels, np.where(run, labels, 1 - labels), 1) for run in runs]).reshape(answers.shape)


def _judge(case: SweepCase, scores: Values, values: Values, present: npt.NDArray[np.bool_], truth: Values) -> Outcome:
    contrasts: dict[int, Contrast] = {}
    is_visible, differs = np.zeros_like(present), False
    for look, n_seeds in enumerate((case.seeds, *case.added), start=1):
        decided = {setting: contrast for setting, contrast in contrasts.items() if contrast.decided}
        if contrasts and len(decided) == len(contrasts):
            break
        undecided = [setting for setting in range(case.settings) if setting not in decided]
        is_visible[undecided, :n_seeds] = present[undecided, :n_seeds]
        look_contrasts, overall = _look(case, scores, values, is_visible, look_level(look))
        contrasts, differs = look_contrasts | decided, differs or overall.decided
    errors = [abs(contrast.estimate - truth[setting]) for setting, contrast in contrasts.items()]
    half_widths = [np.inf if contrast.half_width is None else contrast.half_width for contrast in contrasts.values()]
    covered = all(error <= half_width for error, half_width in zip(errors, half_widths, strict=True))
    false_verdict = any(
        contrast.decided and contrast.estimate * truth[setting] <= 0 for setting, contrast in contrasts.items()
    )
    last = contrasts.get(case.settings - 1)
    differences, earlier_half_widths = np.array([np.nan]), np.array([np.inf])
    if case.has_earlier:
        differences, earlier_half_widths = _compare_by_earlier_rule(case, scores, values)
    earlier_decided = np.abs(differences) > earlier_half_widths
    return Outcome(
        false_verdict,
        false_verdict or (differs and not truth.any()),
        covered,
        last is not None and last.decided and last.estimate > 0,
        differs or any(contrast.decided for contrast in contrasts.values()),
        bool((earlier_decided & (differences * truth[1:] <= 0)).any()),
        bool(earlier_decided[-1] and differences[-1] > 0),
        float(np.median(half_widths)) if half_widths else np.inf,
        float(np.median(earlier_half_widths)),
    )


def _look(
    case: SweepCase, scores: Values, values: Values, present: npt.NDArray[np.bool_], level: float
) -> tuple[dict[int, Contrast], Overall]:
    """Compare each setting that has enough seeds with the baseline; return the contrasts and the overall test."""
    settings, seeds = np.nonzero(present)
    covariances = np.cov(values[present]) if case.stored else None
    layout = Layout(scores[present], settings, seeds, None if covariances is None else RowSpread(covariances, ROWS))
    paired = [setting for setting in range(1, case.settings) if (present[setting] & present[0]).sum() >= MIN_SEEDS]
    weights = np.array([layout.pair_weights(setting, 0) for setting in paired]).reshape(-1, len(settings))
    repeated = [index for index in range(case.settings) if present[index].sum() >= MIN_SEEDS]
    lines = [[index for index in line if index in repeated] for line in case.ordered_lines]
    contrasts = layout.compare(weights, level)
    return dict(zip(paired, contrasts, strict=True)), layout.test_settings([repeated], lines, level)


def _compare_by_earlier_rule(case: SweepCase, scores: Values, values: Values) -> tuple[Values, Values]:
    """Return the differences of settings to the baseline, and their half-widths."""
    differences = scores[1:] - scores[0]
    if not case.stored:
        return differences.mean(axis=1), half_widths_by_seeds(differences)
    row_differences = values[1:] - values[0]
    centered = row_differences - row_differences.mean(axis=2, keepdims=True)
    covariances = centered @ centered.transpose(0, 2, 1) / (ROWS - 1)
    return differences.mean(axis=1), half_widths_by_rows(differences, covariances, ROWS)


CASES = (
    SweepCase("5 x 3, equal variances", (4,), 3, gains=(1, 2, 3)),
    SweepCase("5 x 3, sds spread 7-fold", (4,), 3, noise={0: 1.0, 1: 0.38, 2: 0.62, 3: 1.64, 4: 2.7}),
    SweepCase("5 x 3, one setting 6x noisier", (4,), 3, noise={2: 6.0}),
    SweepCase("5 x 3, baseline 4x noisier", (4,), 3, noise={0: 4.0}),
    SweepCase("5 x 3, rows dominate", (4,), 3, by_run=0.02, by_row=0.6, gains=(3,)),
    SweepCase("5 x 3, seeds dominate", (4,), 3, by_run=0.3, by_row=0.1, gains=(3,)),
    SweepCase("5 x 3, no predictions, steps of 1/300", (4,), 3, stored=False, gains=(3,)),
    SweepCase("5 x 3, F1", (4,), 3, metric="f1"),
    SweepCase("5 x 3, a sixth of the runs collapse", (4,), 3, collapsing=1 / 6),
    SweepCase("5 x 3, a third of the runs collapse", (4,), 3, collapsing=1 / 3),
    SweepCase("two regularizers x 4 λ x 3", (4, 4), 3, gains=(3,)),
    SweepCase("7 λ x 4 ζ x 3", (6, 6, 6, 6), 3, gains=(3,)),
    SweepCase("7 x 5, equal variances", (6,), 5, gains=(1, 2, 3)),
    SweepCase("7 x 5, one setting 6x noisier", (6,), 5, noise={3: 6.0}),
    SweepCase("7 x 5, baseline 4x noisier", (6,), 5, noise={0: 4.0}),
    SweepCase("7 x 5, rows dominate", (6,), 5, by_run=0.02, by_row=0.6, gains=(2,)),
    SweepCase("7 x 5, a fifth of the runs missing", (6,), 5, missing=0.2, gains=(2,)),
    SweepCase("7 x 5, a sixth of the runs collapse", (6,), 5, collapsing=1 / 6),
    SweepCase("5 x 3, 3 seeds added, two looks", (4,), 3, gains=(2, 3), added=(6,)),
    SweepCase("5 x 3, 3 and 6 seeds added, three looks", (4,), 3, gains=(2, 3), added=(6, 12)),
    SweepCase("5 x 3, baseline 4x noisier, three looks", (4,), 3, noise={0: 4.0}, added=(6, 12)),
    SweepCase("5 x 3, one setting 6x noisier, three looks", (4,), 3, noise={2: 6.0}, added=(6, 12)),
    SweepCase("5 x 3, rows dominate, three looks", (4,), 3, by_run=0.02, by_row=0.6, added=(6, 12)),
    SweepCase("7 x 5, 5 and 10 seeds added, three looks", (6,), 5, gains=(1,), added=(10, 20)),
)

HEAD = (
    "| sweep (settings x seeds) | false verdict | anything false | coverage | false before | power | power before "
    "| settings differ | times narrower |\n|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class VerdictRates:
    """The simulated rates of a case: without a gain, and with each of its gains."""

    case: SweepCase
    false_verdict: float
    anything_false: float
    coverage: float
    earlier_false: float
    power: list[float]
    earlier_power: list[float]
    overall: list[float]
    times_narrower: float
    simulations: int

    def ok(self, errors: float = 2.0) -> bool:
        """Return whether all rates lie within their bounds, widened by this number of binomial errors."""
        slack = errors * sqrt(MAX_FALSE * (1 - MAX_FALSE) / self.simulations)
        return (
            max(self.false_verdict, self.anything_false) <= MAX_FALSE + slack and self.coverage >= MIN_COVERAGE - slack
        )

    def row(self) -> str:
        """Return a row of a table in Markdown, under ``HEAD``."""
        gains = self.case.gains
        has_earlier = self.case.has_earlier
        cells = [
            self.case.name, f"{self.false_verdict:.3f}", f"{self.anything_false:.3f}", f"{self.coverage:.3f}",
            f"{self.earlier_false:.3f}" if has_earlier else "", _list_powers(gains, self.power),
            _list_powers(gains, self.earlier_power) if has_earlier else "", _list_powers(gains, self.overall),
            f"{self.times_narrower:.1f}" if has_earlier else "",
        ]  # fmt: skip
        return f"| {' | '.join(cells)} |"


def _list_powers(gains: Sequence[int], rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:.2f} at {gain}" for gain, rate in zip(gains, rates, strict=True))


def verdict_rates(case: SweepCase, simulations: int | None = None) -> VerdictRates:
    """Simulate a case, with random numbers that depend on its name alone."""
    sweeps = simulations or SIMULATIONS
    random = np.random.default_rng([SEED, crc32(case.name.encode())])
    null = [*outcomes(case, 0.0, sweeps, random)]
    deviation = case.deviation
    outcomes_by_gain = [[*outcomes(case, gain * deviation, sweeps, random)] for gain in case.gains]
    half_widths = [(outcome.half_width, outcome.earlier_half_width) for outcome in null]
    half_width, earlier_half_width = np.median(half_widths, axis=0)
    return VerdictRates(
        case,
        _rate([outcome.false_verdict for outcome in null]),
        _rate([outcome.anything_false for outcome in null]),
        _rate([outcome.covered for outcome in null]),
        _rate([outcome.earlier_false for outcome in null]),
        [_rate([outcome.gain_detected for outcome in gain_outcomes]) for gain_outcomes in outcomes_by_gain],
        [_rate([outcome.earlier_gain_detected for outcome in gain_outcomes]) for gain_outcomes in outcomes_by_gain],
        [_rate([outcome.overall for outcome in gain_outcomes]) for gain_outcomes in outcomes_by_gain],
        float(earlier_half_width / half_width),
        sweeps,
    )


def _rate(events: Sequence[bool]) -> float:
    return sum(events) / len(events)
