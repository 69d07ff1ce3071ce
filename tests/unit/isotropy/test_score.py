import pytest

from isotropy.score import Score, there_are


def test_a_score_within_its_range_is_kept():
    assert Score.within(0.5, 0, 1) == Score(0.5, None)


def test_a_score_that_rounding_moved_out_of_its_range_is_moved_back():
    assert Score.within(1 + 1e-16, 0, 1).value == 1
    assert Score.within(-1e-16, 0, 1).value == 0


def test_a_score_at_an_end_of_its_range_is_a_float_though_the_end_is_an_int():
    assert isinstance(Score.within(1.5, 0, 1).value, float)


def test_what_is_not_a_number_is_in_no_range():
    assert Score.within(float("nan"), 0, 1) == Score.undefined(
        "It comes out as not a number: what it is made of is not finite, or too large."
    )


def test_an_undefined_score_has_a_reason_and_no_value():
    assert Score.undefined("All points are equal.") == Score(None, "All points are equal.")


@pytest.mark.parametrize(("n", "words"), [(0, "there are 0"), (1, "there is 1"), (2, "there are 2")])
def test_one_is_told_in_the_singular(n, words):
    assert there_are(n) == words
