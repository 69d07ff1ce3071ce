import math
from math import hypot, log

import numpy as np
import pytest
import scipy.stats
import torch

from isotropy.cloud import read_cloud
from isotropy.hubness import HubPoint, find_largest_hubs, hubness
from isotropy.intrinsic import FIGURE_POINTS, levina_bickel, twonn, twonn_mle
from isotropy.neighbors import BlockNeighbors, NearestNeighbors, nearest_neighbors
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.score import BLOCKS, there_are
from tests.points import randn


def with_ratios(mu):
    return at_distances(torch.stack([torch.full_like(mu, 3.0), 3 * mu], dim=1))


def at_distances(distances):
    indices, sizes = torch.zeros_like(distances, dtype=torch.int64), torch.ones_like(distances[:, 0])
    return NearestNeighbors(distances, indices, sizes, roundoff=2**-53)


def pareto(n, dimension, seed):
    uniform = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (1 - uniform) ** (-1 / dimension)


@pytest.mark.parametrize("dimension", [0.5, 2, 30])
def test_twonn_dimension_is_slope_of_line(dimension):
    ranks = torch.arange(1, 51, dtype=torch.float64)
    fit = twonn(with_ratios((1 - ranks / 51) ** (-1 / dimension)), discard=0.5)
    F = torch.arange(1, 26) / 50
    torch.testing.assert_close(fit.minus_log_survival, -(1 - F.double()).log())
    torch.testing.assert_close(fit.log_mu, -(1 - ranks[:25] / 51).log() / dimension)
    exact = (fit.log_mu * fit.minus_log_survival).sum() / fit.log_mu.square().sum()
    assert fit.dimension.value == pytest.approx(float(exact), rel=1e-12)
    assert fit.dimension.value == pytest.approx(dimension, rel=0.03)


def test_fit_distance_matches_kolmogorov_smirnov():
    mu = 1 + np.random.default_rng(0).pareto(3, 400)
    fit = twonn(with_ratios(torch.from_numpy(mu)), discard=1e-9)
    # The fit omits the largest ratio, which is not the farthest off here.
    expected = scipy.stats.kstest(np.log(mu), scipy.stats.expon(scale=1 / fit.dimension.value).cdf)
    assert fit.distance == pytest.approx(expected.statistic, rel=1e-9)
    assert fit.chance_distance == pytest.approx(0.055)
    random = np.random.default_rng(2)
    fit = twonn(with_ratios(torch.from_numpy(1 + np.concatenate([random.pareto(1, 500), random.pareto(40, 500)]))))
    assert fit.distance > 3 * fit.chance_distance


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 1000])
def test_fit_distance_exceeds_chance_about_once_in_twenty(rows):
    random = np.random.default_rng(1)
    fits = [twonn(with_ratios(torch.from_numpy(1 + random.pareto(5, rows)))) for _ in range(600)]
    assert 0.02 < np.mean([fit.distance > fit.chance_distance for fit in fits]) < 0.08


def test_estimates_match_hand_computation():
    score = twonn_mle(with_ratios(torch.full((27,), 2.0, dtype=torch.float64)))
    assert score.value == pytest.approx(26 / (27 * math.log(2)))
    assert score.se == pytest.approx(score.value / 5)
    distances = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).expand(20, 3)
    score = levina_bickel(at_distances(distances), k=3)
    assert score.value == pytest.approx(2 / math.log(8))
    assert score.se == pytest.approx(0, abs=1e-12)


MEASURES = [lambda n: twonn(n).dimension, twonn_mle, lambda n: levina_bickel(n, 2)]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("n", "has_one"), [(3, False), (19, False), (20, True)])
def test_fewer_than_twenty_points_have_no_standard_error(measure, n, has_one):
    score = measure(nearest_neighbors(randn(n, 4), 2))
    assert score.value > 0
    assert (score.se is not None) == has_one
    # Points with a duplicate are left out, so they do not count.
    repeated = torch.cat([randn(n, 4), torch.full((30, 4), 50.0, dtype=torch.float64)])
    assert (measure(nearest_neighbors(repeated, 2)).se is not None) == has_one


@pytest.mark.parametrize("measure", [lambda n: twonn(n).dimension, twonn_mle])
def test_standard_error_matches_spread_over_draws(measure):
    scores = [measure(with_ratios(pareto(500, 7.0, seed))) for seed in range(400)]
    values = torch.tensor([score.value for score in scores])
    errors = torch.tensor([score.se for score in scores])
    assert float(values.mean()) == pytest.approx(7, abs=0.06)
    # The spread of 400 draws is itself uncertain by 1 / sqrt(800), which is 4%.
    assert float(errors.mean()) == pytest.approx(float(values.std()), rel=0.12)


@pytest.mark.parametrize("measure", [lambda n: twonn(n).dimension, twonn_mle, lambda n: levina_bickel(n, 10)])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_torus_dimension_is_estimated_in_any_embedding(measure, dimension):
    angles = 2 * math.pi * torch.rand(2000, dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torus = torch.cat([angles.cos(), angles.sin()], dim=1) @ randn(2 * dimension, 40) + 3
    flat = torch.cat([angles.cos(), angles.sin()], dim=1)
    assert measure(nearest_neighbors(flat, 10)).value == pytest.approx(dimension, rel=0.08)
    assert measure(nearest_neighbors(torus, 10)).value == pytest.approx(dimension, rel=0.15)


def test_fit_keeps_figure_points_without_largest_ratio():
    fit = twonn(with_ratios(pareto(5000, 3.0, 0)))
    assert len(fit.log_mu) == len(fit.minus_log_survival) == FIGURE_POINTS
    assert float(fit.minus_log_survival[0]) == pytest.approx(-math.log1p(-1 / 5000))
    assert float(fit.minus_log_survival[-1]) == pytest.approx(math.log(10))
    assert bool((fit.log_mu.diff() >= 0).all())
    short_fit = twonn(with_ratios(pareto(50, 3.0, 0)))
    assert len(short_fit.log_mu) == 45
    assert math.isfinite(twonn(with_ratios(pareto(20, 3.0, 0)), discard=1e-18).dimension.value)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_than_three_points_have_no_intrinsic_dimension(n):
    neighbors = nearest_neighbors(randn(n, 4), 10)
    fit = twonn(neighbors)
    assert fit.dimension.reason == f"TwoNN needs at least 2 points to fit; it kept {n // 2} of {n} without a duplicate."
    assert len(fit.log_mu) == 0
    reason = f"TwoNN's likelihood needs at least 3 points without a duplicate; {there_are(n)}."
    assert twonn_mle(neighbors).reason == reason


def test_three_points_are_enough_and_duplicates_alone_are_not():
    neighbors = nearest_neighbors(torch.tensor([[0.0], [1.0], [3.0]]), 2)
    # Ratios 3, 2 and 1.5; the fit uses the smaller two, with F = 1/3 and 2/3.
    x, y = (math.log(1.5), math.log(2)), (-math.log(2 / 3), -math.log(1 / 3))
    slope = (x[0] * y[0] + x[1] * y[1]) / (x[0] ** 2 + x[1] ** 2)
    assert twonn(neighbors).dimension.value == pytest.approx(slope)
    assert twonn_mle(neighbors).value == pytest.approx(2 / math.log(9))
    neighbors = nearest_neighbors(torch.ones(20, 3), 10)
    reason = "TwoNN needs at least 2 points to fit; it kept 0 of 0 without a duplicate."
    assert twonn(neighbors).dimension.reason == reason
    assert twonn_mle(neighbors).value is None
    reason = "Levina and Bickel's estimate needs at least 2 points without a duplicate; there are 0."
    assert levina_bickel(neighbors).reason == reason


def rotated(x):
    return x.double() @ torch.linalg.qr(randn(x.shape[1], x.shape[1])).Q


EQUALLY_FAR = "most points are as far from their second neighbor as from their first, within rounding."


def test_equidistant_points_have_no_intrinsic_dimension():
    neighbors = nearest_neighbors(torch.eye(20), 10)
    fit = twonn(neighbors)
    assert fit.dimension.reason == f"TwoNN is undefined: {EQUALLY_FAR}"
    assert float(fit.log_mu.max()) == 0
    assert twonn_mle(neighbors).reason == f"TwoNN's likelihood is undefined: {EQUALLY_FAR}"
    assert levina_bickel(neighbors).reason == (
        "Levina and Bickel's estimate is undefined: for most points the 10 nearest neighbors are equally far, "
        "within rounding."
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [0, 2])
def test_rotated_one_hot_points_have_no_dimension(dtype, shift):
    neighbors = nearest_neighbors((rotated(torch.eye(100)) + shift).to(dtype), 10)
    for score in (twonn(neighbors).dimension, twonn_mle(neighbors), levina_bickel(neighbors)):
        assert "within rounding" in score.reason


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shift", [0, 100])
def test_rotated_lattice_has_no_dimension(dtype, shift):
    lattice = torch.cartesian_prod(*[torch.arange(7.0)] * 4)
    neighbors = nearest_neighbors((rotated(lattice) + shift).to(dtype), 2)
    assert twonn(neighbors).dimension.reason == f"TwoNN is undefined: {EQUALLY_FAR}"
    assert twonn_mle(neighbors).reason == f"TwoNN's likelihood is undefined: {EQUALLY_FAR}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_shifted_points_keep_dimension_in_any_precision(dtype):
    x = randn(1000, 300)
    rounded, exact = nearest_neighbors((x + 3).to(dtype), 10), nearest_neighbors(x, 10)
    assert twonn_mle(rounded).value == pytest.approx(twonn_mle(exact).value, rel=0.05)
    assert levina_bickel(rounded).value == pytest.approx(levina_bickel(exact).value, rel=0.02)


def test_near_duplicates_do_not_change_dimension():
    x = randn(500, 5).float()
    x[:40] = x[40:80] * (1 + 2**-22)
    for estimate in MEASURES:
        single, double = (estimate(nearest_neighbors(points, 2)).value for points in (x, x.double()))
        assert single == pytest.approx(double, rel=1e-9)


@pytest.mark.parametrize("n", [0, 1, 10])
def test_levina_bickel_needs_more_points_than_neighbors(n):
    assert levina_bickel(nearest_neighbors(randn(n, 4), 10)).reason == (
        f"Levina and Bickel's estimate with k = 10 needs more than 10 distinct points; {there_are(n)}."
    )


@pytest.mark.parametrize("discard", [0, 1, -0.1, math.nan])
def test_invalid_discard_fraction_is_refused(discard):
    with pytest.raises(ValueError, match=f"Expected a fraction to discard between 0 and 1, got {discard}: 0.1 is"):
        twonn(with_ratios(pareto(20, 3.0, 0)), discard)


def test_invalid_number_of_neighbors_is_refused():
    for k in (1, 0):
        with pytest.raises(ValueError, match=f"Expected at least 2 neighbors, got k = {k}: one neighbor has no ratio"):
            levina_bickel(nearest_neighbors(randn(20, 3), 3), k)
    for estimate in (twonn, twonn_mle, levina_bickel):
        with pytest.raises(ValueError, match="Expected k from 1 to 1, as many neighbors as were searched"):
            estimate(nearest_neighbors(randn(20, 3), 1))


def neighbors_at(indices):
    indices = torch.tensor(indices)
    distances = torch.arange(1, indices.shape[1] + 1, dtype=torch.float64).repeat(len(indices), 1)
    return NearestNeighbors(distances, indices, sizes=torch.ones(len(indices), dtype=torch.float64), roundoff=2**-24)


def test_hubness_of_star_matches_hand_computation():
    star = torch.cat([torch.zeros(1, 6), torch.eye(6), -torch.eye(6)[:1] / 2])
    result = hubness(nearest_neighbors(star, 2), k=1)
    # The center is nearest to all seven, and the shorter arm to the center.
    assert result.greatest.value == 7
    assert result.antihubs.value == 6 / 8
    assert result.robin_hood.value == pytest.approx(6 / 8)
    # Deviations 6, six times -1 and 0: third moment 210 / 8, variance 42 / 8.
    assert result.skewness.value == pytest.approx((210 / 8) / (42 / 8) ** 1.5)
    result = hubness(neighbors_at([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), k=2)
    # Counts 5, 5, 2, 0, 0, 0: of 12 places, 3 and 3 are more than 2.
    assert result.robin_hood.value == pytest.approx(6 / 12)


def test_hubs_are_most_frequent_neighbors_and_circle_has_none():
    angles = torch.arange(30, dtype=torch.float64) * (2 * torch.pi / 30)
    result = hubness(nearest_neighbors(torch.stack([angles.cos(), angles.sin()], dim=1), 5), k=4)
    assert result.skewness.reason == "The skewness is undefined: every point is a neighbor of exactly 4 others."
    assert (result.robin_hood.value, result.antihubs.value, result.greatest.value) == (0, 0, 4)
    x = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
    wide, enough = (hubness(nearest_neighbors(x, k)) for k in (15, 11))
    assert wide == enough
    counts = nearest_neighbors(x, 10).indices.flatten().bincount(minlength=100)
    assert enough.greatest.value == counts.max()
    result = hubness(neighbors_at([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), k=2)
    assert result.hubs == (HubPoint(0, 5), HubPoint(1, 5), HubPoint(2, 2))
    hubs = find_largest_hubs(torch.tensor([1, 3, 0, 3, 2]), max_hubs=3)
    assert hubs == (HubPoint(1, 3), HubPoint(3, 3), HubPoint(4, 2))
    assert hubness(nearest_neighbors(torch.eye(100), 11)).hubs == ()
    with pytest.raises(ValueError, match="Expected k from 1 to 10, as many neighbors as were searched, got 11"):
        hubness(nearest_neighbors(torch.randn(30, 3), 10))


def sparse(n, d, nonzeros):
    positions = torch.rand(n, d, generator=torch.Generator().manual_seed(0)).topk(nonzeros).indices
    return torch.zeros(n, d).scatter_(1, positions, 1.0)


def binary(n, d):
    return (torch.rand(n, d, generator=torch.Generator().manual_seed(0)) < 0.5).float()


@pytest.mark.parametrize("turned", [lambda x: x, lambda x: rotated(x).float(), rotated], ids=["as is", "32", "64"])
@pytest.mark.parametrize(
    ("x", "share"),
    [(torch.eye(100), "100%"), (sparse(1000, 300, 3), "100%"), (binary(1000, 16), "87%"), (torch.zeros(50, 3), "100%")],
    ids=["one-hot", "three ones", "binary", "duplicates"],
)
def test_tied_neighbors_leave_hubness_undefined(x, share, turned):
    result = hubness(nearest_neighbors(turned(x), 11))
    for score in (result.skewness, result.robin_hood, result.antihubs, result.greatest):
        assert score.value is None
        assert score.reason == (
            f"Hubness is undefined: {share} of the points have a tie for their 10-th nearest neighbor, "
            "which the order of the rows or rounding would decide."
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [0, 3])
def test_rounding_without_ties_keeps_hubness(dtype, shift):
    x = torch.randn(1000, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rounded, exact = (hubness(nearest_neighbors(points, 11)) for points in ((x + shift).to(dtype), x))
    assert rounded.skewness.value == pytest.approx(exact.skewness.value, rel=0.02)


def test_ties_of_one_percent_of_points_are_allowed():
    rare, frequent = (neighbors_at([[1 + i % 20, 0] for i in range(100)]) for _ in range(2))
    rare.distances[:1, 1] = frequent.distances[:2, 1] = 1
    assert hubness(rare, k=1).greatest.value == 5
    assert "2% of the points have a tie for their 1-th" in hubness(frequent, k=1).greatest.reason


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_too_few_points_have_no_hubness(n):
    result = hubness(nearest_neighbors(torch.randn(n, 3), 11))
    for score in (result.skewness, result.robin_hood, result.antihubs, result.greatest):
        assert score.reason == f"Hubness with k = 10 needs at least 12 points; {there_are(n)}."


def rows(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_standard_errors_are_batch_means_of_logarithms():
    x, blocks = torch.from_numpy(rows(1000)), np.arange(1000) % BLOCKS
    result = BlockNeighbors(x, blocks, 11).score(twonn_mle)
    logs = [log(twonn_mle(nearest_neighbors(x[blocks == block], 11)).value) for block in range(BLOCKS)]
    assert result.value == pytest.approx(twonn_mle(nearest_neighbors(x, 11)).value)
    assert result.se == pytest.approx(result.value * np.std(logs, ddof=1) / BLOCKS**0.5)
    assert result.se == pytest.approx(hypot(*result.parts))


@pytest.mark.slow
def test_scores_are_given_at_standard_sizes_within_n():
    result = measure(read_cloud(Rows(rows(2100))), ["twonn", "levina_bickel"])
    for result_of_slug in result.values():
        assert list(result_of_slug.at_sizes) == [1000, 2000]
        assert result_of_slug.score.se is not None
        assert all(score.se is not None for score in result_of_slug.at_sizes.values())
    result = measure(read_cloud(Rows(rows(990))), ["twonn"])["twonn"]
    assert result.score.value is not None
    assert (result.score.se, result.score.parts, dict(result.at_sizes)) == (None, (), {})


def test_score_at_size_equals_score_of_first_rows():
    x, blocks = torch.from_numpy(rows(1100)), np.arange(1100) % BLOCKS
    all_rows, first_rows = BlockNeighbors(x, blocks, 11), BlockNeighbors(x[:1000], blocks[:1000], 11)
    expected = first_rows.score(twonn_mle)
    assert all_rows.scores_by_size(twonn_mle)[1000] == expected == first_rows.scores_by_size(twonn_mle)[1000]
