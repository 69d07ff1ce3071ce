"""Bias-corrected IsoScore against the U-statistics it stands for and against the package of Chun et al. (2026).

The package's ``row`` is the participation ratio of centered points corrected for few rows.
"""

from itertools import permutations, product

import numpy as np
import pytest
import torch
from dimensionality import participation_ratio

from isotropy.isoscore import isoscore
from isotropy.unbiased import (
    corrected_scores_from_moments,
    isoscore_unbiased,
    isoscore_unbiased_from_moments,
    trace_estimates,
)
from tests.points import fourth_moments_of


def package_score(x):
    return (participation_ratio(x.double().numpy(), return_all=True)["row"] - 1) / (x.shape[1] - 1)


def enumerate_statistics(x, groups):
    """Return the estimates of tr(S)^2 and tr(S S) by definition: averages over four rows of distinct groups."""
    kernels = []
    for chosen in permutations(range(len(x)), 4):
        if len({groups[row] for row in chosen}) == 4:
            i, j, k, m = x.numpy()[list(chosen)]
            kernels.append((((i - j) @ (i - j)) * ((k - m) @ (k - m)) / 4, ((i - j) @ (k - m)) ** 2 / 4))
    return np.mean(kernels, axis=0)


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) + 0.1
    return 3 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads


@pytest.mark.measure("isoscore_unbiased")
@pytest.mark.measure("participation_ratio_unbiased")
@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 9), (7, 3), (8, 8)])
def test_both_forms_match_enumerated_u_statistics(n, d):
    x = cloud(n, d)
    trace_squared, squares = enumerate_statistics(x, range(n))
    expected = pytest.approx((trace_squared / squares - 1) / (d - 1), rel=1e-7)
    assert isoscore_unbiased_from_moments(fourth_moments_of(x)).value == expected
    ratio = corrected_scores_from_moments(fourth_moments_of(x))["participation_ratio_unbiased"]
    assert ratio.value == pytest.approx(trace_squared / squares, rel=1e-7)
    assert isoscore_unbiased(x, torch.arange(n)).value == expected
    trace = float(torch.cov(x.T).trace())
    estimates = np.array(trace_estimates(fourth_moments_of(x))) * trace**2
    np.testing.assert_allclose(estimates, (trace_squared, squares), rtol=1e-9, atol=1e-12 * trace**2)


@pytest.mark.parametrize(
    "groups", [[0, 0, 1, 2, 3], [5, 1, 1, 3, 3, 7, 5, 8], [0, 0, 0, 1, 2, 2, 3], [4, 3, 2, 1, 1, 1]]
)
def test_groups_match_u_statistics_over_distinct_groups(groups):
    x = cloud(len(groups), 4)
    trace_squared, squares = enumerate_statistics(x, groups)
    expected = (trace_squared / squares - 1) / 3
    assert isoscore_unbiased(x, torch.tensor(groups)).value == pytest.approx(expected, rel=1e-7)


def test_trace_estimates_are_unbiased_over_all_samples():
    population = torch.tensor([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0]], dtype=torch.float64)
    totals = np.zeros(2)
    for drawn in product(range(3), repeat=5):
        moments = fourth_moments_of(population[list(drawn)])
        trace = float(moments.covariance().trace())
        if trace > 0:
            totals += np.array(trace_estimates(moments)) * trace**2
    S = torch.cov(population.T, correction=0)
    expected = [float(S.trace() ** 2), float((S @ S).trace())]
    np.testing.assert_allclose(totals / 3**5, expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(5, 40), (60, 300), (300, 60), (700, 128)])
def test_isoscore_unbiased_matches_package_on_generated_clouds(n, d):
    x = cloud(n, d)
    assert isoscore_unbiased(x).value == pytest.approx(package_score(x), rel=1e-7)
    assert isoscore_unbiased_from_moments(fourth_moments_of(x)).value == pytest.approx(package_score(x), rel=1e-7)


@pytest.mark.parametrize("rows", [40, 299, 1500])
def test_isoscore_unbiased_matches_package_on_word2vec(word2vec, rows):
    x = word2vec[:rows]
    assert isoscore_unbiased(x.double()).value == pytest.approx(package_score(x), rel=1e-7)
    assert isoscore_unbiased(x).value == pytest.approx(package_score(x), rel=1e-4)


def test_isoscore_unbiased_of_few_points_averages_to_population():
    variances = torch.arange(1, 97, dtype=torch.float64) ** -0.5
    population = float((variances.sum() ** 2 / variances.square().sum() - 1) / 95)
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(200, 64, 96, dtype=torch.float64, generator=generator) * variances.sqrt()
    corrected = np.mean([isoscore_unbiased(x).value for x in draws])
    plain = np.mean([isoscore(x).value for x in draws])
    assert corrected == pytest.approx(population, rel=0.02)
    assert plain < 0.6 * population
