"""Contrasts of a layout against scipy, closed forms and simulated sweeps."""

import numpy as np
import pytest
from scipy import stats

from app.results.statistics.layout import Layout, Maxima, RowSpread


def layout(scores, rows=None):
    """Return the layout of scores [settings, seeds], or of row values [settings, seeds, rows]."""
    scores = np.asarray(scores if rows is None else rows.mean(axis=2), float)
    settings, seeds = np.indices(scores.shape)
    spread = None if rows is None else RowSpread(np.cov(rows.reshape(scores.size, -1)), rows.shape[2])
    return Layout(scores.ravel(), settings.ravel(), seeds.ravel(), spread)


def against_baseline(contrasts, level=0.05):
    return contrasts.compare(
        np.array([contrasts.pair_weights(index, 0) for index in range(1, contrasts.members.shape[1])]), level
    )


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


def test_interval_excludes_0_exactly_if_p_is_at_most_level():
    for seed in range(40):
        values = scores(5, 3, seed)
        values[4] += 0.08
        for contrast in against_baseline(layout(values)):
            assert (contrast.p <= 0.05) == contrast.decided


def test_settings_are_compared_over_shared_seeds():
    values = scores(3, 4)
    contrasts = layout(values)
    present = np.array([True] * 11 + [False])
    without_last_score = Layout(contrasts.scores[present], contrasts.settings[present], contrasts.seeds[present])
    pair = without_last_score.compare(
        np.array([without_last_score.pair_weights(1, 0), without_last_score.pair_weights(2, 0)])
    )
    assert pair[0].estimate == pytest.approx((values[1] - values[0]).mean())
    assert pair[1].estimate == pytest.approx((values[2] - values[0])[:3].mean())


def test_row_differences_widen_interval():
    random = np.random.default_rng(0)
    difficulty, by_setting = random.normal(size=300), random.normal(size=(2, 1, 300))
    answers = (difficulty + by_setting + 0.1 * random.normal(size=(2, 3, 300)) > -0.5).astype(float)
    with_rows, without_rows = (
        against_baseline(layout(None, answers))[0],
        against_baseline(layout(answers.mean(axis=2)))[0],
    )
    differences = (answers[1] - answers[0]).mean(axis=0)
    assert with_rows.row_variance == pytest.approx(differences.var(ddof=1) / 300, rel=0.2)
    assert without_rows.row_variance == 0


def test_equal_differences_have_no_interval():
    contrast = against_baseline(layout([[0.5, 0.6, 0.7], [0.6, 0.7, 0.8]]))[0]
    assert (contrast.estimate, contrast.half_width, contrast.p, contrast.decided) == (
        pytest.approx(0.1),
        None,
        None,
        False,
    )


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
