import pytest

from app.formats.columns import ColumnKind
from app.formats.profile import Profile


def profile(*values):
    found = Profile()
    for value in values:
        found.add(value)
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["0", "1", "1", "0"], ColumnKind.LABEL),
        ([0, 1, 1, 0], ColumnKind.LABEL),
        (["yes", "no", "no", "yes"], ColumnKind.LABEL),
        ([0.5, 0.5, 1.5, 1.5], ColumnKind.NUMBER),
        ([1, 2, 3, 4], ColumnKind.NUMBER),
        (["1", "2", "three", "4"], ColumnKind.TEXT),
        (["every sentence", "is different", "here"], ColumnKind.TEXT),
        ([f"{i % 300}" for i in range(3000)], ColumnKind.NUMBER),
    ],
)
def test_a_column_looks_like_what_it_holds(values, kind):
    assert profile(*values).kind is kind


def test_values_are_counted_up_to_more_than_a_thousand():
    found = profile(*range(5000), None)
    assert (found.n, found.n_missing, found.n_distinct, found.values) == (5001, 1, 1001, None)


def test_values_are_labels_in_order():
    found = profile("10", 9.0, 9, "b", None)
    assert found.values == ["9", "10", "b"]
    assert found.examples == ["10", "9", "b"]


def test_what_another_file_lacks_is_told_three_at_a_time():
    assert profile(*"abcdef").lacks(["a", "c"]) == ["b", "d", "e"]


def test_examples_are_cut_short():
    assert profile("x" * 500).examples == ["x" * 60]
