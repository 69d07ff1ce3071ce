"""Gains of variants with simultaneous intervals: closed forms and error rates."""

import numpy as np
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from isotropy.tasks.bootstrap import mean, spearman_with
from isotropy.tasks.gains import gains

SIMULATIONS = 150


@pytest.fixture
def random():
    return np.random.default_rng(4)


def test_gain_has_paired_t_interval_and_zero_for_identical_variant(random):
    base, change = random.random(60), random.normal(0.1, 0.2, 60)
    gain = gains(np.stack([base, base + change]), np.arange(60), mean, 0)[1]
    expected = ttest_1samp(change, 0).confidence_interval(0.95)
    assert gain.difference == pytest.approx(change.mean())
    assert (gain.low, gain.high) == pytest.approx((expected.low, expected.high), rel=0.03)
    base = random.random(50)
    twin, change = gains(np.stack([base, base, base[::-1]]), np.arange(50), mean, 0)[1:]
    assert twin == (0, 0, 0)
    assert change.low < 0 < change.high
    assert not twin.is_clear


def test_unrelated_variants_have_sidak_critical_value(random):
    m, variants = 400, 9
    values = np.concatenate([np.zeros((1, m)), random.normal(size=(variants, m))])
    reach = gains(values, np.arange(m), mean, 0)[1]
    error = values[1].std(ddof=1) / np.sqrt(m)
    sidak = student.ppf(1 - (1 - 0.95 ** (1 / variants)) / 2, m - 1)
    assert (reach.high - reach.low) / 2 / error == pytest.approx(sidak, rel=0.04)


def test_grouped_units_widen_interval(random):
    change = np.repeat(random.normal(0.1, 0.2, 30), 4)
    ungrouped, grouped = (
        gains(np.stack([np.zeros(120), change]), groups, mean, 0)[1]
        for groups in (np.arange(120), np.repeat(np.arange(30), 4))
    )
    assert grouped.high - grouped.low == pytest.approx(2 * (ungrouped.high - ungrouped.low), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "changed"), [(40, 0.1), (120, 0.3)])
def test_false_gains_stay_within_level(random, m, changed):
    clear = 0
    for seed in range(SIMULATIONS):
        base = random.random(m)
        moved = random.random((7, m)) < changed
        values = np.concatenate([base[None], base + moved * random.choice([-1, 1], (7, m)) * random.random((7, m))])
        clear += any(gain.is_clear for gain in gains(values, np.arange(m), mean, seed))
    assert clear / SIMULATIONS <= 0.05


def test_rank_correlation_gain_is_detected(random):
    truth = random.normal(size=300)
    noisier, precise = (truth + sd * random.normal(size=300) for sd in (1.5, 0.5))
    shuffled = noisier + 0.01 * random.normal(size=300)
    same, better = gains(np.stack([noisier, shuffled, precise]), np.arange(300), spearman_with(truth), 0)[1:]
    assert better.is_clear
    assert not same.is_clear
