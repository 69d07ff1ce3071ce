"""Bars against gudhi, ripser and scipy, entropy against gudhi and scipy, prominence against its definition.

Conventions: gudhi and ripser end the bars of dimension 0 at distances, not at half of them; they leave out bars of
length 0 and add one that never ends. Ripser computes in float32. In scipy's trees a distance of 0 is no edge.
"""

import gudhi
import numpy as np
import pytest
import torch
from gudhi.representations import Entropy
from gudhi.sklearn.rips_persistence import RipsPersistence
from ripser import ripser
from scipy.cluster.hierarchy import linkage
from scipy.optimize import minimize_scalar
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform
from scipy.stats import entropy

from isotropy.prominence import count_at_min_entropy, prominent_bars
from isotropy.topology import bar_entropy, barcode, persistent_entropy, spanning_tree
from tests.rounding import likely

FLOAT32_ERROR = 2 * likely(300, torch.float32)  # Relative error of a distance, 2e-5


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) ** 2 + 0.01
    return 3 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads


def groups(width):
    centers = 1000 + torch.eye(3, 40, dtype=torch.float64).repeat_interleave(20, 0)
    outlier_row = torch.full((1, 40), 1002, dtype=torch.float64)
    return torch.cat([centers + width * cloud(60, 40), outlier_row])


def with_duplicates():
    x = cloud(60, 10)
    return torch.cat([x, x[:15], x[:5], torch.zeros(3, 10, dtype=torch.float64)])


def grid():
    return torch.cartesian_prod(*[torch.arange(9, dtype=torch.float64)] * 2)


CLOUDS = {
    "plane": cloud(300, 2),
    "deep": cloud(200, 64),
    "fewer points than dimensions": cloud(100, 300),
    "several blocks": cloud(450, 30),
    "tight groups": groups(1e-6),
    "groups at the precision of products": groups(1.7e-4),
    "duplicates": with_duplicates(),
    "grid": grid(),
    "outlier": torch.cat([cloud(50, 5), torch.full((1, 5), 1e9, dtype=torch.float64)]),
}


@pytest.fixture(params=CLOUDS)
def x(request):
    return CLOUDS[request.param]


def single_linkage(x):
    return linkage(pdist(x.numpy()), "single")[:, 2]


def rips_deaths(x):
    """Lengths of bars by gudhi's Rips complex, without those of length 0 and the one that never ends."""
    tree = gudhi.RipsComplex(points=x.numpy()).create_simplex_tree(max_dimension=1)
    tree.compute_persistence()
    deaths = tree.persistence_intervals_in_dimension(0)[:, 1]
    return np.sort(deaths[np.isfinite(deaths)])


@pytest.mark.measure("barcode")
def test_bars_match_single_linkage(x):
    np.testing.assert_allclose(barcode(x), single_linkage(x), rtol=1e-10)
    lengths = barcode(x)
    if lengths.min() < lengths.max():
        assert prominent_bars(lengths).value == count_by_definition(lengths[lengths > 0].tolist())


def test_bars_and_tree_match_gudhi_ripser_and_scipy(x):
    deaths = RipsPersistence(homology_dimensions=0).fit_transform([x.numpy()])[0][:, 1]
    lengths = barcode(x)
    np.testing.assert_allclose(lengths[lengths > 0], np.sort(deaths[np.isfinite(deaths)]), rtol=1e-7)
    np.testing.assert_allclose(lengths[lengths > 0], rips_deaths(x), rtol=1e-7)
    deaths = ripser(squareform(pdist(x.numpy())), distance_matrix=True, maxdim=0)["dgms"][0][:, 1]
    np.testing.assert_allclose(lengths[lengths > 0], np.sort(deaths[np.isfinite(deaths)]), rtol=1e-6)
    start, end = spanning_tree(x).T.numpy()
    graph = coo_array((np.ones(len(start)), (start, end)), shape=(len(x), len(x)))
    assert len(start) == len(x) - 1
    assert connected_components(graph, directed=False)[0] == 1
    weights = np.linalg.norm(x.numpy()[start] - x.numpy()[end], axis=1)
    theirs = minimum_spanning_tree(squareform(1 + pdist(x.numpy()))).data - 1
    assert weights.sum() == pytest.approx(theirs.sum(), rel=1e-10)


def test_word2vec_bars_match_gudhi_in_both_precisions(word2vec):
    x = word2vec[:500].double()
    np.testing.assert_allclose(barcode(x), single_linkage(x), rtol=1e-10)
    np.testing.assert_allclose(barcode(x), rips_deaths(x), rtol=1e-10)
    np.testing.assert_allclose(barcode(word2vec[:1000]), barcode(word2vec[:1000].double()), rtol=FLOAT32_ERROR)
    lengths = barcode(word2vec[:1000])
    assert len(lengths) == 999
    assert float(lengths[-1]) == pytest.approx(3.65907047, rel=FLOAT32_ERROR)
    assert persistent_entropy(lengths).value == pytest.approx(6.87697640, rel=FLOAT32_ERROR)
    assert prominent_bars(lengths).value == 22
    exact, single = word2vec[:64].double().requires_grad_(), word2vec[:64].clone().requires_grad_()
    bar_entropy(barcode(exact)).backward()
    bar_entropy(barcode(single)).backward()
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=1e-4, atol=1e-5 * float(exact.grad.abs().max()))


@pytest.mark.measure("persistent_entropy", "persistent_entropy_normalised")
def test_persistent_entropy_matches_gudhi_and_scipy(x):
    lengths = barcode(x)
    diagram = np.stack([np.zeros(len(lengths)), lengths], axis=1)[lengths > 0]
    value = persistent_entropy(lengths).value
    assert value == pytest.approx(float(Entropy(mode="scalar").fit_transform([diagram])[0, 0]), rel=1e-10)
    assert value == pytest.approx(entropy(lengths), rel=1e-10)
    assert persistent_entropy(lengths, normalized=True).value == pytest.approx(value / np.log(len(lengths)))
    assert float(bar_entropy(lengths)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(8, 3), (5, 9)])
def test_entropy_gradient_matches_finite_differences(n, d):
    points = cloud(n, d).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: bar_entropy(barcode(x)), (points,))
    assert torch.autograd.gradcheck(barcode, (points,))


def count_by_definition(lengths):
    T, *shorter = sorted(lengths, reverse=True)
    r = shorter[-1]
    while True:
        n = len(shorter) + 1
        before = sum(shorter) + T
        for i in range(1, n):
            remaining = [*shorter[i:], T]
            neutral = sum(remaining) / np.exp(entropy(remaining))
            after = sum(remaining) + i * neutral
            if before / after < 1 - 1e-12:
                break
            before = after
        alpha = r / T
        if i == n - 1 or i <= n * alpha * (alpha - 1 - np.log(alpha)) / (alpha - 1) ** 2:
            return i
        shorter = [*shorter[: i - 1], r]


@pytest.mark.measure("prominent_bars")
@pytest.mark.parametrize("seed", range(40))
def test_prominent_bars_match_definition(seed):
    generator = np.random.default_rng(seed)
    m = int(generator.integers(2, 60))
    lengths = generator.lognormal(sigma=generator.uniform(0.05, 3), size=m)
    lengths[: m // 6] += generator.uniform(0, 20)
    assert prominent_bars(torch.from_numpy(lengths)).value == count_by_definition(lengths)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("n", [2, 3, 10, 101, 500])
def test_count_at_min_entropy_matches_exhaustive_search(n, alpha):
    entropies = [entropy([1.0] * long + [alpha] * (n - long)) for long in range(1, n + 1)]
    Q = count_at_min_entropy(alpha, n)
    assert np.argmin(entropies[:-1]) + 1 in {max(int(np.floor(Q)), 1), int(np.ceil(Q))}


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3, 0.7])
def test_count_at_min_entropy_matches_numeric_search(alpha):
    def entropy_with_long(long):
        total = long + alpha * (100 - long)
        return np.log(total) - alpha * np.log(alpha) * (100 - long) / total

    optimum = minimize_scalar(entropy_with_long, bounds=(1e-9, 100), method="bounded", options={"xatol": 1e-9})
    assert count_at_min_entropy(alpha, 100) == pytest.approx(optimum.x, rel=1e-4)


def test_neutral_length_maximizes_entropy():
    remaining = np.array([5.0, 1.0, 0.3, 0.1])

    def negative(length):
        return -entropy([length] * 3 + list(remaining))

    optimum = minimize_scalar(negative, bounds=(0.01, 10), method="bounded")
    assert remaining.sum() / np.exp(entropy(remaining)) == pytest.approx(optimum.x, rel=1e-4)
