import math

import numpy as np
import pytest
import torch
from scipy import stats
from torchmetrics.functional import pearson_corrcoef, spearman_corrcoef
from transformers.modeling_outputs import SequenceClassifierOutput

from isoscope.core.errors import InvalidError
from isotropy.score import Score
from tests.tiny import make_tokenizer
from tests.unit.workers.batches import make_config
from workers.training.data import _draw_subset
from workers.training.inference import TokenizedRows, draw_row_indices
from workers.training.tasks.classification import Classification, ClassPredictions
from workers.training.tasks.regression import NumberPredictions, Regression


@pytest.fixture
def task():
    columns = {"text_columns": ["a", "b"], "label_column": "y", "label_names": []}
    return Regression(make_config(task="regression", metric="pearson", **columns))


def metrics(right, predicted):
    numbers = NumberPredictions(np.arange(len(right)))
    for begin in range(0, len(right), 7):
        outputs = SequenceClassifierOutput(logits=torch.tensor(predicted[begin : begin + 7])[:, None])
        numbers.add(outputs, {"labels": torch.tensor(right[begin : begin + 7])})
    return numbers.metrics()


def test_correlations_match_scipy_and_torchmetrics():
    draw = np.random.default_rng(0)
    right = np.round(draw.uniform(0, 5, 50), 1).astype(np.float32)
    predicted = (right + draw.normal(0, 2, 50)).astype(np.float32)
    computed = {name: score.value for name, score in metrics(right.tolist(), predicted.tolist()).items()}
    doubles = right.astype(float), predicted.astype(float)
    expected = {"pearson": stats.pearsonr(*doubles)[0], "spearman": stats.spearmanr(*doubles)[0]}
    assert computed == pytest.approx(expected, rel=1e-12)
    tensors = torch.tensor(predicted), torch.tensor(right)
    expected = {"pearson": float(pearson_corrcoef(*tensors)), "spearman": float(spearman_corrcoef(*tensors))}
    assert computed == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("right", "predicted", "reason"),
    [
        ([1.0, 2.0, 3.0], [0.5] * 3, "The model gives every row the same number, so correlations are undefined."),
        ([2.0, 2.0], [0.5, 1.5], "All validation rows have the same number, so correlations are undefined."),
        ([2.0], [0.5], "A correlation needs two validation rows or more; there is 1."),
    ],
)
def test_undefined_correlation_states_reason(right, predicted, reason):
    computed = metrics(right, predicted)
    scores = {name: (score.value, score.reason) for name, score in computed.items()}
    assert scores == dict.fromkeys(("pearson", "spearman"), (None, reason))


def test_regression_labels_are_parsed_as_numbers(task):
    values = ["3.8", 2, " 0.5 ", 1e-3, "-4e2", ".25"]
    columns = {"a": ["a film"] * 6, "b": ["the plot"] * 6, "y": values}
    rows = task.encode(columns, make_tokenizer(), 16)
    labels = rows.collate([rows.dataset[row] for row in range(6)])["labels"]
    assert labels.dtype == torch.float32
    assert labels.tolist() == pytest.approx([3.8, 2, 0.5, 1e-3, -400, 0.25])
    encoded = task.encode({**columns, "y": [1, 2, 3, 4, 5, 0]}, make_tokenizer(), 16)
    assert encoded.collate([encoded.dataset[0]])["labels"].dtype == torch.float32


@pytest.mark.parametrize(
    ("value", "sentence"),
    [(None, "nothing"), ("", "nothing"), ("good", "'good'"), ("nan", "'nan'"), (math.inf, "'inf'"), ("1e39", "'1e39'"),
     ("1_0", "'1_0'"), (True, "'True'")],
)  # fmt: skip
def test_nonfinite_label_is_refused_by_row(task, value, sentence):
    columns = {"a": ["a film"] * 2, "b": ["the plot"] * 2, "y": ["1", value]}
    with pytest.raises(InvalidError, match=f"Row 2 has {sentence} in column 'y', where a finite number") as caught:
        task.encode(columns, make_tokenizer(), 16)
    assert caught.value.field == "label_column"


def class_metrics(names, right, predicted):
    classes = ClassPredictions(names, np.arange(len(right)))
    classes.add({"logits": torch.eye(len(names))[predicted]}, {"labels": torch.tensor(right)})
    return classes.metrics()


def test_f1_is_of_second_label_and_needs_it_among_rows():
    assert class_metrics(["no", "yes"], [0, 1, 1], [1, 1, 0])["f1"] == Score(0.5)
    for predicted in ([0, 0], [0, 1]):
        f1 = class_metrics(["no", "yes"], [0, 0], predicted)["f1"]
        assert f1 == Score.undefined("No validation row has the label 'yes', which F1 looks for.")
    scores = class_metrics(["no", "yes"], [1, 1, 1], [1, 0, 1])
    reason = "All validation rows have the label 'yes', so correlations are undefined."
    assert scores["matthews"] == Score.undefined(reason)
    assert (scores["accuracy"].value, scores["f1"].value) == (pytest.approx(2 / 3), pytest.approx(0.8))
    assert class_metrics(["no", "yes"], [0, 1], [1, 1])["matthews"] == Score(0.0)


def test_row_without_text_and_empty_data_are_refused():
    columns = {"t": ["a", None, "c"], "l": ["a", "b", "a"]}
    with pytest.raises(InvalidError, match="Row 2 has no text in column 't': fill it in or leave the row out"):
        Classification(make_config()).encode(columns, tokenizer=None, max_length=8)
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


@pytest.fixture
def rows():
    return TokenizedRows(dataset=None, token_counts=np.array([5, 3, 9, 1, 7]), collate=None)


def test_rows_are_drawn_within_token_budget(rows):
    for tokens in range(1, 30):
        drawn = draw_row_indices(rows.token_counts, tokens, seed=(0,))
        assert len(set(drawn)) == len(drawn)
        assert len(drawn) == 1 or rows.token_counts[drawn].sum() <= tokens
    assert len(draw_row_indices(rows.token_counts, 25, seed=(0,))) == 5
    small, large = (draw_row_indices(rows.token_counts, tokens, seed=(3, 1)) for tokens in (9, 20))
    assert list(large[: len(small)]) == list(small)
    assert len(draw_row_indices(rows.token_counts, 25, seed=(0,), max_rows=2)) == 2


def test_long_rows_come_first_and_draws_follow_seed_and_epoch(rows):
    assert list(rows.longest_first(np.array([0, 1, 2, 3]))) == [2, 0, 1, 3]
    lengths = np.ones(1000, dtype=np.int64)
    draws = [tuple(draw_row_indices(lengths, 20, seed)) for seed in ((0, 0), (0, 1), (1, 0))]
    assert len(set(draws)) == 3
