import math

import pytest

from isoscope.plain import bounded, plain, to_number


@pytest.mark.parametrize(
    ("value", "expected", "reason"),
    [(0.5, 0.5, None), (-0.0, 0.0, None), (1e-120, 0.0, None), (-3e99, -3e99, None),
     (1e101, None, "loss is beyond 1e+100"), (-math.inf, None, "loss is infinite"),
     (math.nan, None, "loss is not a number"), ("much", None, "loss is not a number"),
     (10**400, None, "loss is not a number")],
)  # fmt: skip
def test_unstorable_number_is_none_with_reason(value, expected, reason):
    reasons = []
    assert to_number(value, "loss", reasons) == expected
    assert reasons == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e-120, "1e-120"), (-1e300, "-1e+300"), (2**60, str(2**60)), (2**53, 2**53), (0.0, 0.0), (math.inf, "inf"),
     (True, True)],
)  # fmt: skip
def test_setting_beyond_number_range_becomes_text(value, expected):
    assert plain(value) == expected
    assert bounded(plain(value)) == expected
