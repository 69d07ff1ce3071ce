import pytest
import torch

from isotropy.postprocess.removal import CLUSTERED_ROWS, fit_cluster_based


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
