import math
from math import hypot

import numpy as np
import pytest
import torch

from isotropy import spectrum
from isotropy.anisotropy import anisotropy, second_moment
from isotropy.cloud import WITHOUT_ERROR, read_cloud
from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.rows import Rows
from isotropy.spectrum import eigenvalues
from isotropy.spectrum_errors import spectrum_scores
from tests.points import moments_of
from tests.rounding import likely, tolerance

SQUARE = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])
CHUNK_ERROR = likely(spectrum.CHUNK_ROWS, torch.float32)  # relative error of float32 sums of a chunk: 3e-5
SQUARE_COVARIANCE = torch.tensor([[4 / 3, 0.0], [0.0, 16 / 3]], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_moments_of_rectangle_match_hand_computation(dtype):
    moments = moments_of(SQUARE.to(dtype))
    assert (moments.n, moments.d, moments.mean.tolist()) == (4, 2, [1, 2])
    assert moments.mean.dtype == moments.covariance().dtype == torch.float64
    torch.testing.assert_close(moments.covariance(), SQUARE_COVARIANCE)
    if dtype == torch.float16:  # whose squares overflow
        torch.testing.assert_close(moments_of((SQUARE * 1000).half()).covariance(), SQUARE_COVARIANCE * 1e6)


def test_covariance_is_accurate_for_far_drifting_and_sorted_rows():
    noise = torch.randn(3 * spectrum.CHUNK_ROWS, 3, generator=torch.Generator().manual_seed(0))
    x = 10_000 + noise
    exact = torch.cov((x.double() - 10_000).T)
    torch.testing.assert_close(moments_of(x).covariance(), exact, rtol=CHUNK_ERROR, atol=CHUNK_ERROR)
    noise = torch.randn(4 * spectrum.CHUNK_ROWS, 2, generator=torch.Generator().manual_seed(0))
    x = noise + torch.arange(4.0).repeat_interleave(spectrum.CHUNK_ROWS)[:, None] * 1000
    torch.testing.assert_close(moments_of(x).covariance(), torch.cov(x.double().T), rtol=CHUNK_ERROR, atol=0)
    x = (
        1000
        + torch.randn(2 * spectrum.CHUNK_ROWS + 5, 3, generator=torch.Generator().manual_seed(0)).sort(dim=0).values
    )
    torch.testing.assert_close(moments_of(x).covariance(), torch.cov(x.double().T), rtol=CHUNK_ERROR, atol=0)
    x = torch.randn(spectrum.CHUNK_ROWS, 3, generator=torch.Generator().manual_seed(0))
    x[0] = 1e4
    exact = torch.cov(x.double().T)
    torch.testing.assert_close(moments_of(x).covariance(), exact, rtol=CHUNK_ERROR, atol=0)


@pytest.mark.parametrize("d", [1, 191, 192, 193, 384, 500])
def test_gram_matrix_by_blocks_equals_product(d):
    x = torch.randn(40, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    atol = tolerance(len(x), torch.float64, float((x.abs().T @ x.abs()).max()))
    torch.testing.assert_close(spectrum.gram(x), x.T @ x, rtol=0, atol=atol)


def test_equal_points_have_exactly_zero_covariance():
    moments = moments_of(torch.full((spectrum.CHUNK_ROWS + 7, 3), 0.1))
    assert not moments.covariance().any()
    assert moments.mean.tolist() == pytest.approx([0.1] * 3)
    for n in (0, 1):
        moments = moments_of(torch.ones(n, 3))
        assert (moments.n, bool(moments.covariance().any())) == (n, False)


def test_moments_continue_after_save_and_load():
    saved = moments_of(SQUARE[:3]).state()
    loaded = spectrum.Moments.from_state(saved)
    loaded.update(SQUARE[3:])
    assert loaded.n == 4
    torch.testing.assert_close(loaded.covariance(), SQUARE_COVARIANCE)
    moments = moments_of(SQUARE[:2])
    saved = moments.state()
    moments.update(SQUARE[2:])
    assert saved["mean"].tolist() == [1, 0]
    assert int(saved["n"]) == 2
    moments = spectrum.Moments.from_state(spectrum.Moments(2).state())
    moments.merge(spectrum.Moments(2))
    moments.merge(moments_of(SQUARE))
    torch.testing.assert_close(moments.covariance(), SQUARE_COVARIANCE)


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.ones(4, 3), r"\[4, 3\] of torch.float32"),
        (torch.ones(2), r"\[2\] of torch.float32"),
        (torch.ones(4, 2, dtype=torch.int64), r"\[4, 2\] of torch.int64"),
    ],
)
def test_update_refuses_mismatched_points(x, got):
    with pytest.raises(ValueError, match=rf"Expected points as a floating tensor \[n, 2\], got {got}: use one"):
        spectrum.Moments(2).update(x)


def test_merge_and_shrink_refuse_mismatched_moments():
    with pytest.raises(ValueError, match="Expected moments of 2 dimensions, got 3: merge only clouds of one"):
        spectrum.Moments(2).merge(spectrum.Moments(3))
    moments = moments_of(torch.tensor([[0.0, 1.0], [float("nan"), 1.0]]))
    assert moments.covariance()[0, 0].isnan()
    with pytest.raises(ValueError, match=r"shrinkage covariance \[2, 2\] like that of the points, got \[3, 3\]"):
        spectrum.shrink(torch.eye(2), torch.eye(3), 0.5)


def test_center_subtracts_mean():
    mean, centered = spectrum.center(SQUARE)
    assert mean.tolist() == [1, 2]
    assert centered.tolist() == [[-1, -2], [1, -2], [-1, 2], [1, 2]]


@pytest.mark.parametrize("d", [2, 300])
def test_autocast_does_not_lower_precision_of_covariances(d):
    x = SQUARE.repeat(1, d // 2) / 3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        S = moments_of(x).covariance()
    torch.testing.assert_close(S, SQUARE_COVARIANCE.repeat(d // 2, d // 2) / 9, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [spectrum.CHUNK_ROWS, 2 * spectrum.CHUNK_ROWS])
def test_shift_is_near_mean_despite_outlier_tokens(n):
    x = torch.zeros(n, 1)
    x[::128] = 1000
    shift, _, shifted_mean = spectrum.shift_near_mean(x)
    assert abs(shift - x.mean()) < x.std() / 4
    assert float(shift + shifted_mean) == pytest.approx(float(x.mean()))


def test_shrink_weighs_points_by_one_minus_zeta():
    S_X, S_S = torch.eye(2), 5 * torch.eye(2)
    assert torch.equal(spectrum.shrink(S_X, S_S, 0), S_X)
    assert torch.equal(spectrum.shrink(S_X, S_S, 1), S_S)
    assert torch.equal(spectrum.shrink(S_X, S_S, 0.25), 2 * torch.eye(2))
    assert torch.equal(spectrum.scaled_identity(torch.tensor([[3.0, 1.0], [1.0, 5.0]])), 4 * torch.eye(2))


@pytest.mark.parametrize("zeta", [-0.1, 1.1, float("nan")])
def test_shrink_refuses_invalid_zeta(zeta):
    with pytest.raises(ValueError, match=rf"Expected zeta in \[0, 1\], got {zeta}: 0 is no shrinkage"):
        spectrum.shrink(torch.eye(2), torch.eye(2), zeta)


def test_eigenvalues_are_descending_and_zero_below_rounding():
    S = torch.diag(torch.tensor([1.0, 3.0, -1e-9, 2.0]))
    assert spectrum.eigenvalues(S).tolist() == [3, 2, 1, 0]
    assert spectrum.eigenvalues(S).dtype == torch.float64
    S = torch.diag(torch.tensor([1.0, 1e-13, 5e-15, 1e-16], dtype=torch.float64))
    assert spectrum.eigenvalues(S).tolist() == pytest.approx([1, 1e-13, 0, 0], rel=1e-12, abs=0)
    assert spectrum.eigenvalues(S * 1e-200).tolist() == pytest.approx([1e-200, 1e-213, 0, 0], rel=1e-12, abs=0)
    assert spectrum.eigenvalues(torch.tensor([[1.0, 0.0], [0.0, float("inf")]])).isnan().tolist() == [True, True]
    assert spectrum.eigenvalues(torch.zeros(0, 0)).tolist() == []


@pytest.mark.parametrize(("rank", "expected"), [(-1, [0, 0, 0]), (0, [0, 0, 0]), (2, [3, 2, 0]), (7, [3, 2, 1])])
def test_eigenvalues_beyond_given_rank_are_zero(rank, expected):
    assert spectrum.eigenvalues(torch.diag(torch.tensor([1.0, 3.0, 2.0])), rank).tolist() == expected


def matrix_with(values):
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64, generator=seeded(1)))
    return (q * values) @ q.T


def seeded(seed):
    return torch.Generator().manual_seed(seed)


NUMBERS = torch.arange(1, 301, dtype=torch.float64)
SPECTRA = {
    "steep": 1e9 * NUMBERS**-2,
    "slow": NUMBERS**-0.5,
    "mean far from the origin": torch.cat([torch.tensor([1e6]), NUMBERS[1:].flip(0) / 300]),
    "equal": torch.ones(300),
    "three equal": torch.cat([torch.full((3,), 5.0), 1 / NUMBERS[3:]]),
    "six equal": torch.cat([torch.full((6,), 5.0), 1 / NUMBERS[6:]]),
    "close": torch.cat([5 - 1e-7 * NUMBERS[:9], 1 / NUMBERS[9:]]),
    "crowded": 1 - 1e-4 * NUMBERS,
    "tiny": 1e-30 / NUMBERS,
    "few dimensions": 1 / NUMBERS[:5],
}


@pytest.mark.parametrize("name", SPECTRA)
def test_leading_eigenvalues_match_all_eigenvalues(name):
    S = matrix_with(SPECTRA[name].double())
    leading, largest = spectrum.leading_eigenvalues(S, 3), torch.linalg.eigvalsh(S).flip(0)[:3]
    torch.testing.assert_close(leading, largest, rtol=spectrum.LEADING_ERROR, atol=0)
    stacked = spectrum.leading_eigenvalues(torch.stack([S, 2 * S.flip(0, 1)]), 3)
    torch.testing.assert_close(stacked, torch.stack([largest, 2 * largest]), rtol=spectrum.LEADING_ERROR, atol=0)
    assert torch.equal(spectrum.leading_eigenvalues(S, 3), leading)
    torch.testing.assert_close(spectrum.leading_eigenvalues(S, 3, rank=2)[:2], leading[:2], rtol=0, atol=0)
    assert spectrum.leading_eigenvalues(S, 3, rank=2)[2] == 0


def test_leading_eigenvalues_below_rounding_are_zero():
    S = matrix_with(torch.cat([torch.tensor([2.0, 1.0]), torch.zeros(298)]).double())
    assert spectrum.leading_eigenvalues(S, 3).tolist() == pytest.approx([2, 1, 0], rel=1e-12)
    assert spectrum.leading_eigenvalues(S, 3)[2] == 0
    assert spectrum.leading_eigenvalues(torch.zeros(300, 300), 3).tolist() == [0, 0, 0]
    assert spectrum.leading_eigenvalues(S * torch.nan, 3).isnan().all()
    stacked = spectrum.leading_eigenvalues(torch.stack([S, S * torch.nan, 2 * S]), 3)
    assert stacked.nan_to_num(-1).flatten().tolist() == pytest.approx([2, 1, 0, -1, -1, -1, 4, 2, 0], rel=1e-12)


def matrix(V=60, d=5):
    return torch.randn(V, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


def test_common_mean_and_zero_matrix_are_penalized():
    assert float(SpectrumControl(1.0)(matrix() + 20)) > 0.9 > float(SpectrumControl(1.0)(matrix()))
    W = torch.zeros(4, 3, requires_grad=True)
    penalty = SpectrumControl(2.0)(W)
    penalty.backward()
    assert float(penalty.detach()) == 2
    assert not W.grad.any()
    assert repr(SpectrumControl(1.0)) == "SpectrumControl(lam=1.0)"


def test_nonfinite_or_single_column_matrix_is_refused():
    with pytest.raises(ValueError, match="Expected finite points, got NaN, infinity"):
        SpectrumControl(1.0)(torch.full((2, 2), float("inf")))
    with pytest.raises(ValueError, match="Expected points of at least 2 dimensions, got 1"):
        SpectrumControl(1.0)(torch.ones(4, 1))


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
    moments = moments_of(torch.from_numpy(x))
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
        "explained_variance": explained_variance(values, 10),
    }.items():
        all_scores = [scores[f"{slug} {k}"].value for k in range(1, 11)]
        assert all_scores == pytest.approx([score.value for score in expected], rel=1e-9)
        assert all(scores[f"{slug} {k}"].se > 0 for k in range(1, 11))


NO_SPREAD = "The points have no energy: all are zero or, once centered, equal; or there are none."
NOT_FINITE = "The moments are not finite: some points are NaN, infinite or too large."


def spectrum_of(*values):
    return torch.tensor(values, dtype=torch.float64)


def every_score(values):
    return [
        effective_rank(values, "sigma"),
        effective_rank(values, "lambda"),
        rankme(values, 9),
        stable_rank(values),
        alpha_req(values, (1, 2)),
        *explained_variance(values, 2),
    ]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("window", [(4, 100), (1, 2), (11, 50), (90, 500)])
def test_alpha_is_exponent_of_power_law_in_every_window(alpha, window):
    ranks = torch.arange(1, 121, dtype=torch.float64)
    assert alpha_req(7 * ranks**-alpha, window).value == pytest.approx(alpha, abs=1e-12)


def test_alpha_ignores_zero_eigenvalues_and_rankme_counts_up_to_n():
    values = torch.arange(1, 121, dtype=torch.float64) ** -1.5
    values[30:] = 0
    assert alpha_req(values).value == pytest.approx(1.5, rel=1e-12)
    values = spectrum_of(1, 0, 0, 0)
    weight = [1 + 1e-7, *[1e-7] * 3]
    for n in (1, 2, 4, 50):
        entropy = -sum(p * math.log(p) for p in weight[: min(n, 4)])
        assert rankme(values, n).value == pytest.approx(math.exp(entropy), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-24, 1e24, 1e300])
def test_ranks_do_not_depend_on_scale(scale):
    values = spectrum_of(4, 3, 1, 0)
    for scaled, plain in zip(every_score(values * scale), every_score(values), strict=True):
        assert scaled.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.parametrize(
    ("values", "reason"),
    [(spectrum_of(0, 0), NO_SPREAD), (spectrum_of(0, 0, 0, 0, 0), NO_SPREAD),
     (spectrum_of(math.nan, 1, 0), NOT_FINITE), (spectrum_of(math.inf, 1, 0), NOT_FINITE)],
)  # fmt: skip
def test_degenerate_spectra_have_no_rank(values, reason):
    assert {score.reason for score in every_score(values)} == {reason}
    empty = spectrum_of()
    assert effective_rank(empty, "sigma").reason == rankme(empty, 0).reason == stable_rank(empty).reason == NO_SPREAD


@pytest.mark.parametrize(("values", "count"), [((3, 2, 1), "are 0"), ((3, 2, 1, 1), "is 1"), ((3, 2, 1, 1, 0), "is 1")])
def test_alpha_needs_two_eigenvalues_in_its_window(values, count):
    assert alpha_req(spectrum_of(*values)).reason == (
        f"alpha-ReQ fits eigenvalues 4 to 100 and needs at least 2 of them above 0; there {count}."
    )


def test_invalid_window_and_directions_are_refused():
    for window in ((0, 5), (5, 5), (6, 5)):
        with pytest.raises(
            ValueError, match=r"Expected a window of ranks 1 <= first < last, got \(\d, 5\): a slope needs"
        ):
            alpha_req(spectrum_of(3, 2, 1), window)
    for K in (0, 4):
        with pytest.raises(ValueError, match=f"Expected 1 <= K <= d = 3, got {K}: there are d directions"):
            explained_variance(spectrum_of(3, 2, 1), K)
