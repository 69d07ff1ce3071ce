import pytest

from isoscope.files.columns import ColumnKind, ColumnStats, describe_dataset, label_text, sort_labels


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), ("1.", "1"), ("-1.00", "-1"), ("0", "0"), (0.5, "0.5"),
     ("1.5", "1.5"), ("01", "01"), ("positive ", "positive"), (True, "True"), ("1e3", "1e3"), ("1.0.0", "1.0.0")],
)  # fmt: skip
def test_label_has_same_name_in_all_formats(value, expected):
    assert label_text(value) == expected


def test_labels_sort_numbers_before_texts():
    assert sort_labels({"10", "9", "b", "-1", "a", "0.5"}) == ["-1", "0.5", "9", "10", "a", "b"]


def profile(*values):
    stats = ColumnStats()
    for value in values:
        stats.add(value)
    return stats


SPAN = '{"text": ["the answer", "answer"], "answer_start": [3, 7]}'


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
        ([*range(3000), "n/a"], ColumnKind.TEXT),
        ([SPAN, SPAN], ColumnKind.SPAN),
        ([SPAN, None, SPAN.replace("7", "8")], ColumnKind.SPAN),
        ([SPAN] * 2000 + ["none", "none"], ColumnKind.LABEL),
        ([None, None], ColumnKind.LABEL),
    ],
)
def test_column_kind_follows_values(values, kind):
    assert profile(*values).kind is kind


def test_values_are_counted_and_examples_are_cut():
    stats = profile(*range(5000), None)
    assert (stats.n, stats.n_missing, stats.n_distinct, stats.values) == (5001, 1, 1001, None)
    stats = profile("10", 9.0, 9, "b", None)
    assert stats.values == ["9", "10", "b"]
    assert stats.examples == ["10", "9", "b"]
    assert profile("x" * 500).examples == ["x" * 60]
    assert profile("1", " 2.5 ", "-3e2", ".5", 4, 1e300, None).not_number is None
    assert profile(SPAN, SPAN.replace("the", "this"), None).examples == ["the answer", "this answer"]


def test_at_most_three_unseen_labels_are_listed(tmp_path):
    train, validation = tmp_path / "train.csv", tmp_path / "dev.csv"
    for path, labels in ((train, "aacc"), (validation, "abcdef")):
        path.write_text("text,label\n" + "".join(f"sentence {i},{label}\n" for i, label in enumerate(labels)))
    _, label = describe_dataset(train, train.name, validation, validation.name).columns
    assert (label.unseen, label.n_unseen) == (["b", "d", "e"], 4)


@pytest.mark.parametrize("value", ["n/a", "1e999", "-1e999", "inf", "nan", "0x1", "1,5", float("inf"), 10**400, True])
def test_late_nonnumber_is_recorded(value):
    assert profile(*range(5000)).not_number is None
    assert profile(*range(5000), value, "another").not_number == str(value)[:60]
