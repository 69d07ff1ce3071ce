from itertools import permutations
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from app.core.evidence import BLOCK_KURTOSIS, block_degrees, min_lambdas, t_quantile, two_sided_p
from app.results.statistics import row_values
from app.results.statistics.estimate import ErrorBar, average_by_seed, estimate, tail_mean
from app.results.statistics.layout import Layout, Maxima, RowSpread
from app.results.statistics.relation import MeasuredRun, adjust_means, measure_relation


def test_block_degrees_match_variance_of_error():
    """The variance of a sample variance of B values with excess kurtosis k is sigma^4 (2 / (B - 1) + k / B)."""
    assert 2 / block_degrees(10) == pytest.approx(2 / 9 + BLOCK_KURTOSIS / 10)


def test_interval_is_students_t_and_single_value_has_none():
    values = [0.81, 0.84, 0.79, 0.86, 0.82]
    estimated = estimate(values)
    low, high = stats.t.interval(0.95, 4, loc=estimated.mean, scale=stats.sem(values))
    assert estimated.n == 5
    assert estimated.mean - estimated.half_width == pytest.approx(low, rel=1e-4)
    assert estimated.mean + estimated.half_width == pytest.approx(high, rel=1e-4)
    estimated = estimate([0.5])
    assert (estimated.mean, estimated.half_width, estimated.n) == (0.5, None, 1)
    assert estimate([0.5, 0.5, 0.5]).half_width == 0


@pytest.mark.parametrize("factor", [1e-200, 1.0, 1e200])
def test_interval_does_not_overflow(factor):
    values = [0.81, 0.84, 0.79]
    assert estimate([factor * x for x in values]).half_width == pytest.approx(factor * estimate(values).half_width)
    assert estimate([factor, 2 * factor], ErrorBar.STD).half_width == pytest.approx(factor / 2**0.5)


def test_seed_counts_once_and_tail_mean_skips_missing_values():
    assert list(average_by_seed([(2, 0.5), (1, 0.25), (1, 0.75), (2, 0.5)]).items()) == [(1, 0.5), (2, 0.5)]
    assert tail_mean([(0, 9.0), (69, 9.0), (70, 1.0), (90, None), (100, 2.0)], 100) == 1.5
    assert tail_mean([(0, 9.0), (60, 1.0)], 100) is None
    assert tail_mean([], 100) is None


degrees = st.floats(0.5, 1e6)


@given(st.floats(0, 1e4), degrees)
def test_tails_match_scipy(t, df):
    assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-8, abs=1e-290)


@given(st.floats(1e-6, 0.999), st.floats(1, 1e6))
def test_quantiles_match_scipy(p, df):
    assert t_quantile(p, df) == pytest.approx(stats.t.isf(p / 2, df), rel=1e-7)


def test_infinite_degrees_give_normal_distribution():
    assert t_quantile(0.05, inf) == pytest.approx(1.959964, abs=1e-6)
    assert two_sided_p(inf, 3) == 0
    assert two_sided_p(0, 3) == pytest.approx(1)


def runs(x, y, seeds=1, block="a", stratum=0):
    """Return runs of settings at λ = 0, 1, ...; seeds shift both values without changing ranks."""
    return [
        MeasuredRun(block, stratum, (block, stratum, lam), float(lam), seed, x_value + seed, y_value - 2 * seed)
        for lam, (x_value, y_value) in enumerate(zip(x, y, strict=True))
        for seed in range(seeds)
    ]


X, Y = [0.1, 0.4, 0.2, 0.9, 0.5], [0.3, 0.5, 0.2, 0.6, 0.9]


def test_relation_of_one_method_is_spearmans_over_settings():
    expected = stats.spearmanr(X, Y).statistic
    null = [stats.spearmanr(X, order).statistic for order in permutations(Y)]
    p = np.mean(np.abs(null) >= abs(expected) - 1e-9)
    for seeds in (1, 2, 5):
        result = measure_relation(tuple(runs(X, Y, seeds)))
        assert result.value == pytest.approx(expected)
        assert result.p == pytest.approx(p)
        assert (result.permutations, result.exact, result.settings, result.lambdas) == (120, True, 5, (5,))


@pytest.mark.parametrize(("lambdas", "smallest"), [(3, 1 / 3), (4, 1 / 12), (5, 1 / 60), (7, 2 / 5040)])
def test_smallest_p_depends_on_number_of_lambdas(lambdas, smallest):
    x = list(range(lambdas))
    result = measure_relation(tuple(runs(x, x, 5)))
    assert result.p == result.smallest_p == pytest.approx(smallest)
    assert result.positive
    assert not measure_relation(tuple(runs(x, x[::-1], 2))).positive


def test_relation_needs_five_lambdas_and_samples_permutations():
    assert min_lambdas() == 5
    result = measure_relation(tuple(runs(range(9), range(9))))
    assert (result.permutations, result.exact) == (9_999, False)
    assert result.p == result.smallest_p == pytest.approx(2 / 10_000)


def test_crossed_settings_are_permuted_together():
    rates = [runs(X, Y, 2, stratum="low"), runs(Y, X, 2, stratum="high")]
    result = measure_relation(tuple(rates[0] + rates[1]))
    assert (result.lambdas, result.settings, result.permutations) == ((5,), 10, 120)
    same = measure_relation(tuple(runs(X, X, stratum=0) + runs(X, X, stratum=1) + runs(X, X, stratum=2)))
    assert same.p == pytest.approx(2 / 120)
    low, high = runs(X, Y, stratum="low"), runs([x + 5 for x in X], [y + 5 for y in Y], stratum="high")
    assert measure_relation(tuple(low + high)).value == pytest.approx(measure_relation(tuple(runs(X, Y))).value)
    shared = [row._replace(stratum=zeta, setting=row.setting if row.lam == 0 else (zeta, row.lam))
              for zeta in (0.2, 0.8) for row in runs(X, Y)]  # fmt: skip
    result = measure_relation(tuple(shared))
    assert (result.settings, result.lambdas, result.permutations) == (9, (5,), 120)


def test_lambdas_are_permuted_only_within_blocks_and_strata():
    result = measure_relation(tuple(runs(X, Y) + runs(X[:4], Y[:4], block="b")))
    assert (result.lambdas, result.permutations, result.smallest_p) == ((5, 4), 120 * 24, 2 / 2880)
    far = measure_relation(tuple(runs([0, 1, 2], [2, 1, 0]) + runs([10, 11, 12], [12, 11, 10], block="b")))
    assert far.value == pytest.approx(-1)
    crossed = runs(X, Y, stratum=0) + [row for row in runs(X, Y, stratum=1) if row.lam != 2]
    result = measure_relation(tuple(crossed))
    assert result.lambdas == (4,)
    separate = measure_relation(tuple(runs(X, Y)[:2] + [row._replace(stratum=1) for row in runs(X, Y)[2:]]))
    assert separate.lambdas == (2, 3)


def test_setting_means_are_adjusted_for_missing_seeds():
    means = adjust_means(["a", "a", "b"], [0, 1, 1], [1.0, 11.0, 12.0])
    assert means["b"] - means["a"] == pytest.approx(1.0)
    complete = adjust_means(["a", "b", "a", "b"], [0, 0, 1, 1], [1.0, 2.0, 5.0, 8.0])
    assert complete == pytest.approx({"a": 3.0, "b": 5.0})
    settings, values = ["a"] * 2 + ["b"] * 5 + ["c"], [0.80] * 2 + [0.90] * 5 + [0.92]
    assert adjust_means(settings, range(8), values) == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})
    backward = adjust_means(settings[::-1], range(8), values[::-1])
    assert backward == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})


def test_undefined_relation_states_reason_and_ignores_rounding():
    assert "3 values of λ" in measure_relation(tuple(runs([1, 2], [1, 2], 5))).reason
    assert "same performance" in measure_relation(tuple(runs(X, [1, 1, 1, 1, 1]))).reason
    assert "same isotropy" in measure_relation(tuple(runs([1] * 5, Y))).reason
    assert "No run has both an IsoScore★" in measure_relation(()).reason
    near = [0.1 + 0.2, 0.3, 0.5]
    assert measure_relation(tuple(runs(near, [1, 1, 2]))).value == pytest.approx(1)


def brute_force(metric, right, guess):
    n = len(right)
    left_out = np.array([metric(np.delete(right, row), np.delete(guess, row)) for row in range(n)])
    return metric(right, guess) + (n - 1) * (left_out.mean() - left_out)


def labels(classes=2, n=40, seed=0):
    random = np.random.default_rng(seed)
    right = random.integers(0, classes, n)
    return right, np.where(random.random(n) < 0.7, right, random.integers(0, classes, n))


def numbers(n=60):
    random = np.random.default_rng(1)
    right = random.integers(0, 6, n).astype(float)
    return right, right + random.normal(size=n)


def binary_f1(right, guess):
    return f1_score(right, guess, zero_division=0)


def macro_f1(right, guess):
    return f1_score(right, guess, average="macro", zero_division=0)


def test_accuracy_values_match_brute_force():
    right, guess = labels()
    values = row_values.accuracy_values(right, guess)
    assert values.mean() == pytest.approx(accuracy_score(right, guess))
    assert values == pytest.approx(brute_force(accuracy_score, right, guess))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_f1_and_matthews_values_match_brute_force(seed):
    two, three = labels(2, seed=seed), labels(3, seed=seed)
    assert row_values.f1_values(*two, 1) == pytest.approx(brute_force(binary_f1, *two))
    assert row_values.f1_values(*three, None) == pytest.approx(brute_force(macro_f1, *three))
    for guess in (two, three):
        assert row_values.matthews_values(*guess) == pytest.approx(brute_force(matthews_corrcoef, *guess))


def test_pearson_and_rare_label_values_match_brute_force():
    right, guess = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 1])
    assert row_values.f1_values(right, guess, None) == pytest.approx(brute_force(macro_f1, right, guess))
    assert row_values.matthews_values(np.array([0, 1, 1, 0]), np.ones(4, int)) == pytest.approx(np.zeros(4))
    assert row_values.f1_values(np.array([0, 1, 1, 0]), np.zeros(4, int), 1) == pytest.approx(np.zeros(4))
    right, guess = numbers()
    values = row_values.pearson_values(right, 1e6 + guess)
    assert values == pytest.approx(brute_force(lambda x, y: stats.pearsonr(x, y).statistic, right, guess), rel=1e-6)
    assert row_values.pearson_values(right, np.ones(60)) is None
    assert row_values.pearson_values(right, np.eye(60)[0]) is None


def test_spearman_values_approximate_brute_force():
    right, guess = numbers(300)
    values = row_values.spearman_values(right, guess)
    expected = brute_force(lambda x, y: stats.spearmanr(x, y).statistic, right, guess)
    assert values.mean() == pytest.approx(stats.spearmanr(right, guess).statistic)
    assert np.corrcoef(values, expected)[0, 1] > 0.9999
    assert values.std() == pytest.approx(expected.std(), rel=0.02)
    assert row_values.spearman_values(right, np.ones(300)) is None


def layout(scores, rows=None):
    """Return the layout of scores [settings, seeds], or of row values [settings, seeds, rows]."""
    scores = np.asarray(scores if rows is None else rows.mean(axis=2), float)
    settings, seeds = np.indices(scores.shape)
    spread = None if rows is None else RowSpread(np.cov(rows.reshape(scores.size, -1)), rows.shape[2])
    return Layout(scores.ravel(), settings.ravel(), seeds.ravel(), spread)


def against_baseline(contrasts, level=0.05):
    members = contrasts.indicators.shape[1]
    return contrasts.compare(np.array([contrasts.pair_weights(index, 0) for index in range(1, members)]), level)


def scores(settings, seeds, seed=0):
    random = np.random.default_rng(seed)
    return 0.7 + 0.02 * random.normal(size=(settings, seeds)) + 0.05 * random.normal(size=seeds)


@pytest.mark.parametrize(("comparisons", "degrees"), [(4, 8), (4, 24), (6, 24)])
def test_critical_value_with_shared_variance_is_dunnetts(comparisons, degrees):
    correlations = np.full((comparisons, comparisons), 0.5) + 0.5 * np.eye(comparisons)
    critical = Maxima.draw(correlations, degrees).critical_value(0.05)
    expected = stats.multivariate_t(np.zeros(comparisons), correlations, df=degrees)
    inside = expected.cdf(np.full(comparisons, critical), lower_limit=np.full(comparisons, -critical))
    assert 1 - inside == pytest.approx(0.05, abs=0.0025)


def test_two_settings_without_rows_match_paired_t_test():
    values = scores(2, 5)
    contrast = against_baseline(layout(values))[0]
    expected = stats.ttest_rel(values[1], values[0])
    assert contrast.p == pytest.approx(expected.pvalue, abs=0.012)
    assert contrast.degrees == pytest.approx(4)
    assert contrast.half_width == pytest.approx(expected.confidence_interval().high - contrast.estimate, rel=0.03)


def test_setting_with_larger_variance_has_wider_interval():
    values = scores(5, 5)
    values[2] += 0.2 * np.random.default_rng(1).normal(size=5)
    contrasts = against_baseline(layout(values))
    assert contrasts[1].half_width > 1.5 * contrasts[0].half_width
    assert contrasts[0].half_width >= contrasts[0].pooled_half_width
    later_degrees = against_baseline(layout(values), level=0.005)[1].degrees  # Satterthwaite's alone
    equal_degrees = 2 * (5 - 1) / (1 + 1 / (5 - 1) ** 2)
    assert contrasts[1].degrees == pytest.approx(equal_degrees - 2 + 2 * later_degrees / equal_degrees)
    assert later_degrees < equal_degrees - 2


def test_interval_excludes_0_exactly_if_p_is_at_most_level():
    for seed in range(40):
        values = scores(5, 3, seed)
        values[3:] += [[0.08], [3]]
        for contrast in against_baseline(layout(values)):
            assert (contrast.p <= 0.05) == contrast.decided
            error = np.sqrt(contrast.seed_variance + contrast.row_variance)
            single_p = 2 * stats.t.sf(abs(contrast.estimate) / error, contrast.degrees)
            assert contrast.p >= (min(single_p, 0.05) if contrast.decided else single_p), "adjusting lowers no p"


def test_settings_are_compared_over_shared_seeds():
    values = scores(3, 4)
    contrasts = layout(values)
    present = np.array([True] * 11 + [False])
    without_last_score = Layout(contrasts.scores[present], contrasts.settings[present], contrasts.seeds[present])
    weights = np.array([without_last_score.pair_weights(pair, 0) for pair in (1, 2)])
    pair = without_last_score.compare(weights)
    assert pair[0].estimate == pytest.approx((values[1] - values[0]).mean())
    assert pair[1].estimate == pytest.approx((values[2] - values[0])[:3].mean())


def test_row_differences_widen_interval():
    random = np.random.default_rng(0)
    difficulty, by_setting = random.normal(size=300), random.normal(size=(2, 1, 300))
    answers = (difficulty + by_setting + 0.1 * random.normal(size=(2, 3, 300)) > -0.5).astype(float)
    with_rows = against_baseline(layout(None, answers))[0]
    without_rows = against_baseline(layout(answers.mean(axis=2)))[0]
    differences = (answers[1] - answers[0]).mean(axis=0)
    assert with_rows.row_variance == pytest.approx(differences.var(ddof=1) / 300, rel=0.2)
    assert without_rows.row_variance == 0


def test_equal_differences_have_no_interval():
    contrast = against_baseline(layout([[0.5, 0.6, 0.7], [0.6, 0.7, 0.8]]))[0]
    assert contrast.estimate == pytest.approx(0.1)
    assert (contrast.half_width, contrast.p, contrast.decided) == (None, None, False)


def test_discrete_scores_have_at_least_rounding_variance():
    values = np.round(scores(3, 3) * 50) / 50
    values[0], values[1] = 0.7, 0.72
    variances, _ = layout(values)._seed_variances
    assert variances.min() >= 0.02**2 / 12 - 1e-12


def test_overall_test_detects_settings_that_differ_from_each_other():
    values = scores(5, 5) * 0 + 0.01 * np.random.default_rng(2).normal(size=(5, 5))
    values[1] -= 0.02
    values[2] += 0.02
    contrasts = layout(values)
    assert not contrasts.test_settings([[0]], []).decided
    assert contrasts.test_settings([range(5)], [[1, 3, 0, 4, 2]]).decided
    assert contrasts.test_settings([range(5)], [[1, 3, 0, 4, 2]]).trend > 0


def test_two_settings_have_no_trend():
    overall = layout([[0.7, 0.71, 0.69], [0.9, 0.91, 0.9]]).test_settings([[0, 1]], [[0, 1]])
    assert (overall.decided, overall.trend) == (True, None)


def test_trend_over_unconnected_seeds_is_left_out():
    values = layout(np.array([[0.7, 0.71, 0.69], [0.9, 0.91, 0.9], [0.5, 0.5, 0.5]]))
    seeds = values.seeds + 3 * (values.settings == 2)
    overall = Layout(values.scores, values.settings, seeds).test_settings([[0, 1]], [[0, 1, 2]])
    assert (overall.decided, overall.trend) == (True, None)


def test_equal_scores_have_no_interval():
    contrast = against_baseline(layout(np.full((5, 3), 0.7)))[0]
    assert (contrast.estimate, contrast.half_width) == (0, None)


def test_more_seeds_detect_smaller_differences():
    contrast = against_baseline(layout(scores(5, 3)))[0]
    assert contrast.detectable_difference(2) < contrast.detectable_difference(1)
    assert contrast.detectable_difference(1) > contrast.half_width * 0.9


def test_settings_without_shared_seed_are_not_tested():
    unconnected = Layout(np.array([0.5, 0.6, 0.7, 0.8]), np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    assert unconnected.test_settings([[0, 1]], []).p is None


@pytest.mark.slow
@pytest.mark.parametrize("noise", [(1, 1, 1, 1, 1), (4, 1, 1, 1, 1)])
def test_sweeps_without_an_effect_have_few_verdicts(noise):
    random = np.random.default_rng(0)
    wrong = sum(
        any(
            contrast.decided
            for contrast in against_baseline(layout(0.01 * np.array(noise)[:, None] * random.normal(size=(5, 3))))
        )
        for _ in range(150)
    )
    assert wrong / 150 < 0.065 + 3 * np.sqrt(0.065 * 0.935 / 150)


def test_gain_of_four_sd_is_detected_in_half_of_sweeps():
    random = np.random.default_rng(0)
    gain = np.array([0, 0, 0, 0, 4])[:, None]
    n_decided = sum(against_baseline(layout(gain + random.normal(size=(5, 3))))[-1].decided for _ in range(100))
    assert n_decided > 50
