import math

import pytest
import torch

from isotropy.activation import activation_profile
from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.catalog import OUTLIER_RULES
from isotropy.cosine import CHUNK_ROWS, CosineMoments, cosine_histogram, unit_rows
from isotropy.partition import PartitionFunction
from isotropy.spectrum import eigenvalues
from isotropy.uniformity import uniformity
from tests.points import moments_of
from tests.rounding import likely, tolerance

# Centered at (3, 0), with variance 1 x 2/3 along x and 4 x 2/3 along y.
SHIFTED_CROSS = torch.tensor([[4.0, 0.0], [2.0, 0.0], [3.0, 2.0], [3.0, -2.0]])


def spectrum_of(moments, *, centered):
    return eigenvalues(moments.covariance() if centered else second_moment(moments))


def values(scores):
    return [score.value for score in scores]


def test_centered_and_equal_points_have_exact_mean_share():
    moments = moments_of(SHIFTED_CROSS)
    assert len(anisotropy(spectrum_of(moments, centered=True), 1)) == 1
    assert mean_share(moments_of(SHIFTED_CROSS - torch.tensor([3.0, 0.0]))).value == 0
    assert mean_share(moments_of(torch.full((5, 3), 0.1))).value == 1
    moments = moments_of(torch.tensor([[3.0, 4.0]]))
    assert values(anisotropy(spectrum_of(moments, centered=False), 2)) == pytest.approx([1, 0])
    assert values(anisotropy(spectrum_of(moments, centered=True), 2)) == [None, None]
    assert mean_share(moments).value == 1


@pytest.mark.parametrize("x", [torch.zeros(4, 2), torch.zeros(0, 2)])
def test_points_without_energy_are_undefined(x):
    reason = "The points have no energy: all are zero or, once centered, equal; or there are none."
    assert [score.reason for score in anisotropy(spectrum_of(moments_of(x), centered=False), 2)] == [reason, reason]
    assert mean_share(moments_of(x)).reason == reason


@pytest.mark.parametrize("centered", [True, False])
def test_nonfinite_points_are_undefined(centered):
    moments = moments_of(torch.tensor([[math.nan, 1.0], [0.0, 1.0]]))
    reason = "The moments are not finite: some points are NaN, infinite or too large."
    assert anisotropy(spectrum_of(moments, centered=centered), 1)[0].reason == reason
    assert mean_share(moments).reason == reason


@pytest.mark.parametrize("K", [0, 3])
def test_invalid_number_of_directions_is_refused(K):
    with pytest.raises(ValueError, match=f"Expected 1 <= K <= d = 2, got {K}: there are d directions"):
        anisotropy(spectrum_of(moments_of(SHIFTED_CROSS), centered=True), K)


NOT_FINITE = "The activation profile is not finite: some points are NaN, infinite or too large."


def profile_of(mean, std):
    return activation_profile(moments_of(torch.stack([mean - std / 2**0.5, mean + std / 2**0.5])))


def flagged(profile, rule):
    return profile.outliers[rule].nonzero().flatten().tolist()


def test_profile_gives_mean_std_and_outliers_by_dimension():
    mean, std = torch.tensor([1.0, -2.0]).double(), torch.tensor([3.0, 0.0]).double()
    profile = profile_of(mean, std)
    torch.testing.assert_close(profile.mean, mean)
    torch.testing.assert_close(profile.std, std)
    profile = profile_of(torch.zeros(3), torch.ones(3))
    assert list(profile.outliers) == list(OUTLIER_RULES)
    profile = profile_of(torch.zeros(20), torch.zeros(20))
    assert not any(flags.any() for flags in profile.outliers.values())
    variance = torch.tensor([5.0, *[0.0] * 4]).double()
    assert flagged(profile_of(torch.zeros(5).double(), variance.sqrt()), "variance_5x") == [0]
    mean, std = torch.linspace(-0.1, 0.1, 100).double(), torch.linspace(0.9, 1.1, 100).double()
    mean[7], std[7], std[42] = 5, 5, 5
    assert profile_of(mean, std).score.value == 2


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.ones(0, 3), "The activation profile needs at least 2 points; there are 0."),
        (torch.ones(1, 3), "The activation profile needs at least 2 points; there is 1."),
        (torch.tensor([[1.0, math.nan], [0.0, 0.0]]), NOT_FINITE),
        (torch.tensor([[1.0, math.inf], [0.0, 0.0]]), NOT_FINITE),
    ],
)
def test_profile_of_few_or_nonfinite_points_is_undefined(x, reason):
    profile = activation_profile(moments_of(x))
    assert (profile.score.value, profile.score.reason) == (None, reason)
    assert profile.mean.tolist() == profile.std.tolist() == []
    assert profile.outliers == {}


ROUNDING = tolerance(20, torch.float32)  # of three float32 points of two dimensions


def cosine_moments(x):
    return moments_of(x, CosineMoments)


@pytest.mark.parametrize(
    ("x", "expected", "error"),
    [
        # Cosines 0, 1/sqrt(2), 1/sqrt(2), whatever the lengths.
        (torch.tensor([[1.0, 0.0], [0.0, 5.0], [2.0, 2.0]]), math.sqrt(2) / 3, ROUNDING),
        (torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), -1, 1e-6),
        (torch.full((9, 3), 0.1), 1, 1e-6),
        (torch.full((8192, 3), 0.1), 1, 2 * likely(CHUNK_ROWS, torch.float32)),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]) * 1e-30, math.sqrt(0.5), ROUNDING),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]) * 1e30, math.sqrt(0.5), ROUNDING),
        (torch.tensor([[300.0, 0.0], [300.0, 300.0]]).half(), math.sqrt(0.5), ROUNDING),
    ],
    ids=["three points", "opposite", "equal", "many equal", "tiny", "huge", "half"],
)
def test_mean_cosine_matches_hand_computation(x, expected, error):
    assert cosine_moments(x).mean_cosine().value == pytest.approx(expected, rel=error)


def test_zero_rows_are_counted_and_left_out():
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(1)
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    moments.merge(cosine_moments(torch.tensor([[0.0, 0.0], [0.0, 1.0]])))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(0)
    assert unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [pytest.approx([0.6, 0.8]), [0, 0]]


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1, 1e12, 1e30])
def test_rogue_dimension_contributions_do_not_depend_on_scale(scale):
    # Unit rows (0.6, 0.8), (0.6, -0.8): products 0.36 and -0.64.
    for x, error in (
        (torch.tensor([[3.0, 4.0], [6.0, -8.0]]), ROUNDING),
        (torch.tensor([[3.0, 4.0], [6, -8]]).double(), 1e-6),
    ):
        rogue = cosine_moments(x * scale).rogue_dimensions()
        assert rogue.contributions.tolist() == pytest.approx([0.36, -0.64], rel=error)
        assert rogue.score.value == pytest.approx(0.36, rel=error)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_equal_points_and_constant_dimensions_have_contributions(dtype):
    rogue = cosine_moments(torch.tensor([[0.0, 2.0]] * 5, dtype=dtype)).rogue_dimensions()
    assert rogue.contributions.tolist() == pytest.approx([0, 1])
    assert rogue.contributions.dtype == torch.float64


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.zeros(0, 2), "The mean cosine needs at least 2 rows that are not zero; there are 0."),
        (torch.tensor([[0, 0.0], [1.0, 0.0]]), "The mean cosine needs at least 2 rows that are not zero; there is 1."),
        (torch.tensor([[1, math.nan], [1.0, 0.0]]), "The mean cosine is not finite: some points are NaN or infinite."),
        (torch.tensor([[1, math.inf], [1.0, 0.0]]), "The mean cosine is not finite: some points are NaN or infinite."),
    ],
)
def test_rogue_dimensions_are_undefined_if_mean_cosine_is(x, reason):
    rogue, mean = cosine_moments(x).rogue_dimensions(), cosine_moments(x).mean_cosine()
    assert (rogue.score.value, rogue.score.reason) == (mean.value, mean.reason) == (None, reason)
    assert rogue.contributions.tolist() == []


def test_mismatched_dimensions_and_nonfinite_points_are_refused():
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[4, 2\]"):
        CosineMoments(3).update(torch.ones(4, 2))
    with pytest.raises(ValueError, match="Expected moments of 3 dimensions, got 2: merge only clouds of one"):
        CosineMoments(3).merge(CosineMoments(2))
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: leave those rows out"):
        cosine_histogram(torch.tensor([[1.0, math.nan], [1.0, 0.0]]))


def test_histogram_counts_each_pair_once():
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    histogram = cosine_histogram(x, bins=4)
    assert histogram.edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert histogram.counts.tolist() == [2, 0, 3, 1]
    assert [int(cosine_histogram(torch.ones(n, 3)).counts.sum()) for n in (0, 1)] == [0, 0]


def partition(x, eigenvectors=None):
    function = PartitionFunction(torch.eye(x.shape[1]).double() if eigenvectors is None else eigenvectors)
    function.update(x)
    return function


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_overflowing_sums_have_a_logarithm(dtype):
    function = partition(torch.tensor([[300.0, 0.0], [300.0, 0.0]], dtype=dtype))
    assert function.log_z.dtype == torch.float64
    assert function.log_isotropy().value == pytest.approx(-600, rel=1e-6)


def test_underflowing_ratio_states_its_logarithm():
    function = partition(torch.tensor([[1e12, 0.0]]))
    assert function.log_isotropy().value == pytest.approx(-2e12, rel=1e-6)
    assert function.isotropy().value is None
    assert function.isotropy().reason == (
        "The partition ratio is exp(-2e+12), too small for a number: the points are too long for this measure. "
        "Scale them all by one factor."
    )
    assert partition(torch.tensor([[354.0]]).double()).isotropy().value == pytest.approx(math.exp(-708), rel=1e-9)
    assert partition(torch.tensor([[355.0]]).double()).isotropy().value is None


@pytest.mark.parametrize("x", [torch.zeros(5, 3), torch.full((5, 3), 1e-12)])
def test_points_near_zero_are_isotropic(x):
    assert partition(x).isotropy().value == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.ones(0, 3), "needs at least 1 point; there is none."),
        *(
            (torch.tensor([[1.0, bad], [1.0, 0.0]]), "is not finite: some points are NaN, infinite or too large.")
            for bad in (math.nan, math.inf, -math.inf)
        ),
    ],
)
def test_partition_is_undefined_for_empty_or_nonfinite_points(x, reason):
    function = partition(x)
    assert function.log_isotropy().reason == function.isotropy().reason == f"The partition function {reason}"


@pytest.mark.parametrize("eigenvectors", [torch.ones(3).double(), torch.ones(3, 2).double(), torch.eye(3)])
def test_invalid_eigenvectors_are_refused(eigenvectors):
    with pytest.raises(ValueError, match=r"Expected eigenvectors as float64 \[d, d\], got \[3.*\] of torch.*X\^T X"):
        PartitionFunction(eigenvectors)


def test_mismatched_points_are_refused():
    function = partition(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[4, 2\]"):
        function.update(torch.ones(4, 2))


def test_uniformity_matches_hand_computation():
    assert uniformity(torch.tensor([[1.0, 2.0], [-3.0, -6.0]])).value == pytest.approx(-8, rel=1e-5)
    assert uniformity(torch.full((2000, 3), 0.1)).value == pytest.approx(0, abs=1e-12)
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
    assert uniformity(x).value == pytest.approx(math.log((1 + 2 * math.exp(-4)) / 3), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_uniformity_does_not_depend_on_scale_or_precision(dtype, scale):
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    assert uniformity(x.to(dtype)).value == pytest.approx(uniformity(x.to(dtype).float()).value, rel=1e-12)
    assert uniformity(x * scale).value == pytest.approx(uniformity(x).value, rel=1e-6)


@pytest.mark.parametrize(("n", "rows", "expected"), [(0, 0, "are 0"), (3, 1, "is 1"), (3, 0, "are 0")])
def test_uniformity_needs_two_nonzero_rows(n, rows, expected):
    x = torch.zeros(n, 2)
    x[:rows] = 1
    assert uniformity(x).value is None
    assert uniformity(x).reason == f"Uniformity needs at least 2 rows that are not zero; there {expected}."


def test_nonfinite_points_leave_uniformity_undefined():
    for bad in (math.nan, math.inf):
        score = uniformity(torch.tensor([[1.0, bad], [1.0, 0.0]]))
        assert score.reason == "Uniformity is not finite: some points are NaN or infinite."
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[3\] of torch.int64"):
        uniformity(torch.arange(3))
