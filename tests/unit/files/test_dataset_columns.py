import pytest

from isoscope.files.columns import label_text, sort_labels


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), ("1.", "1"), ("-1.00", "-1"), ("0", "0"), (0.5, "0.5"),
     ("1.5", "1.5"), ("01", "01"), ("positive ", "positive"), (True, "True"), ("1e3", "1e3"), ("1.0.0", "1.0.0")],
)  # fmt: skip
def test_label_has_same_name_in_all_formats(value, expected):
    assert label_text(value) == expected


def test_labels_sort_numbers_before_texts():
    assert sort_labels({"10", "9", "b", "-1", "a", "0.5"}) == ["-1", "0.5", "9", "10", "a", "b"]
