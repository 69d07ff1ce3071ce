import math

import numpy as np
import pytest
import torch
from scipy import stats
from torchmetrics.functional import pearson_corrcoef, spearman_corrcoef
from transformers.modeling_outputs import SequenceClassifierOutput

from app.db.config import RunConfig
from isoscope.core.errors import InvalidError
from tests.tiny import make_tokenizer
from workers.training.tasks.regression import NumberPredictions, Regression


@pytest.fixture
def task():
    values = {"model": "m", "task": "regression", "metric": "pearson", "text_columns": ["a", "b"], "label_column": "y"}
    return Regression(
        RunConfig.model_validate({**values, "label_names": [], "seed": 0, "regularizer": "none", "lam": 0})
    )


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
        ([2.0], [0.5], "A correlation needs two validation rows or more, there is 1."),
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
