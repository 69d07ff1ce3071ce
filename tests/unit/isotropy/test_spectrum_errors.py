from math import hypot

import numpy as np
import pytest
import torch

from isotropy import rank
from isotropy.anisotropy import anisotropy, second_moment
from isotropy.cloud import WITHOUT_ERROR, read_cloud
from isotropy.rows import Rows
from isotropy.spectrum import Moments, eigenvalues
from isotropy.spectrum_errors import spectrum_scores

SMOOTH = (
    "effective_rank", "effective_rank_lambda", "rankme", "stable_rank", "alpha_req", "spectrum",
    "anisotropy_raw 1", "anisotropy_centred 1", "anisotropy_centred 3", "explained_variance 1", "explained_variance 3",
)  # fmt: skip


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) / np.arange(1, d + 1) ** 0.5 + 0.5


def decomposed(x):
    S, second = matrices(x)
    return eigenvalues(S, len(x) - 1), eigenvalues(second, len(x))


def matrices(x):
    moments = Moments(x.shape[1])
    moments.update(torch.from_numpy(x))
    return moments.covariance(), second_moment(moments)


def error(scores_left_out, slug):
    values = np.array([scores[slug].value for scores in scores_left_out])
    return (0.9 * np.square(values - values.mean()).sum()) ** 0.5


def test_errors_match_decomposition_without_each_block():
    x = rows(2000, 8)
    cloud = read_cloud(Rows(x))
    blocks = cloud.dealing.blocks_of(np.arange(2000), 10)
    scores_left_out = [spectrum_scores(*decomposed(x[blocks != block]), len(x)) for block in range(10)]
    expected = spectrum_scores(*decomposed(x), 2000)
    for slug in SMOOTH:
        score = cloud.spectrum_scores[slug]
        assert score.se == pytest.approx(error(scores_left_out, slug), rel=0.08), slug
        assert score.se == pytest.approx(hypot(*score.parts)), slug
        assert score.value == pytest.approx(expected[slug].value, rel=1e-9), slug


def heavy_tails(n, d):
    return np.random.default_rng(1).standard_t(4, (n, d)) / np.arange(1, d + 1) ** 0.5 + 0.5


@pytest.mark.parametrize("x", [rows(3000, 160), heavy_tails(3000, 160), rows(400, 160)], ids=["even", "heavy", "few"])
def test_pooled_tail_errors_match_errors_by_eigenvalue(x):
    cloud = read_cloud(Rows(x))
    blocks = cloud.dealing.blocks_of(np.arange(len(x)), 10)
    bases = [torch.linalg.eigh(S)[1].flip(1) for S in matrices(x)]
    scores_left_out = []
    for block in range(10):
        along = [((S @ V) * V).sum(0) for S, V in zip(matrices(x[blocks != block]), bases, strict=True)]
        scores_left_out.append(spectrum_scores(*along, len(x)))
    for slug in SMOOTH:
        assert cloud.spectrum_scores[slug].se == pytest.approx(error(scores_left_out, slug), rel=0.02), slug


@pytest.mark.long
@pytest.mark.slow
def test_errors_match_spread_over_samples():
    all_scores = [read_cloud(Rows(rows(400, 6, seed))).spectrum_scores for seed in range(60)]
    for slug in SMOOTH:
        spread = np.std([scores[slug].value for scores in all_scores], ddof=1)
        mean_error = np.sqrt(np.mean([scores[slug].se ** 2 for scores in all_scores]))
        assert 0.7 < mean_error / spread < 1.5, slug


def test_few_rows_and_biased_scores_have_no_errors():
    scores = read_cloud(Rows(rows(40, 60))).spectrum_scores
    assert all(0 < scores[slug].se < scores[slug].value for slug in SMOOTH)
    assert all(score.se is None for score in read_cloud(Rows(rows(19, 4))).spectrum_scores.values())
    assert all(score.value is None for score in read_cloud(Rows(np.zeros((50, 4)))).spectrum_scores.values())
    scores = read_cloud(Rows(rows(400, 6))).moment_scores
    assert all(scores[slug].se is None and scores[slug].parts == () for slug in WITHOUT_ERROR)
    ratio, isoscore = scores["participation_ratio_unbiased"], scores["isoscore_unbiased"]
    assert ratio.value == pytest.approx(1 + 5 * isoscore.value)
    assert ratio.se == pytest.approx(5 * isoscore.se)


def test_list_scores_match_their_functions():
    x = rows(300, 12)
    values, energies = decomposed(x)
    scores = read_cloud(Rows(x)).spectrum_scores
    for slug, expected in {
        "anisotropy_raw": anisotropy(energies, 10),
        "anisotropy_centred": anisotropy(values, 10),
        "explained_variance": rank.explained_variance(values, 10),
    }.items():
        all_scores = [scores[f"{slug} {k}"].value for k in range(1, 11)]
        assert all_scores == pytest.approx([score.value for score in expected], rel=1e-9)
        assert all(scores[f"{slug} {k}"].se > 0 for k in range(1, 11))
