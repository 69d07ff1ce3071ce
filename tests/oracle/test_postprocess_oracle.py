"""Post-processing against scikit-learn, on word2vec and on generated clouds, in float64 and float32.

Conventions: PCA(whiten=True) divides by the standard deviation over n - 1 and makes the largest entry of each component
positive, as we do; StandardScaler divides by the one over n, as we do. scikit-learn gets float64 in every case.
"""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from isotropy.postprocess import whitening
from isotropy.postprocess.removal import fit_all_but_the_top, fit_cluster_based, fit_weighted_removal

DTYPES = {torch.float64: 1e-7, torch.float32: 1e-4}


@pytest.fixture(scope="module", params=["generated", "few points", "word2vec"])
def cloud(request):
    if request.param == "word2vec":
        vectors = request.getfixturevalue("word2vec")[:3000].double()
        return vectors[::2], vectors[1::2]
    n, d = (1000, 24) if request.param == "generated" else (15, 40)
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator)
    points = 2 + torch.randn(2 * n, d, dtype=torch.float64, generator=generator) @ mixing
    return points[:n], points[n:]


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def clouds(request, cloud):
    """Points to fit and new points in a dtype, both as float64 arrays, and a check of relative agreement."""
    points, new = (part.to(request.param) for part in cloud)

    def agree(images, expected):
        assert images.dtype == request.param
        difference = np.linalg.norm(images.double().numpy() - expected) / np.linalg.norm(expected)
        assert difference < DTYPES[request.param]

    return points, new, points.double().numpy(), new.double().numpy(), agree


@pytest.fixture(scope="module")
def pca(clouds):
    x = clouds[2]
    return PCA(n_components=min(len(x) - 1, x.shape[1]), whiten=True, svd_solver="full").fit(x)


def test_centering_standardisation_and_soft_zca_match_references(clouds):
    points, new, x, x_new, agree = clouds
    agree(whitening.fit_centering(points).apply(new), StandardScaler(with_std=False).fit(x).transform(x_new))
    agree(whitening.fit_standardisation(points).apply(new), StandardScaler().fit(x).transform(x_new))
    values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
    W = vectors @ np.diag((values.clip(0) + 0.1) ** -0.5) @ vectors.T
    agree(whitening.fit_soft_zca(points, eps=0.1).apply(new), (x_new - x.mean(0)) @ W)


def test_pca_zca_and_partial_whitening_match_sklearn(clouds, pca):
    points, new, _, x_new, agree = clouds
    rank = pca.n_components_
    fitted = whitening.fit_pca_whitening(points)
    images = fitted.apply(new)
    agree(images[:, :rank], pca.transform(x_new))
    assert not images[:, rank:].any()
    agree(whitening.fit_zca_whitening(points).apply(new), pca.transform(x_new) @ pca.components_)
    expected = pca.transform(x_new) * pca.explained_variance_**0.2 @ pca.components_
    agree(whitening.fit_partial_whitening(points, 0.6).apply(new), expected)


def test_zca_whitening_is_nearest_whitening(cloud):
    points, _ = cloud
    fitted = whitening.fit_zca_whitening(points)
    S = np.cov(points.numpy(), rowvar=False)
    W = fitted.matrix.numpy()
    np.testing.assert_allclose(W, W.T, atol=1e-12 * abs(W).max())
    if len(points) > points.shape[1]:
        np.testing.assert_allclose(W @ S @ W, np.eye(len(W)), atol=1e-7)

    def moved(whitened):
        return float((whitened - (points - points.mean(0))).square().sum())

    images = fitted.apply(points)
    assert moved(images) <= moved(whitening.fit_pca_whitening(points).apply(points))
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        turn, _ = torch.linalg.qr(torch.randn(*W.shape, dtype=torch.float64, generator=generator))
        assert moved(images) <= moved(images @ turn)


@pytest.mark.parametrize("D", [1, 3, 10])
def test_all_but_the_top_removes_sklearn_components(clouds, pca, D):
    points, new, x, x_new, agree = clouds
    top = pca.components_[:D]
    y = x_new - x.mean(0)
    agree(fit_all_but_the_top(points, D).apply(new), y - y @ top.T @ top)


@pytest.mark.parametrize("D", [1, 3, 10])
def test_weighted_removal_matches_scipy_optimum(clouds, pca, D):
    points, new, x, x_new, agree = clouds
    variances = torch.from_numpy(pca.explained_variance_)

    def participation_and_gradient(weights):
        weights = torch.from_numpy(weights).requires_grad_()
        remaining = torch.cat([variances[:D] * (1 - weights) ** 2, variances[D:]])
        negative = -(remaining.sum() ** 2) / remaining.square().sum()
        negative.backward()
        return negative.item(), weights.grad.numpy()

    bounds, options = [(0, 1)] * D, {"ftol": 0, "gtol": 1e-10, "maxls": 100}
    start, method = np.full(D, 0.5), "L-BFGS-B"
    optimum = minimize(participation_and_gradient, start, jac=True, bounds=bounds, method=method, options=options)
    top, y = pca.components_[:D], x_new - x.mean(0)
    expected = y - y @ top.T * optimum.x @ top
    agree(fit_weighted_removal(points, D).apply(new), expected)


@pytest.mark.parametrize(("clusters", "D"), [(1, 2), (5, 3)])
def test_cluster_based_removal_matches_pca_per_cluster(clouds, clusters, D):
    points, new, x, x_new, agree = clouds
    kmeans = KMeans(clusters, n_init=1, random_state=7).fit(x)
    expected = np.empty_like(x_new)
    for cluster in range(clusters):
        mine, its_new = x[kmeans.labels_ == cluster], kmeans.predict(x_new) == cluster
        top = PCA(n_components=min(D, len(mine) - 1), svd_solver="full").fit(mine).components_
        y = x_new[its_new] - mine.mean(0)
        expected[its_new] = y - y @ top.T @ top
    agree(fit_cluster_based(points, clusters, D, seed=7).apply(new), expected)
