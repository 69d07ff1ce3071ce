import pytest

from app.errors import InvalidError
from app.formats.columns import Column, ColumnKind
from app.formats.labels import check_text_columns, label_text, label_values, sort_labels


def column(name="label", values=("0", "1"), **changes):
    described = {
        "name": name,
        "kind": ColumnKind.LABEL,
        "n_distinct": len(values or ()),
        "examples": [],
        "values": None if values is None else list(values),
        "unseen": [],
        "n_missing_train": 0,
        "n_missing_validation": 0,
    }
    return Column(**(described | changes))


TEXT = column("sentence", None, n_distinct=1001)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "1"), (1.0, "1"), ("1", "1"), (" 1.0 ", "1"), ("1.", "1"), ("-1.00", "-1"), ("0", "0"), (0.5, "0.5"),
     ("1.5", "1.5"), ("01", "01"), ("positive ", "positive"), (True, "True"), ("1e3", "1e3"), ("1.0.0", "1.0.0")],
)  # fmt: skip
def test_one_label_has_one_name_in_all_formats(value, expected):
    assert label_text(value) == expected


def test_labels_are_sorted_numbers_by_size_then_texts():
    assert sort_labels({"10", "9", "b", "-1", "a", "0.5"}) == ["-1", "0.5", "9", "10", "a", "b"]


def test_the_labels_of_a_column_are_its_values():
    assert label_values([TEXT, column()], "label") == ["0", "1"]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ([TEXT], r"There is no column 'label' in both files: choose one of 'sentence'\."),
        (
            [column(values=None, n_distinct=1001)],
            r"has more than 1,000 different values, labels at most 200: choose the",
        ),
        ([column(values=None, n_distinct=201)], r"has 201 different values, labels at most 200"),
        ([column(values=["0", "0.5", "1"])], r"holds fractions such as 0\.5, so it is a score and not a class"),
        ([column(values=["1"])], r"holds '1' in every row of the train file: choose a column with at least two"),
        ([column(unseen=["2", "3"])], r"of the validation file holds '2', '3', which the train file never does"),
        ([column(n_missing_train=1)], r"is empty in 1 row of the train file: fill the cells, or leave those rows out"),
        ([column(n_missing_validation=1200)], r"is empty in 1,200 rows of the validation file"),
        ([column(values=[], n_missing_train=9)], r"is empty in 9 rows of the train file"),
    ],
)
def test_a_column_that_cannot_be_the_label_is_refused_at_its_field(columns, sentence):
    with pytest.raises(InvalidError, match=sentence) as raised:
        label_values(columns, "label")
    assert raised.value.field == "label_column"


def test_text_columns_have_to_be_there_complete_and_different():
    check_text_columns([TEXT, column()], ["sentence", "label"])
    for columns, names, sentence in [
        ([TEXT], ["text"], r"There is no column 'text' in both files: choose one of 'sentence'"),
        ([column("text", n_missing_train=2)], ["text"], r"The column 'text' is empty in 2 rows of the train file"),
        ([TEXT], ["sentence", "sentence"], r"The same text column was chosen twice"),
    ]:
        with pytest.raises(InvalidError, match=sentence) as raised:
            check_text_columns(columns, names)
        assert raised.value.field == "text_columns"
