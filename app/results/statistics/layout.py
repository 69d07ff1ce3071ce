"""Contrasts between settings of a sweep, with intervals that are simultaneous over a family.

One model: performance is setting plus seed plus an error of the run, and rows are drawn. Each setting has its own
variance, from the residuals of all settings (White's estimator with HC2's correction, MacKinnon and White 1985), with
Satterthwaite's degrees of freedom. A second estimate has one variance for all settings. It is more precise if all
settings have the same variance, and wrong if they do not. The interval is the wider of the two.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import inf, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.core.evidence import FIRST_LOOK_LEVEL, SIGNIFICANCE_LEVEL, t_quantile, two_sided_p

MAX_DRAWS, MIN_DRAWS = 20_000, 2_000  # of the largest of several |z|
MAX_DRAWN_NUMBERS = 4_000_000  # draws times the number of z; ``MIN_DRAWS`` may exceed it
CORRELATION_STEP = 0.02
"""Correlations are rounded to multiples of this, so that nearly equal layouts share their draws of maxima."""
NODES = 160  # of the quadrature over the shared variance
PRECISION = 1e-6  # relative, of critical values
MAX_DEGREES = 1_000  # degrees of freedom beyond which the shared variance counts as exact
MAX_SATTERTHWAITE_WEIGHT, MAX_LOST_DEGREES = 1 / 2, 2
"""Bounds, at the first look, on the weight of Satterthwaite's degrees of freedom, and on what they take from those of
equal variances: by chance they are often too few. At the low levels of later looks a few too many matter: no bounds."""
ROUNDING = 1e-9  # relative size of differences that count as rounding errors
TINY = 1e-300
POWER = 0.8
NORMAL = NormalDist()

Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


class RowSpread(NamedTuple):
    """Variation of runs over the rows that all of them were scored on."""

    covariances: Values
    """[runs, runs], over rows; NaN for runs without values by row."""
    rows: int  # how many


class Contrast(NamedTuple):
    """A weighted sum of the scores of runs, with the parts of its error."""

    estimate: float
    p: float | None = None
    """Adjusted for family and look: at most .05 exactly where the interval excludes 0; None without an error."""
    pooled_half_width: float | None = None
    """Half the interval if seeds vary equally in all settings."""
    seed_variance: float = 0.0
    row_variance: float = 0.0
    degrees: float = inf
    level: float = SIGNIFICANCE_LEVEL
    """Two-sided level of this contrast alone that keeps the family at the level of the look."""

    @property
    def half_width(self) -> float | None:
        """Return half the interval, simultaneous over the family; None without an error."""
        if self.pooled_half_width is None:
            return None
        error = sqrt(self.seed_variance + self.row_variance)
        return max(t_quantile(self.level, self.degrees) * error, self.pooled_half_width)

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.estimate - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.estimate + self.half_width

    @property
    def decided(self) -> bool:
        """Return whether the interval excludes 0."""
        return self.half_width is not None and abs(self.estimate) > self.half_width

    def detectable_difference(self, seed_factor: float, level_factor: float = 1.0) -> float:
        """Return the difference detectable with power 0.8 if the number of seeds and the level change by factors."""
        degrees, level = self.degrees * seed_factor, self.level * level_factor
        error = sqrt(self.seed_variance / seed_factor + self.row_variance)
        shrinkage = error / sqrt(self.seed_variance + self.row_variance)
        shrinkage *= NORMAL.inv_cdf(level / 2) / NORMAL.inv_cdf(self.level / 2)
        half_width = max(t_quantile(level, degrees) * error, (self.pooled_half_width or 0.0) * shrinkage)
        return half_width + t_quantile(2 * (1 - POWER), degrees) * error


class Overall(NamedTuple):
    """The test whether settings differ: each from the mean of its group, and trends over λ, as one family."""

    p: float | None  # smallest of the family, adjusted; None if nothing can be tested
    settings: int  # how many
    trend: float | None
    """The difference from the lower half of a line over λ to the upper; None if no trend is significant, or if
    significant trends have different signs."""

    @property
    def decided(self) -> bool:
        return self.p is not None and self.p <= SIGNIFICANCE_LEVEL


class Layout:
    """Scores of runs by setting and seed, at most one run for each pair."""

    def __init__(self, scores: Values, settings: Indices, seeds: Indices, spread: RowSpread | None = None) -> None:
        """Take the scores of runs [n], their settings and seeds [n] numbered from 0, and their spread over rows.

        Runs that are not comparable, such as those of two models, must not share seed numbers.
        """
        self.scores, self.settings, self.seeds, self.spread = scores, settings, seeds, spread
        self.indicators = np.eye(int(settings.max()) + 1)[settings]  # [n, settings]: 1 for the setting of a run

    def pair_weights(self, setting: int, baseline: int) -> Values:
        """Return weights [n] of the mean difference over the seeds that both have."""
        in_setting, in_baseline = self.settings == setting, self.settings == baseline
        common_seeds = np.intersect1d(self.seeds[in_setting], self.seeds[in_baseline])
        paired = np.isin(self.seeds, common_seeds)
        return np.asarray((1.0 * (in_setting & paired) - (in_baseline & paired)) / max(len(common_seeds), 1), float)

    def adjust_for_seeds(self, contrasts: Values) -> Values:
        """Return weights of runs [m, n] for contrasts between settings [m, settings], adjusted for seeds.

        Contrasts between settings that no shared seeds connect are left out.
        """
        weights = contrasts @ np.linalg.pinv(self._design)[: self.indicators.shape[1]]
        target = np.pad(contrasts, ((0, 0), (0, self._design.shape[1] - contrasts.shape[1])))  # zeros for the seeds
        connected = np.abs(weights @ self._design - target).max(axis=1) < ROUNDING
        return np.asarray(weights[connected], float)

    def compare(self, weights: Values, level: float = SIGNIFICANCE_LEVEL) -> list[Contrast]:
        """Test weights [m, n] as one family, whose intervals all hold with probability 1 - ``level``, if runs vary."""
        if not len(weights):
            return []
        estimates = weights @ self.scores
        estimates[np.abs(estimates) <= ROUNDING * np.abs(self.scores).max()] = 0.0
        setting_variances, pooled_variance = self._seed_variances
        if pooled_variance == 0:
            return [Contrast(estimate) for estimate in estimates.tolist()]
        row_noise, pooled_row_noise = self._row_noise
        separate = self._errors(weights, setting_variances, row_noise, self._inverse_degrees, level >= FIRST_LOOK_LEVEL)
        equal_variances = np.full_like(setting_variances, pooled_variance)
        equal_row_noise = np.full_like(setting_variances, pooled_row_noise)
        equal_inverses = np.full_like(self._inverse_degrees, 1 / self._residual_degrees)
        shared = self._errors(weights, equal_variances, equal_row_noise, equal_inverses, is_first_look=False)
        separate_maxima = Maxima.draw(separate.correlations)
        shared_maxima = Maxima.draw(shared.correlations, float(shared.degrees.min()))
        single_level = 2 * NORMAL.cdf(-separate_maxima.critical_value(level))
        shared_t = shared_maxima.critical_value(level)
        contrasts = []
        for index, estimate in enumerate(estimates.tolist()):
            error, shared_error = (sqrt(errors.variances[index]) for errors in (separate, shared))
            degrees = float(separate.degrees[index])
            single_p = max(two_sided_p(estimate / error, degrees), TINY)
            tail = separate_maxima.tail_probability(-NORMAL.inv_cdf(single_p / 2))
            # At least the single p; beyond the draws, Bonferroni's. It stays on the side of ``level`` of the interval.
            least_p = min(len(weights) * single_p, max(single_p, 1 / len(separate_maxima.draws)))
            tail = max(tail, least_p if tail > level else min(least_p, level))
            p = max(tail, shared_maxima.tail_probability(abs(estimate) / shared_error))
            seed_variance = float(separate.seed_variances[index])
            row_variance = float(separate.variances[index]) - seed_variance
            contrasts.append(
                Contrast(
                    estimate,
                    p=min(1.0, p * SIGNIFICANCE_LEVEL / level),
                    pooled_half_width=shared_t * shared_error,
                    seed_variance=seed_variance,
                    row_variance=row_variance,
                    degrees=degrees,
                    level=single_level,
                )
            )
        return contrasts

    def test_settings(
        self, groups: Sequence[Sequence[int]], lines: Sequence[Sequence[int]], level: float = SIGNIFICANCE_LEVEL
    ) -> Overall:
        """Test whether settings differ within any of the groups; lines are settings in the order of λ."""
        size = self.indicators.shape[1]
        n_settings = len({setting for group in groups for setting in group})
        deviations = [
            _deviation_weights(size, group, setting) for group in groups if len(group) > 1 for setting in group
        ]
        trends = self.adjust_for_seeds(
            np.array([_trend_weights(size, line) for line in lines if len(line) > 2]).reshape(-1, size)
        )
        weights = np.concatenate([trends, self.adjust_for_seeds(np.array(deviations).reshape(-1, size))])
        contrasts = self.compare(weights, level)
        p_values = [contrast.p for contrast in contrasts if contrast.p is not None]
        if not p_values:
            return Overall(p=None, settings=n_settings, trend=None)
        estimates = [contrast.estimate for contrast in contrasts[: len(trends)] if contrast.decided]
        have_one_sign = len({estimate > 0 for estimate in estimates}) == 1
        return Overall(min(p_values), n_settings, estimates[0] if have_one_sign else None)

    @cached_property
    def _design(self) -> Values:
        return np.concatenate([self.indicators, np.eye(int(self.seeds.max()) + 1)[self.seeds]], axis=1)

    @cached_property
    def _residual_maker(self) -> Values:
        return _residual_maker(self._design)

    @cached_property
    def _shares(self) -> Values:
        """Return how much the squared residuals of each setting grow with each one's variance [settings, settings]."""
        return np.asarray(self.indicators.T @ self._residual_maker**2 @ self.indicators, float)

    @cached_property
    def _residual_degrees(self) -> float:
        return float(np.trace(self._residual_maker))

    @cached_property
    def _inverse_degrees(self) -> Values:
        """Return covariances of estimated variances over twice the product of the variances [settings, settings].

        The diagonal is 1 / degrees of freedom. A setting with one run has those of the pooled variance that it takes.
        """
        sums = self._shares.sum(axis=1)
        has_one_run = sums < ROUNDING
        nonzero_sums = np.where(has_one_run, 1.0, sums)
        inverses = self._shares / np.outer(nonzero_sums, nonzero_sums)
        return np.asarray(inverses + np.diag(has_one_run / max(self._residual_degrees, 1.0)), float)

    @cached_property
    def _seed_variances(self) -> tuple[Values, float]:
        """Return variances of single runs around setting plus seed [settings], and the pooled one; 0 if undefined."""
        if self._residual_degrees < 0.5:
            return np.zeros(self.indicators.shape[1]), 0.0
        squares = (self._residual_maker @ (self.scores - self.scores.mean())) ** 2
        pooled = float(squares.sum()) / self._residual_degrees
        if pooled <= (ROUNDING * float(np.abs(self.scores).max())) ** 2:
            return np.zeros(self.indicators.shape[1]), 0.0
        sums = self._shares.sum(axis=1)
        setting_variances = _divide_or_pool(squares @ self.indicators, sums, pooled)
        # Scores are rounded to their smallest step: a uniform error, with a twelfth of its square as variance.
        rounding_variance = _smallest_step(self.scores) ** 2 / 12
        rows = self.spread.rows if self.spread else 1
        setting_has_rows = ~(self.indicators.T @ ~self._has_rows > 0)
        floors = np.where(setting_has_rows, self._row_noise[0] / rows, rounding_variance)
        return np.maximum(setting_variances, floors), max(pooled, float(floors.mean()))

    @cached_property
    def _has_rows(self) -> npt.NDArray[np.bool_]:
        """Return for each run whether all runs of its setting have values by row [n]."""
        if self.spread is None:
            return np.zeros(len(self.scores), bool)
        missing = np.isnan(np.diag(self.spread.covariances))
        return np.asarray((self.indicators @ (self.indicators.T @ missing)) == 0)

    @cached_property
    def _row_noise(self) -> tuple[Values, float]:
        """Return variances of single rows beyond setting and seed effects [settings], and the pooled one."""
        runs = np.flatnonzero(self._has_rows)
        zeros = np.zeros(self.indicators.shape[1])
        if self.spread is None or not len(runs):
            return zeros, 0.0
        maker = _residual_maker(self._design[runs])
        degrees = float(np.trace(maker))
        if degrees < 0.5:
            return zeros, 0.0
        squares = np.einsum("ij,jk,ki->i", maker, self.spread.covariances[np.ix_(runs, runs)], maker, optimize=True)
        sums = self.indicators[runs].T @ np.diag(maker)
        pooled = float(squares.sum()) / degrees
        setting_variances = _divide_or_pool(squares @ self.indicators[runs], sums, pooled)
        return np.maximum(setting_variances, 0.0), max(pooled, 0.0)

    def _errors(
        self, weights: Values, variances: Values, row_noise: Values, inverse_degrees: Values, is_first_look: bool
    ) -> "_Errors":
        """Return the errors of weights [m, n], with these variances of runs and of their rows [settings]."""
        seed_covariances = (weights * (self.indicators @ variances)) @ weights.T
        seed_variances = np.diag(seed_covariances)
        row_covariances, rows = self._row_covariances(weights, row_noise)
        row_variances = np.diag(row_covariances)
        total = seed_variances + row_variances
        squares = (weights**2) @ self.indicators
        parts = squares * variances
        satterthwaite = seed_variances**2 / np.einsum("mi,ij,mj->m", parts, inverse_degrees, parts)
        if_equal = squares.sum(axis=1) ** 2 / np.einsum("mi,ij,mj->m", squares, inverse_degrees, squares)
        weight = np.minimum(MAX_SATTERTHWAITE_WEIGHT, MAX_LOST_DEGREES / if_equal) if is_first_look else 1.0
        seed_degrees = weight * satterthwaite + (1 - weight) * if_equal
        degrees = total**2 / (seed_variances**2 / seed_degrees + row_variances**2 / max(rows - 1, 1))
        correlations = (seed_covariances + row_covariances) / np.sqrt(np.outer(total, total))
        return _Errors(total, seed_variances, np.maximum(degrees, 1.0), correlations)

    def _row_covariances(self, weights: Values, row_noise: Values) -> tuple[Values, int]:
        """Return covariances of contrasts over rows [m, m], 0 where a run has none, and the number of rows."""
        if self.spread is None:
            return np.zeros((len(weights), len(weights))), 2
        lacks_rows = (weights != 0) @ ~self._has_rows
        row_weights = np.where(lacks_rows[:, None], 0.0, weights)
        covariances = row_weights @ np.nan_to_num(self.spread.covariances) @ row_weights.T
        observed = np.diag(covariances)
        variances = np.maximum(observed - (row_weights**2) @ (self.indicators @ row_noise), 0.0) / self.spread.rows
        scale = np.sqrt(variances / np.where(observed > 0, observed, 1.0))
        return covariances * np.outer(scale, scale), self.spread.rows


class _Errors(NamedTuple):
    """Variances of contrasts, the part of them from seeds, degrees of freedom [m], and correlations [m, m]."""

    variances: Values
    seed_variances: Values
    degrees: Values
    correlations: Values


class Maxima(NamedTuple):
    """The distribution of the largest of several |z|, or of several |t| that share one variance (Dunnett's)."""

    draws: Values
    """Drawn values of the largest |z|, ascending."""
    scales: Values
    """Quadrature nodes of the shared standard deviation."""
    weights: Values
    """Probabilities of the scales."""

    @classmethod
    def draw(cls, correlations: Values, degrees: float = inf) -> "Maxima":
        """Return the distribution for numbers with these correlations, and a variance with these degrees of freedom."""
        rounded = np.round(correlations / CORRELATION_STEP) * CORRELATION_STEP + 0.0
        draws = _draw_maxima(rounded.tobytes(), len(rounded))
        return cls(draws, *(_list_scales(degrees) if degrees < MAX_DEGREES else (np.ones(1), np.ones(1))))

    def tail_probability(self, value: float) -> float:
        """Return the probability that the maximum is at least this large."""
        shares = 1 - np.searchsorted(self.draws, value * self.scales) / len(self.draws)
        return float(self.weights @ shares)

    def critical_value(self, level: float) -> float:
        """Return the value that the maximum exceeds with probability ``level``, by bisection."""
        low, high = 0.0, 1.0
        while self.tail_probability(high) > level:
            low, high = high, 2 * high
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.tail_probability(middle) > level else (low, middle)
        return high


@lru_cache(maxsize=256)
def _draw_maxima(correlations: bytes, size: int) -> Values:
    eigenvalues, vectors = np.linalg.eigh(np.frombuffer(correlations).reshape(size, size))
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return np.sort(np.abs(root @ _normal_draws(size)).max(axis=0))


@lru_cache(maxsize=256)
def _list_scales(degrees: float) -> tuple[Values, Values]:
    """Return nodes of the square root of chi-square over its degrees of freedom, and their weights."""
    logarithms = np.linspace(log(degrees) - 60 / degrees - 5, log(degrees + 12 * sqrt(2 * degrees) + 60), NODES)
    weights = np.exp(degrees / 2 * (logarithms - log(degrees)) - (np.exp(logarithms) - degrees) / 2)
    return np.sqrt(np.exp(logarithms) / degrees), np.asarray(weights / weights.sum(), float)


@lru_cache(maxsize=4)
def _normal_draws(size: int) -> Values:
    draws = max(MIN_DRAWS, min(MAX_DRAWS, MAX_DRAWN_NUMBERS // size))
    return np.random.default_rng(0).standard_normal((size, draws))


def _deviation_weights(size: int, group: Sequence[int], setting: int) -> Values:
    weights = np.zeros(size)
    weights[list(group)] = -1 / len(group)
    weights[setting] += 1
    return weights


def _trend_weights(size: int, line: Sequence[int]) -> Values:
    """Return weights [size] of a linear trend along a line of settings; their absolute values add up to 2."""
    ranks = np.arange(len(line)) - (len(line) - 1) / 2
    weights = np.zeros(size)
    weights[list(line)] = 2 * ranks / np.abs(ranks).sum()
    return weights


def _residual_maker(design: Values) -> Values:
    """Return the matrix [n, n] that maps scores [n] to their residuals from a design [n, k]."""
    return np.asarray(np.eye(len(design)) - design @ np.linalg.pinv(design), float)


def _divide_or_pool(squares: Values, shares: Values, pooled: float) -> Values:
    """Return variances of settings; the pooled one where a setting has no share of the residuals."""
    return np.where(shares < ROUNDING, pooled, squares / np.maximum(shares, ROUNDING))


def _smallest_step(scores: Values) -> float:
    """Return the smallest step between different scores; 0 if all are equal."""
    steps = np.diff(np.sort(scores))
    steps = steps[steps > ROUNDING * max(float(np.abs(scores).max()), ROUNDING)]
    return float(steps.min()) if len(steps) else 0.0
