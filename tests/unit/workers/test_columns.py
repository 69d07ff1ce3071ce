import pytest

from app.db.config import RunConfig
from isoscope.core.errors import InvalidError
from workers.training.data import _draw_subset
from workers.training.tasks.classification import Classification

CONFIG = RunConfig(
    model="m", text_columns=["t"], label_column="l", label_names=["no", "yes"], regularizer="none", lam=0, seed=0
)


def test_row_without_text_and_empty_data_are_refused():
    columns = {"t": ["a", None, "c"], "l": ["no", "yes", "no"]}
    with pytest.raises(InvalidError, match="Row 2 has no text in column 't': fill it in or leave the row out"):
        Classification(CONFIG).encode(columns, tokenizer=None, max_length=8)
    with pytest.raises(InvalidError, match=r"file has no rows\. Both need at least one"):
        _draw_subset({"t": []}, None)


def test_subset_draws_same_rows_of_every_column():
    columns = {"t": [f"text {i}" for i in range(100)], "l": list(range(100))}
    subset, numbers = _draw_subset(columns, 10)
    assert subset == _draw_subset(columns, 10).columns
    assert subset["l"] == sorted(subset["l"]) == numbers.tolist()
    assert subset["t"] == [f"text {i}" for i in subset["l"]]
    assert subset["l"] != list(range(10))
    for n_rows in (100, None):
        complete, numbers = _draw_subset(columns, n_rows)
        assert (complete, numbers.tolist()) == (columns, list(range(100)))
