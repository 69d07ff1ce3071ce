from math import hypot

import pytest

from app.core.evidence import block_degrees, t_quantile
from app.db.models import Measurement, MeasurementStatus
from app.embeddings.comparison import MEASURE_AGAIN, subtract_baseline
from isotropy.catalog import MEASURES

PARTS = [0.01, -0.02, 0.005, 0.01, -0.01, 0.02, -0.005, -0.01, 0.01, -0.01]


def half_width(blocks):
    return t_quantile(0.05, block_degrees(blocks))


def measured(measure, value, parts=PARTS, n=400, at=None, **columns):
    resampled = None if parts is None else {"parts": parts, "at": at or {}}
    status = MeasurementStatus.OK
    return Measurement(measure=measure, status=status, value=value, resampled=resampled, n=n, **columns)


def test_independent_samples_add_their_errors():
    mean_difference = subtract_baseline(measured("mean_cosine", 0.5, n=900), measured("mean_cosine", 0.4))
    se = hypot(*PARTS, *PARTS)
    assert (mean_difference.value, mean_difference.se) == pytest.approx((0.1, se))
    assert (mean_difference.low, mean_difference.high) == pytest.approx(
        (0.1 - half_width(10) * se, 0.1 + half_width(10) * se)
    )
    assert (mean_difference.paired, mean_difference.n, mean_difference.reason) == (False, None, "")
    estimate = measured("isoscore_unbiased", 0.5)
    half = half_width(10) * hypot(*PARTS)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert (measured("isoscore", 0.5).low, measured("effective_rank", 5.0).high) == (None, None)


def test_same_rows_are_compared_block_by_block():
    other_parts = [part + 0.001 * (-1) ** i for i, part in enumerate(PARTS)]
    result = subtract_baseline(measured("mean_cosine", 0.5, other_parts), measured("mean_cosine", 0.4), same_rows=True)
    assert result.se == pytest.approx(0.001 * 10**0.5)
    assert (result.paired, result.excludes_zero) == (True, True)
    result = subtract_baseline(measured("mean_cosine", 0.5, PARTS[:5]), measured("mean_cosine", 0.4), same_rows=True)
    assert not result.paired
    assert result.high - result.value == pytest.approx(half_width(5) * result.se)


@pytest.mark.parametrize("slug", ["isoscore", "isoscore_star", "participation_ratio"])
def test_biased_measure_has_no_interval_and_names_corrected_one(slug):
    result = subtract_baseline(measured(slug, 0.5), measured(slug, 0.4))
    assert (result.se, result.low, result.high, result.excludes_zero) == (None,) * 4
    assert MEASURES[MEASURES[slug].corrected].name in result.reason


def test_size_dependent_measures_are_compared_at_equal_n():
    assert subtract_baseline(measured("effective_rank", 5.0), measured("effective_rank", 4.0)).excludes_zero is True
    result = subtract_baseline(measured("effective_rank", 5.0, n=500), measured("effective_rank", 4.0))
    assert result.excludes_zero is None
    assert "500 and 400" in result.reason
    at_many = {"500": {"value": 7.0, "parts": PARTS}, "1000": {"value": 8.0, "parts": PARTS}}
    at_few = {"500": {"value": 6.5, "parts": PARTS}}
    result = subtract_baseline(measured("twonn", 9.0, n=1200, at=at_many), measured("twonn", 6.6, n=520, at=at_few))
    assert (result.value, result.n) == (0.5, 500)
    assert result.excludes_zero is True
    same = subtract_baseline(measured("twonn", 9.0, n=1200, at=at_many), measured("twonn", 8.0, n=1200, at=at_many))
    assert (same.value, same.n) == (1.0, None)


@pytest.mark.parametrize(
    ("slug", "first", "second"),
    [("mean_cosine", 5e-12, -3.33e-11), ("isoscore_unbiased", 0.5, 0.5 + 1e-9), ("spectrum", 1e9, 1e9 + 1)],
)
def test_rounding_error_is_not_a_difference(slug, first, second):
    result = subtract_baseline(measured(slug, first), measured(slug, second))
    assert (result.value, result.excludes_zero) == (0, None)
    assert "rounding" in result.reason


def test_missing_standard_errors_give_a_reason():
    former = measured("mean_cosine", 0.4, None, se=0.01)
    assert subtract_baseline(measured("mean_cosine", 0.5), former).reason == MEASURE_AGAIN
    result = subtract_baseline(measured("mean_cosine", 0.5, []), measured("mean_cosine", 0.4))
    assert "no standard error" in result.reason
    assert "no error estimate" in subtract_baseline(measured("hubness", 0.5), measured("hubness", 0.4)).reason


@pytest.mark.parametrize("slug", ["hubness", "levina_bickel"])
def test_values_of_different_similarities_are_not_compared(slug):
    former = measured(slug, 0.4)  # stored by an earlier version: Euclidean distances only
    result = subtract_baseline(measured(slug, 0.5, detail={"similarity": "cosine"}), former)
    assert (result.value, result.se) == (pytest.approx(0.1), None)
    reason = "Measured by cosine, the baseline by Euclidean distance. Measure both by the same similarity."
    assert result.reason == reason
    same = subtract_baseline(measured(slug, 0.5, detail={"similarity": "euclidean"}), former)
    assert "Measured by" not in same.reason


def test_catalog_states_how_every_measure_is_compared():
    assert {measure.compared for measure in MEASURES.values()} == {"never", "at equal n", "at any n"}
    for measure in MEASURES.values():
        assert not measure.corrected or (measure.error == "none" and MEASURES[measure.corrected].error == "population")
        assert measure.error != "sample" or measure.bias
