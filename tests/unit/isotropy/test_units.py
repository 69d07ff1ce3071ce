import math

import numpy as np
import pytest

from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.projection import projection
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.sample_size import sample_size
from isotropy.score import OUT_OF_RANGE
from isotropy.spectrum import CHUNK_ROWS
from workers.embeddings.zeta_curves import compute_zeta_lines, covariance_in_units_of

UNIT_POWERS = {"spectrum": 2, "barcode": 1, "activation_profile": 1}  # measures with units, and the power of the unit
PARTITIONS = {"partition", "partition_log"}
POWERS = (-1010, -600, -200, 200, 600, 1010)


def points(n=400, d=6):
    random = np.random.default_rng(0)
    x = random.standard_t(5, (n, d)) * np.arange(1, d + 1) ** -0.7 + 0.3
    x[7] = x[3]
    x[11] *= 40
    return x


LABELS = [str(i % 3) for i in range(400)]


@pytest.fixture(scope="module")
def ordinary():
    return measure(read_cloud(Rows(points(), LABELS)))


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
def test_measures_are_exact_at_every_scale(ordinary, power):
    results = measure(read_cloud(Rows(np.ldexp(points(), power), LABELS)))
    for slug, finding in results.items():
        if slug not in UNIT_POWERS.keys() | PARTITIONS:
            assert (slug, finding) == (slug, ordinary[slug])
    for slug, times in UNIT_POWERS.items():
        result, expected = results[slug].score, ordinary[slug].score
        if slug == "activation_profile":
            assert result == expected
            for column in ("mean", "std"):
                assert results[slug].detail[column] == np.ldexp(ordinary[slug].detail[column], power).tolist()
        elif abs(power * times) > 1010:
            assert (result.value, result.reason, results[slug].detail) == (None, OUT_OF_RANGE, None)
        else:
            assert result.value == math.ldexp(expected.value, power * times)
            assert result.se == (None if expected.se is None else math.ldexp(expected.se, power * times))
    if abs(power) < 500:
        eigenvalues = np.ldexp(ordinary["spectrum"].detail["eigenvalues"], 2 * power)
        assert results["spectrum"].detail["eigenvalues"] == eigenvalues.tolist()
    assert results["barcode"].detail["lengths"] == np.ldexp(ordinary["barcode"].detail["lengths"], power).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("power", [-600, 600])
def test_figures_and_findings_do_not_depend_on_scale(power):
    x = points()
    plain, extreme = (read_cloud(Rows(result)) for result in (x, np.ldexp(x, power)))
    assert sample_size(extreme) == sample_size(plain)
    documents, expected = ([result.to_dict() for result in findings_of(cloud)] for cloud in (extreme, plain))
    assert documents == expected
    lines, expected = (compute_zeta_lines(cloud, [lambda S: S.diagonal().diag()]) for cloud in (extreme, plain))
    assert lines == expected
    drawn, expected = projection(extreme), projection(plain)
    assert (drawn["rows"], drawn["shares"]) == (expected["rows"], expected["shares"])
    np.testing.assert_allclose(drawn["x"], np.ldexp(expected["x"], power), rtol=2e-4)


@pytest.mark.parametrize(("power", "source"), [(600, 600), (-600, -600), (600, 599), (140, 160), (-160, -140)])
def test_curve_towards_other_points_keeps_relative_scale(power, source):
    def lines(power, source):
        cloud, baseline = read_cloud(Rows(np.ldexp(points(), power))), read_cloud(Rows(np.ldexp(points() ** 3, source)))
        S = covariance_in_units_of(cloud, baseline)
        (results,) = compute_zeta_lines(cloud, [lambda _: S])
        return np.array([result["values"] for result in results])

    np.testing.assert_allclose(lines(power, source), lines(0, source - power), rtol=1e-13)


@pytest.mark.parametrize(("power", "end"), [(-1000, -1), (1000, 0)])
def test_far_larger_covariance_dominates_curve(power, end):
    cloud, baseline = read_cloud(Rows(np.ldexp(points(), power))), read_cloud(Rows(points()[::2] ** 3))
    S = covariance_in_units_of(cloud, baseline)
    values = compute_zeta_lines(cloud, [lambda _: S])[0][-1]["values"]
    assert values[1:-1] == pytest.approx([values[end]] * 99, rel=1e-12)
    assert values[0] != pytest.approx(values[-1], rel=1e-3)


def test_overflowing_coordinates_have_a_reason():
    x = np.array([[1.7e308, 1.7e308], [-1.7e308, -1.7e308], [1.6e308, 1.7e308]])
    data = projection(read_cloud(Rows(x)))
    assert (data["x"], data["reason"]) == ([], OUT_OF_RANGE)
    profile = measure(read_cloud(Rows(np.repeat(x[:2], 2, axis=0))), ["activation_profile"])["activation_profile"]
    assert (profile.score.reason, profile.detail) == (OUT_OF_RANGE, None)
    small, large = (measure(read_cloud(Rows(scale * points())), PARTITIONS) for scale in (1e-200, 1e200))
    assert (small["partition"].value, small["partition_log"].value) == (1, 0)
    assert large["partition"].score.reason.startswith("The partition ratio is exp(-")
    assert large["partition_log"].value < -1e200


@pytest.mark.parametrize("first", [0.0, 1e-200, 1e-320])
@pytest.mark.parametrize("power", [0, 600])
def test_far_larger_later_rows_count_fully(first, power):
    head, tail = first * np.ones((CHUNK_ROWS + 5, 3)), points(2000, 3)
    zeros = read_cloud(Rows(np.concatenate([0 * head, tail])), seed=3)
    results = read_cloud(Rows(np.concatenate([head, np.ldexp(tail, power)])), seed=3)
    for slug in ("isoscore", "participation_ratio", "mean_share"):
        assert results.moment_scores[slug].value == pytest.approx(zeros.moment_scores[slug].value, rel=1e-12)
    sample, expected = (results.sample * results.unit).numpy(), np.ldexp(zeros.sample.numpy(), power)
    np.testing.assert_allclose(sample, expected, rtol=1e-12, atol=1e-199)
    fourth = math.log2(results.moments.fourth_sum) + 4 * math.log2(results.unit)
    assert fourth == pytest.approx(math.log2(zeros.moments.fourth_sum) + 4 * power)


@pytest.mark.parametrize("power", [-100, 100])
def test_float32_is_measured_without_scaling(power):
    x = points().astype(np.float32)
    plain, extreme = (read_cloud(Rows(result)) for result in (x, np.ldexp(x, power)))
    assert extreme.unit == 1
    for slug in ("isoscore_unbiased", "effective_rank", "mean_cosine", "twonn"):
        assert measure(extreme, [slug])[slug] == measure(plain, [slug])[slug]
    assert compute_zeta_lines(extreme, [lambda S: S]) == compute_zeta_lines(plain, [lambda S: S])
