"""Regression: one number for a text or a pair of texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.learning import mean_predictor
from app.db.run_results import Trivial
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric
from isoscope.files.columns import NUMBER
from isotropy.score import Score, there_are
from workers.training.data import Columns
from workers.training.inference import TokenizedRows
from workers.training.tasks.task import Collector, PredictionPairs, Task, tokenize_texts

MAX_FLOAT32 = float(np.finfo(np.float32).max)


class Regression(Task):
    """Predicts one number for each row, trained on the squared error."""

    purpose = "for regression"
    auto_class = AutoModelForSequenceClassification

    def head_options(self) -> dict[str, Any]:
        return {"num_labels": 1, "problem_type": "regression"}

    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> TokenizedRows:
        column, numbers = self.config.label_column, []
        for row, value in enumerate(columns[column], start=1):
            text = "" if value is None else str(value).strip()
            number = float(text) if NUMBER.fullmatch(text) else np.inf
            numbers.append(number)
            if abs(number) > MAX_FLOAT32:
                cell = repr(text[:80]) if text else "nothing"
                raise InvalidError(
                    f"Row {row} has {cell} in column {column!r}, where a finite number was expected, such as "
                    "3.5. Fix the file, leave the row out, or choose another column.",
                    "label_column",
                )
        return tokenize_texts(columns, self.config.text_columns, numbers, tokenizer, max_length)

    def make_collector(self, rows: TokenizedRows, order: NDArray[np.int64]) -> Collector:
        return NumberPredictions(order)

    def score_trivial_predictor(self, train: TokenizedRows, validation: TokenizedRows) -> Trivial:
        return mean_predictor(np.array(train.dataset["labels"][:], dtype=np.float64), "training")

    def untrained_loss(self, train: TokenizedRows) -> float:
        labels = np.array(train.dataset["labels"][:], dtype=np.float64)
        return float(np.mean(np.square(labels)))  # of a model that predicts 0 for every row


class NumberPredictions(PredictionPairs):
    """Predicted and reference numbers."""

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        self.references += batch["labels"].tolist()
        self.predicted += outputs["logits"].flatten().tolist()

    def metrics(self) -> dict[str, Score]:
        return {Metric.PEARSON.value: self._correlation(pearsonr), Metric.SPEARMAN.value: self._correlation(spearmanr)}

    def _correlation(self, correlate: Any) -> Score:
        if len(self.references) < 2:
            return Score.undefined(
                f"A correlation needs two validation rows or more; {there_are(len(self.references))}."
            )
        for numbers, subject in (
            (self.references, "All validation rows have"),
            (self.predicted, "The model gives every row"),
        ):
            if min(numbers) == max(numbers):
                return Score.undefined(f"{subject} the same number, so correlations are undefined.")
        return Score.clipped(correlate(self.references, self.predicted).statistic, -1, 1)
