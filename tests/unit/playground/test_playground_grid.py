import math
from itertools import product

import pytest

from app.playground.clouds import (
    FILE,
    MEASURES,
    SHAPES,
    SHIFTS,
    SIZES,
    SPREADS,
    Position,
    explain_measures,
    get_measures,
    require_measured_position,
    snap_to_grid,
)
from isoscope.core.errors import InvalidError
from isotropy.catalog import MEASURES as CATALOG
from workers.playground import measure_scores

ALL = [Position(*values) for values in product(SHAPES, SPREADS, SHIFTS, SIZES)]


def test_every_position_has_finite_measures():
    assert len(ALL) == 6 * 6 * 8 * 5
    for position in ALL:
        numbers = get_measures(position)
        assert tuple(numbers) == MEASURES
        assert all(math.isfinite(value) for value in numbers.values()), position
    assert CATALOG.keys() >= set(MEASURES)
    assert FILE.stat().st_size < 500_000


def has_equal_eigenvalues(position):
    """Return whether a line of unit variance lies one unit from the origin, which makes eigenvectors arbitrary."""
    return position.shape == "line" and position.spread == 0 and position.shift == 1


@pytest.mark.parametrize("position", ALL[7::97], ids=str)
def test_stored_measures_match_computed_ones(position):
    stored, measured = get_measures(position), dict(zip(MEASURES, measure_scores(position), strict=True))
    if has_equal_eigenvalues(position):  # arbitrary eigenvectors differ between processors
        del stored["partition"], measured["partition"]
    # The fifth digit can differ between processors, which sum in different orders.
    assert stored == pytest.approx(measured, rel=2e-5, abs=1e-12)


def test_nearest_position_keeps_shape():
    assert snap_to_grid(Position("circle", 0.31, 2.4, 100)) == Position("circle", 0.4, 2.0, 128)
    assert snap_to_grid(Position("line", -3.0, 1e9, -1)) == Position("line", 0.0, 7.0, 8)
    sentence = r"Expected a shape among line, circle, .*, got 'torus': choose one."
    with pytest.raises(InvalidError, match=sentence) as refused:
        snap_to_grid(Position("torus", 0.0, 0.0, 8))
    assert refused.value.field == "shape"
    assert require_measured_position(Position("line", 1.0, 7.0, 2000)) == Position("line", 1.0, 7.0, 2000)


@pytest.mark.parametrize(
    ("position", "field", "sentence"),
    [
        (Position("torus", 0.0, 0.0, 8), "shape",
         "Expected a shape among line, circle, sphere, gaussian, cone, skewed, got 'torus': choose one."),
        (Position("line", 0.25, 0.0, 8), "spread", "Nothing was measured at spread = 0.25: take 0.2 or 0.4."),
        (Position("line", 0.0, 9.5, 8), "shift", "Nothing was measured at shift = 9.5: take 7."),
        (Position("line", 0.0, 0.0, 1), "n", "Nothing was measured at n = 1: take 8."),
        (Position("line", 0.0, 0.0, 10**400), "n", f"Nothing was measured at n = {10**400}: take 2000."),
    ],
)  # fmt: skip
def test_position_off_grid_is_refused_with_nearest_values(position, field, sentence):
    with pytest.raises(InvalidError) as refused:
        require_measured_position(position)
    assert (refused.value.field, refused.value.message) == (field, sentence)


def test_mean_cosine_follows_shift_and_isoscore_follows_n():
    centered, shifted = (get_measures(Position("gaussian", 1.0, shift, 512)) for shift in (0.0, 7.0))
    assert (round(centered["mean_cosine"], 2), round(shifted["mean_cosine"], 2)) == (0, 0.99)
    assert centered["isoscore"] == shifted["isoscore"] > 0.98
    small, large = (get_measures(Position("gaussian", 1.0, 0.0, n)) for n in (8, 2000))
    assert small["isoscore"] < 0.6
    assert large["isoscore"] > 0.99
    assert small["isoscore_unbiased"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (Position("gaussian", 1.0, 7.0, 512), "0.99 because the cloud lies away from the origin; around the origin"),
        (Position("gaussian", 1.0, 7.0, 512), "Its spread has not changed: IsoScore is 0.99 in both places."),
        (Position("gaussian", 1.0, 0.0, 512), "and even, so that the mean cosine is 0.00. Now move the shift."),
        (Position("line", 0.0, 0.0, 512), "IsoScore is 0.00: all variance lies on one line. A cosine near 0 is not"),
        (Position("circle", 0.0, 0.0, 512), "IsoScore is 0.50: some directions hold less variance than others."),
        (Position("skewed", 0.0, 0.0, 512), "0.11 although the mean is the origin: the points crowd on one side"),
        (Position("sphere", 1.0, 0.0, 8), "but 8 points of it are too few to show that: their mean cosine is −0.11."),
        (Position("gaussian", 1.0, 0.0, 8), "low: it is 0.59 of 8 points and 1.00 of 2,000 of the same cloud. The"),
        (Position("gaussian", 1.0, 7.0, 8), "IsoScore is 0.59 in both places. Few rows make IsoScore low"),
    ],
)
def test_explanation_describes_measures(position, words):
    assert words in explain_measures(position)


def test_explanation_omits_harmless_few_rows_and_minus_zero():
    assert "Few rows" not in explain_measures(Position("gaussian", 1.0, 0.0, 512))
    assert "Few rows" not in explain_measures(Position("line", 0.0, 0.0, 8))
    assert not [position for position in ALL if "−0.00" in explain_measures(position)]
