import itertools

import gudhi
import numpy as np
import pytest
import torch
from gudhi.representations import Entropy
from scipy.stats import entropy
from sklearn.metrics.pairwise import cosine_similarity

from isotropy.prominence import prominent_mask
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar
from isotropy.unbiased import isoscore_unbiased


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) + 0.1
    return 0.5 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads


LABELS = torch.tensor([0, 1, 0, 1, 2, 0, 0, 1, 1, 0])


def shrunk_istar():
    istar = IStar(lam=-1.5, zeta=0.3).double()
    istar.set_shrinkage(torch.diag(torch.arange(1.0, 5.0)))
    return istar


PENALTIES = {
    "istar": shrunk_istar(),
    "unbiased, more rows than dimensions": lambda x: UnbiasedIStar(1.0)([x, x[:, :2]]),
    "unbiased, fewer rows than dimensions": lambda x: UnbiasedIStar(1.0)([x[:4], x.T[:4]]),
    "cosreg": CosReg(-2.0),
    "entropy": PersistentEntropy(1.0, cluster_weight=0.5),
    "entropy of all bars": PersistentEntropy(-1.0, bars="all"),
    "entropy by label": lambda x: PersistentEntropy(1.0, bars="all", cluster_weight=0.5)(x, LABELS),
    "spectrum": SpectrumControl(1.0),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_gradients_match_finite_differences(name):
    assert torch.autograd.gradcheck(PENALTIES[name], (cloud(10, 4).requires_grad_(),))


def penalize_single_layer(x):
    return UnbiasedIStar(1.0)([x])


def test_gradient_of_tangent_matches_finite_differences():
    x = (torch.eye(5, dtype=torch.float64) + 0.01 * cloud(5, 5)).requires_grad_()
    assert float(penalize_single_layer(x).detach()) < -1
    assert torch.autograd.gradcheck(penalize_single_layer, (x,))


def average_over_quadruples(x):
    traces, squares = [], []
    for i, j, k, m in itertools.permutations(range(len(x)), 4):
        a, b = x[i] - x[j], x[k] - x[m]
        traces.append(float((a @ a) * (b @ b)) / 4)
        squares.append(float(a @ b) ** 2 / 4)
    return np.mean(traces), np.mean(squares)


@pytest.mark.parametrize(("n", "d"), [(4, 3), (6, 2), (6, 9)])
@pytest.mark.parametrize("seed", range(4))
def test_unbiased_penalty_matches_quadruples(n, d, seed):
    x = cloud(n, d, seed)
    trace_squared, squares = average_over_quadruples(x)
    b = squares / trace_squared
    inverse = 1 / b if b > 1 / d else d + d * d * (1 / d - b)
    assert float(UnbiasedIStar(2.0)([x])) == pytest.approx(2 * (1 - (inverse - 1) / (d - 1)), rel=1e-9)


@pytest.mark.parametrize(("n", "d"), [(50, 8), (30, 40)])
def test_unbiased_penalty_averages_scores_of_layers(n, d):
    layers = [cloud(n, d, seed) ** 3 for seed in range(3)]
    scores = [isoscore_unbiased(layer).value for layer in layers]
    assert all(0 < score < 1 for score in scores)
    assert float(UnbiasedIStar(-3.0)(layers)) == pytest.approx(-3 * (1 - np.mean(scores)), rel=1e-9)


def test_cosreg_and_spectrum_control_match_references():
    x = cloud(20, 5)
    W = cosine_similarity(x.numpy())
    assert float(CosReg(1.5)(x)) == pytest.approx(1.5 * (W.sum() - 20) / 20**2, rel=1e-12)
    W = cloud(30, 7)
    s = np.linalg.svd(W.numpy(), compute_uv=False)
    E = ((s**2).sum() ** 2 / (s**4).sum() - 1) / 6
    assert float(SpectrumControl(2.0)(W)) == pytest.approx(2 * (1 - E), rel=1e-10)


def gudhi_bars(x):
    tree = gudhi.RipsComplex(points=x.numpy()).create_simplex_tree(max_dimension=1)
    tree.compute_persistence()
    deaths = tree.persistence_intervals_in_dimension(0)[:, 1]
    return deaths[np.isfinite(deaths)]


def gudhi_entropy(bars):
    return float(Entropy(mode="scalar").fit_transform([np.stack([np.zeros(len(bars)), bars], axis=1)])[0, 0])


@pytest.mark.parametrize("seed", range(5))
def test_entropy_penalty_matches_gudhi(seed):
    x = cloud(40, 6, seed)
    bars = gudhi_bars(x)
    assert float(PersistentEntropy(2.0, bars="all")(x)) == pytest.approx(-2 * gudhi_entropy(bars), rel=1e-9)
    chosen = prominent_mask(torch.from_numpy(bars)).numpy()
    expected = -2 * gudhi_entropy(bars[chosen]) + 0.3 * bars[~chosen].mean()
    assert float(PersistentEntropy(2.0, cluster_weight=0.3)(x)) == pytest.approx(expected, rel=1e-9)


def test_entropy_penalty_by_label_sums_gudhi_classes():
    x, labels = cloud(60, 6), torch.arange(60) % 3
    expected = -sum(entropy(gudhi_bars(x[labels == label])) for label in range(3))
    assert float(PersistentEntropy(1.0, bars="all")(x, labels)) == pytest.approx(expected, rel=1e-9)
