from math import log10

import pytest

from app.figures.figure import linear_axis, log_axis, log_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.9, 1100, [1, 10, 100, 1000]),
        (1, 30, [1, 3, 10, 30]),
        (3, 12, [5, 10]),
        (2, 9, [2, 5]),
        (1e-12, 1, [1e-12, 1e-10, 1e-2, 1]),
    ],
)
def test_ticks_are_round_and_few(low, high, ticks):
    ticks_drawn = log_ticks(low, high)
    assert set(ticks) <= set(ticks_drawn)
    assert 3 <= len(ticks_drawn) <= 8


def test_ticks_within_a_decade_are_linear():
    assert log_ticks(0.0101, 0.0129) == [0.0105, 0.011, 0.0115, 0.012, 0.0125]
    assert log_ticks(0.01, 0.013) == [0.01, 0.011, 0.012, 0.013]
    axis = log_axis("Eigenvalue", [20000.0, 5e-6, None, 0.0])
    assert axis["range"][0] < log10(5e-6)
    assert axis["range"][1] > log10(20000)
    assert axis["ticktext"] == ["0.0001", "0.01", "1", "100", "10,000"]


@pytest.mark.parametrize("values", [[], [0.0], [3.0], [3.0, 3.0]])
def test_log_axis_of_one_value_or_none_has_width(values):
    low, high = log_axis("x", values)["range"]
    assert low < high


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.1, 0.1 + 1e-16, 0.1 - 1e-16], [0.08, 0.12]),
        ([-2.0, -2.0 - 1e-14], [-2.4, -1.6]),
        ([0.1, 0.1001], None),
        ([3.0, 3.0], [2.4, 3.6]),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_linear_axis_does_not_magnify_rounding_errors(values, ends):
    axis = linear_axis("Penalty", values)
    assert axis["title"] == {"text": "Penalty"}
    assert axis.get("range") == (ends and pytest.approx(ends))


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.5, 0.5, None], (0.3, 0.7)),
        ([0.0], (-0.008, 0.2)),
        ([1.0], (0.8, 1.008)),
        ([], (-0.008, 0.2)),
        ([0.2, 1], None),
    ],
)
def test_range_around_one_value_stays_within_scale(values, ends):
    axis = linear_axis("Accuracy", values, (0, 1))
    assert axis.get("range") == (ends and pytest.approx(ends))
    assert axis["autorangeoptions"] == {"clipmin": pytest.approx(-0.008), "clipmax": pytest.approx(1.008)}
