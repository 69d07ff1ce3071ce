"""Regression: one number for a text or a pair of texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.task import Metric
from app.errors import InvalidError
from app.formats.labels import NUMBER
from isotropy.score import Score, there_are
from workers.finetune.columns import Columns
from workers.finetune.rows import Rows
from workers.finetune.tasks.task import Predictions, Task
from workers.finetune.tasks.texts import text_rows

GREATEST = float(np.finfo(np.float32).max)


class Regression(Task):
    """One number a row, learned by its squared error."""

    purpose = "for regression"
    auto_class = AutoModelForSequenceClassification

    def head(self) -> dict[str, Any]:
        """One output."""
        return {"num_labels": 1, "problem_type": "regression"}

    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> Rows:
        """Return the rows tokenised, with their numbers."""
        labels = _numbers(columns[self.config.label_column], self.config.label_column)
        return text_rows(columns, self.config.text_columns, labels, tokenizer, max_length)

    def predictions(self, rows: Rows, order: NDArray[np.int64]) -> Predictions:
        """Begin to gather predicted numbers."""
        return Numbers()


class Numbers:
    """Predicted numbers beside the right ones."""

    def __init__(self) -> None:
        self._right: list[float] = []
        self._given: list[float] = []

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        """Take the outputs of the next batch."""
        self._right += batch["labels"].tolist()
        self._given += outputs["logits"].flatten().tolist()

    def metrics(self) -> dict[str, Score]:
        """Return the correlations by Pearson and by Spearman, each in [-1, 1]."""
        return {
            Metric.PEARSON.value: self._correlation(pearsonr),
            Metric.SPEARMAN.value: self._correlation(spearmanr),
        }

    def _correlation(self, of: Any) -> Score:
        if len(self._right) < 2:
            return Score.undefined(f"A correlation needs two validation rows or more, {there_are(len(self._right))}.")
        for numbers, whose in ((self._right, "All validation rows have"), (self._given, "The model gives every row")):
            if min(numbers) == max(numbers):
                return Score.undefined(f"{whose} the same number, with which nothing can correlate.")
        return Score.within(of(self._right, self._given).statistic, -1, 1)


def _numbers(values: list[Any], column: str) -> list[float]:
    return [_number(value, row, column) for row, value in enumerate(values, start=1)]


def _number(value: object, row: int, column: str) -> float:
    text = "" if value is None else str(value).strip()
    number = float(text) if NUMBER.fullmatch(text) else np.inf
    if abs(number) > GREATEST:
        found = repr(text[:80]) if text else "nothing"
        raise InvalidError(
            f"Row {row} has {found} in column {column!r}, where a finite number was expected, such as 3.5. "
            "Mend the file, leave the row out, or choose another column.",
            "label_column",
        )
    return number
