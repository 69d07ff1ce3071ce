import math

import pytest
import torch
from scipy.stats import kurtosis, skew

from isotropy.postprocess.flow import fit_flow
from isotropy.postprocess.held_out import held_out
from isotropy.postprocess.methods import fit
from isotropy.postprocess.removal import CLUSTERED_ROWS, fit_cluster_based
from isotropy.postprocess.whitening import fit_centering, fit_pca_whitening, fit_zca_whitening


def blobs(n=40, d=4, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, n, d, dtype=torch.float64, generator=generator)
    centers = 100 * torch.eye(3, d, dtype=torch.float64)
    for blob in range(3):
        noise[blob, :, blob + 1] *= 10
    return (centers[:, None] + noise).flatten(0, 1).to(dtype)


def test_seed_fixes_clusters():
    first, second = (fit_cluster_based(blobs(), clusters=7, seed=3) for _ in range(2))
    assert torch.equal(first.centroids, second.centroids)
    assert torch.equal(first.directions, second.directions)


@pytest.mark.parametrize(("d", "D"), [(4, 1), (128, 2), (768, 12)])
def test_default_removes_one_in_64_dimensions(d, D):
    assert fit_cluster_based(blobs(n=20, d=d), clusters=1).directions.shape == (1, D, d)


def test_degenerate_clusters_become_zero():
    points = blobs(n=3)
    assert not fit_cluster_based(points, clusters=9, D=4).apply(points).any()
    points = blobs(n=1).repeat(5, 1)
    fitted = fit_cluster_based(points, clusters=8, D=1)
    assert not fitted.directions.any()
    assert fitted.apply(points).abs().max() < 1e-12
    points = torch.cat([blobs()[:40], 1000 + blobs()[40:42]])
    images = fit_cluster_based(points, clusters=2, D=3).apply(points)
    assert images[40:].abs().max() < 1e-10
    assert images[:40].abs().max() > 1


@pytest.mark.parametrize("clusters", [0, -1, 121])
def test_too_many_clusters_and_components_are_refused(clusters):
    with pytest.raises(
        ValueError, match=f"Expected 1 <= clusters <= n = 120, got {clusters}: there are n points to sha"
    ):
        fit_cluster_based(blobs(), clusters=clusters)
    with pytest.raises(
        ValueError, match="Expected 0 <= D <= d = 4 components to remove, got 5: there are d directions"
    ):
        fit_cluster_based(blobs(), clusters=2, D=5)


def test_centroids_are_learned_from_a_sample_and_means_from_all():
    n = CLUSTERED_ROWS // 3 + 500
    fitted = fit_cluster_based(blobs(n), clusters=3, D=1)
    nearest = torch.cdist(blobs(n), fitted.centroids).argmin(1).view(3, n)
    assert nearest.unique(dim=1).shape == (3, 1)
    means = blobs(n).view(3, n, 4).mean(1)[nearest[:, 0].argsort()]
    torch.testing.assert_close(fitted.mean, means)
    assert (fitted.centroids - means).abs().max() > 1e-6


def skewed(n=2000, d=4, seed=0):
    noise = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    noise[:, 1:] += noise[:, :1] ** 2
    mixing, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(9)))
    return 2 + noise @ mixing


@pytest.fixture(scope="module")
def fitted():
    return fit_flow(skewed(), steps=300, layers=4, hidden=16, rate=5e-3)


@pytest.mark.slow
def test_inverse_restores_points_and_log_det_matches_jacobian(fitted):
    new = skewed(200, seed=1)
    torch.testing.assert_close(fitted.inverse(fitted.apply(new)), new, rtol=1e-10, atol=1e-10)
    low = new.float()
    torch.testing.assert_close(fitted.inverse(fitted.apply(low)), low, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, 4\], got \[3, 5\]"):
        fitted.inverse(torch.zeros(3, 5))
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, 4\], got \[3, 5\]"):
        fitted.log_likelihood(torch.zeros(3, 5))
    for point in skewed(5, seed=1):
        jacobian = torch.autograd.functional.jacobian(lambda x: fitted.transform(x[None])[0][0], point)
        _, log_det = fitted.transform(point[None])
        assert float(log_det) == pytest.approx(float(torch.linalg.slogdet(jacobian).logabsdet), rel=1e-10)


@pytest.mark.slow
def test_density_integrates_to_one_and_starts_gaussian():
    points = skewed(300, d=2)
    fitted = fit_flow(points, steps=60, layers=2, hidden=8, rate=5e-3)
    side = torch.linspace(-30, 40, 1401, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    assert float(fitted.log_likelihood(grid).exp().sum()) * 0.05**2 == pytest.approx(1, abs=0.01)
    points = skewed()
    trained = points[torch.randperm(2000, generator=torch.Generator().manual_seed(0))[200:]]
    normal = torch.distributions.MultivariateNormal(trained.mean(0), trained.T.cov())
    torch.testing.assert_close(fit_flow(points, steps=0).log_likelihood(points), normal.log_prob(points))


def test_training_raises_likelihood_and_gaussianity_of_new_rows(fitted):
    whitening, new = fit_flow(skewed(), steps=0), skewed(seed=1)
    assert fitted.log_likelihood(new).mean() > whitening.log_likelihood(new).mean() + 0.5
    new = skewed(seed=1)
    whitened, images = (map_.apply(new).numpy() for map_ in (fit_pca_whitening(skewed()), fitted))
    assert abs(skew(whitened)).max() > 2
    assert abs(skew(images)).max() < 0.5
    assert abs(kurtosis(images)).max() < abs(kurtosis(whitened)).max() / 3


@pytest.mark.slow
def test_seed_fixes_flow_and_divergence_gives_whitening():
    flows = [fit_flow(skewed(200), steps=30, layers=2, hidden=4, seed=seed).apply(skewed(9)) for seed in (0, 0, 1)]
    assert torch.equal(flows[0], flows[1])
    assert not torch.equal(flows[0], flows[2])
    points = skewed(100)
    diverged, untrained = (fit_flow(points, steps=steps, rate=1e3, layers=1, hidden=2) for steps in (200, 0))
    assert torch.equal(diverged.apply(points), untrained.apply(points))


def test_gaussian_points_and_progress_errors_end_training_early():
    steps_done = []
    points = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    fit_flow(points, steps=10_000, layers=1, hidden=4, progress=lambda step, steps: steps_done.append((step, steps)))
    assert steps_done[:2] == [(1, 10_000), (2, 10_000)]
    assert 100 <= len(steps_done) < 5000

    def cancel(step, _):
        if step == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_flow(skewed(50), progress=cancel)


def test_more_dimensions_than_points_stay_invertible():
    points, new = skewed(20, d=30), 2 + skewed(50, d=30, seed=1)
    fitted = fit_flow(points, steps=40, layers=2, hidden=4)
    torch.testing.assert_close(fitted.inverse(fitted.apply(new)), new, rtol=1e-9, atol=1e-9)
    assert fitted.scale.max() == fitted.scale[:17].max()
    assert not fitted.scale[17:].sub(fitted.scale.min()).any()


def test_few_or_equal_points_and_invalid_arguments_are_refused():
    for n, d in ((2, 4), (9, 1)):
        with pytest.raises(ValueError, match=rf"Expected at least 3 points of 2 dimensions to .*, got \[{n}, {d}"):
            fit_flow(skewed(n, d))
    with pytest.raises(
        ValueError, match="Expected points that differ to fit a flow on, got all equal: they have no dens"
    ):
        fit_flow(torch.ones(9, 4))
    for name, value in (("steps", -1), ("layers", 0), ("hidden", 0), ("rate", 0.0), ("rate", math.inf)):
        with pytest.raises(ValueError, match=f"Expected steps of at least 0.*{name} = {value}"):
            fit_flow(skewed(9), **{name: value})


def cloud(n=20, d=3):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_held_out_rows_use_map_fitted_on_other_rows():
    points = cloud()
    split = held_out(points, fit_centering)
    mean = points[split.fit_rows].mean(0)
    assert torch.equal(split.held_out.before, points[split.held_out_rows])
    torch.testing.assert_close(split.held_out.after, points[split.held_out_rows] - mean)
    assert torch.equal(split.in_sample.before, points[split.fit_rows])
    torch.testing.assert_close(split.in_sample.after, points[split.fit_rows] - mean)
    torch.testing.assert_close(split.fitted.mean, mean)


def test_fit_rows_follow_seed_and_groups():
    drawn = [held_out(cloud(), fit_centering, seed=seed).fit_rows.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    split = held_out(cloud(), lambda points: fit("soft_zca", points, eps=0.0))
    torch.testing.assert_close(split.fitted.matrix, held_out(cloud(), fit_zca_whitening).fitted.matrix)
    groups = torch.arange(20) // 4 * 11 - 3
    split = held_out(cloud(), fit_centering, 0.4, groups=groups)
    fit_groups, held_out_groups = set(groups[split.fit_rows].tolist()), set(groups[split.held_out_rows].tolist())
    assert len(fit_groups) == 2
    assert len(held_out_groups) == 3
    assert not fit_groups & held_out_groups


@pytest.mark.parametrize(("fraction", "fitted_on"), [(0.5, 10), (0.25, 5), (0.001, 1), (0.999, 19)])
def test_fraction_leaves_rows_in_both_parts(fraction, fitted_on):
    split = held_out(cloud(), fit_centering, fraction)
    assert len(split.fit_rows) == fitted_on
    assert sorted([*split.fit_rows.tolist(), *split.held_out_rows.tolist()]) == list(range(20))


@pytest.mark.parametrize(
    ("n", "options", "sentence"),
    [
        *(
            (20, {"fraction": bad}, f"Expected a fraction of rows between 0 and 1 to fit on, got {bad}: both parts")
            for bad in (0.0, 1.0, -1.0, float("nan"))
        ),
        (0, {}, "Expected rows to fit on, got none of 0: both parts need at least one"),
        (1, {}, "Expected rows to fit on, got none of 1: both parts need at least one"),
        (20, {"groups": torch.zeros(20)}, "Expected rows to fit on, got none of 20: both parts need at least one"),
        (20, {"groups": torch.arange(19)}, r"Expected a group for each of 20 rows, got \[19\]"),
    ],
)
def test_invalid_row_choices_are_refused(n, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        held_out(cloud(n), fit_centering, **options)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[5\]"):
        held_out(torch.zeros(5), fit_centering)
