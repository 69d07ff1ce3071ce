from datetime import timedelta

import pytest

from app.db.types import utcnow
from isoscope.core import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.847123, "0.847"), (-12.34, "−12.3"), (0.9999, "1.00"), (999.9, "1,000"),
     (48213.4, "48,213"), (0.000123456, "0.000123"), (0.0000123456, "1.23 × 10⁻⁵"), (9.999e-5, "0.000100"),
     (-5e9, "−5.00 × 10⁹")],
)  # fmt: skip
def test_number_has_three_significant_digits(value, text):
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [(-0.005, 0.0661, "−0.005 ± 0.066"), (0.81234, 0.0123, "0.812 ± 0.012"), (-0.0004, 0.066, "0.000 ± 0.066"),
     (1234.5, 22.6, "1,234 ± 23"), (0.5, 1e-6, "0.500 ± 1.0 × 10⁻⁶"), (0.5, 0, "0.500 ± 0"), (0.5, None, "0.500")],
)  # fmt: skip
def test_with_error_rounds_value_and_error_alike(value, error, text):
    assert formatting.with_error(value, error) == text


@pytest.mark.parametrize(
    ("write", "values"),
    [
        (formatting.two_decimals, {0.4: "0.40", -0.125: "−0.12", -0.0: "0.00", -0.001: "0.00", 1: "1.00"}),
        (formatting.short, {None: "–", -1.0: "−1", 0.2: "0.2", 3e-5: "3e−5", 0.5: "0.5"}),
        (formatting.tick, {0: "0", -1.0: "−1", 30_000.0: "30,000", 9.90338: "9.90"}),
        (formatting.size, {999: "999 bytes", 9_612_000: "9.61 MB", 2**31: "2.15 GB"}),
        (formatting.limit, {2**31: "2 GiB", 200 * 2**20: "200 MiB", 2**10: "1 KiB", 5_000: "5.00 kB"}),
    ],
    ids=["cosine", "setting", "tick", "decimal size", "binary limit"],
)
def test_numbers_are_formatted_by_kind(write, values):
    assert {value: write(value) for value in values} == values


def test_counts_have_thousands_separators_and_long_texts_are_cut():
    assert formatting.count(250_000) == "250,000"
    assert formatting.count(None) == "–"
    assert formatting.plural(1, "run") == "1 run"
    assert formatting.plural(2, "index", "indices") == "2 indices"
    assert formatting.quote("x" * 80) == repr("x" * 80)
    assert formatting.quote("x" * 81) == repr("x" * 80) + "..."
    assert formatting.listed(["a", "b"]) == "'a', 'b'"
    assert formatting.listed([str(i) for i in range(1012)]).endswith("'9' and 1,002 more")
    assert formatting.storable("é\ud800\0") == "é?\ufffd"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (3.21, "3.2 s"), (9.96, "10.0 s"), (59.7, "1 min"), (125, "2 min 5 s"), (3600, "1 h"),
     (90061, "1 d 1 h")],
)  # fmt: skip
def test_duration_has_two_largest_units(seconds, text):
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (90_000, "1 day ago")],
)
def test_ago_has_one_unit(seconds, text):
    now = utcnow()
    assert formatting.ago(now - timedelta(seconds=seconds), now) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0"), (0.0004, "less than 0.1"), (0.0005, "0.1"), (0.0994, "9.9"), (0.0996, "10"), (0.614, "61"),
     (0.9895, "99"), (0.9934, "99.3"), (0.99996, "more than 99.9"), (1, "100"), (1 + 1e-12, "100")],
)  # fmt: skip
def test_percent_never_rounds_to_0_or_100(share, text):
    assert formatting.percent(share) == f"{text}%"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [(0.0908, 0.03, "0.091"), (0.625, 0.0031, "0.625"), (188.2, 0.91, "188"), (-0.5, 0.21, "−0.50"), (2.0, 12, "2"),
     (0.5, None, "0.500"), (0.5, 0, "0.500"), (1e-9, 1e-10, "1.00 × 10⁻⁹")],
)  # fmt: skip
def test_significant_has_digits_that_error_allows(value, error, text):
    assert formatting.significant(value, error) == text
