from isotropy.score import Score, count_clause


def test_score_is_clamped_float_or_undefined_with_reason():
    assert Score.within(0.5, 0, 1) == Score(0.5, None)
    # Rounding moved it out, or the end of its range is an int.
    assert [Score.within(value, 0, 1).value for value in (1 + 1e-16, -1e-16)] == [1, 0]
    assert isinstance(Score.within(1.5, 0, 1).value, float)
    reason = "The value is not a number: its inputs are not finite, or too large."
    assert Score.within(float("nan"), 0, 1) == Score.undefined(reason) == Score(None, reason)
    assert [count_clause(n) for n in (0, 1, 2)] == ["there are 0", "there is 1", "there are 2"]
