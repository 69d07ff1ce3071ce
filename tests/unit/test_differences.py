from math import hypot

import pytest

from app.core.evidence import block_degrees, t_quantile
from app.db.models import Measurement, MeasurementStatus
from app.embeddings.comparison import MEASURE_AGAIN, difference
from isotropy.catalog import MEASURES

PARTS = [0.01, -0.02, 0.005, 0.01, -0.01, 0.02, -0.005, -0.01, 0.01, -0.01]


def half_width(blocks):
    return t_quantile(0.05, block_degrees(blocks))


def found(measure, value, parts=PARTS, n=400, at=None, **given):
    resampled = None if parts is None else {"parts": parts, "at": at or {}}
    status = MeasurementStatus.OK
    return Measurement(measure=measure, status=status, value=value, resampled=resampled, n=n, **given)


def test_independent_samples_add_their_errors_and_estimates_have_an_interval_of_their_own():
    mean_difference = difference(found("mean_cosine", 0.5, n=900), found("mean_cosine", 0.4))
    se = hypot(*PARTS, *PARTS)
    assert (mean_difference.value, mean_difference.se) == pytest.approx((0.1, se))
    assert (mean_difference.low, mean_difference.high) == pytest.approx(
        (0.1 - half_width(10) * se, 0.1 + half_width(10) * se)
    )
    assert (mean_difference.paired, mean_difference.n, mean_difference.reason) == (False, None, "")
    estimate = found("isoscore_unbiased", 0.5)
    half = half_width(10) * hypot(*PARTS)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert (found("isoscore", 0.5).low, found("effective_rank", 5.0).high) == (None, None)


def test_of_the_same_rows_blocks_are_compared_pair_by_pair_if_as_many():
    other = [part + 0.001 * (-1) ** place for place, part in enumerate(PARTS)]
    told = difference(found("mean_cosine", 0.5, other), found("mean_cosine", 0.4), same_rows=True)
    assert told.se == pytest.approx(0.001 * 10**0.5)
    assert (told.paired, told.excludes_zero) == (True, True)
    told = difference(found("mean_cosine", 0.5, PARTS[:5]), found("mean_cosine", 0.4), same_rows=True)
    assert not told.paired
    assert told.high - told.value == pytest.approx(half_width(5) * told.se)


@pytest.mark.parametrize("slug", ["isoscore", "isoscore_star", "participation_ratio"])
def test_what_is_biased_is_compared_by_its_corrected_form_only(slug):
    told = difference(found(slug, 0.5), found(slug, 0.4))
    assert (told.se, told.low, told.high, told.excludes_zero) == (None,) * 4
    assert MEASURES[MEASURES[slug].corrected].name in told.reason


def test_what_depends_on_n_is_compared_between_equal_numbers_of_rows():
    assert difference(found("effective_rank", 5.0), found("effective_rank", 4.0)).excludes_zero is True
    told = difference(found("effective_rank", 5.0, n=500), found("effective_rank", 4.0))
    assert told.excludes_zero is None
    assert "500 and 400" in told.reason
    many = {"500": {"value": 7.0, "parts": PARTS}, "1000": {"value": 8.0, "parts": PARTS}}
    few = {"500": {"value": 6.5, "parts": PARTS}}
    told = difference(found("twonn", 9.0, n=1200, at=many), found("twonn", 6.6, n=520, at=few))
    assert (told.value, told.n) == (0.5, 500)
    assert told.excludes_zero is True
    same = difference(found("twonn", 9.0, n=1200, at=many), found("twonn", 8.0, n=1200, at=many))
    assert (same.value, same.n) == (1.0, None)


@pytest.mark.parametrize(
    ("slug", "one", "other"),
    [("mean_cosine", 5e-12, -3.33e-11), ("isoscore_unbiased", 0.5, 0.5 + 1e-9), ("spectrum", 1e9, 1e9 + 1)],
)
def test_rounding_is_no_difference(slug, one, other):
    told = difference(found(slug, one), found(slug, other))
    assert (told.value, told.excludes_zero) == (0, None)
    assert "rounding" in told.reason


def test_earlier_versions_have_to_be_measured_again_and_missing_errors_are_told():
    former = found("mean_cosine", 0.4, None, se=0.01)
    assert difference(found("mean_cosine", 0.5), former).reason == MEASURE_AGAIN
    assert "no standard error" in difference(found("mean_cosine", 0.5, []), found("mean_cosine", 0.4)).reason
    assert "no error estimate" in difference(found("hubness", 0.5), found("hubness", 0.4)).reason


@pytest.mark.parametrize("slug", ["hubness", "levina_bickel"])
def test_values_by_unlike_similarities_are_not_compared(slug):
    former = found(slug, 0.4)  # of an earlier version, which had Euclidean distances alone
    told = difference(found(slug, 0.5, detail={"similarity": "cosine"}), former)
    assert (told.value, told.se) == (pytest.approx(0.1), None)
    reason = "Measured by cosine, the baseline by Euclidean distance. Measure both by the same similarity."
    assert told.reason == reason
    same = difference(found(slug, 0.5, detail={"similarity": "euclidean"}), former)
    assert "Measured by" not in same.reason


def test_the_catalogue_says_of_every_measure_how_it_is_compared():
    assert {one.compared for one in MEASURES.values()} == {"never", "at equal n", "at any n"}
    for one in MEASURES.values():
        assert not one.corrected or (one.error == "none" and MEASURES[one.corrected].error == "population")
        assert one.error != "sample" or one.bias
