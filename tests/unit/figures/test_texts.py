from app.results.captions import describe_texts
from tests.unit.figures.rows import run

SPAN = {"task": "span", "metric": "word_f1", "label_names": []}


def test_rows_are_texts_but_for_spans_are_read_in_windows():
    assert (describe_texts([run()]), describe_texts([run()], 1), describe_texts([run()], 1200)) == (
        "validation rows", "1 validation row", "1,200 validation rows",
    )  # fmt: skip
    assert (describe_texts([run(**SPAN)]), describe_texts([run(**SPAN)], 1)) == (
        "windows of validation rows",
        "1 window of validation rows",
    )
