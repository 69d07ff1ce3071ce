"""Classification of a text or a pair of texts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.task import Metric
from app.errors import InvalidError
from app.formats.labels import label_text
from isotropy.score import Score
from workers.finetune.rows import Rows
from workers.finetune.tasks.task import Columns, Predictions, Task
from workers.finetune.tasks.texts import text_rows


class Classification(Task):
    """One class a row, of those that the configuration names."""

    purpose = "for classification"
    auto_class = AutoModelForSequenceClassification

    def head(self) -> dict[str, Any]:
        """One output a class."""
        names = self.config.label_names
        return {
            "num_labels": len(names),
            "id2label": dict(enumerate(names)),
            "label2id": {name: number for number, name in enumerate(names)},
            # Never guessed from the labels: int8 ones would make it a multi-label task.
            "problem_type": "single_label_classification",
        }

    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> Rows:
        """Return the rows tokenised, their labels as positions in ``config.label_names``."""
        labels = _labels(columns[self.config.label_column], self.config)
        return text_rows(columns, self.config.text_columns, labels, tokenizer, max_length)

    def predictions(self, rows: Rows, order: NDArray[np.int64]) -> Predictions:
        """Begin to gather predicted classes."""
        return Classes(self._average)

    def details(self, train: Rows, validation: Rows) -> dict[str, Any]:
        """Return how F1 is averaged over classes."""
        return {"f1_average": self._average}

    @property
    def _average(self) -> str:
        """Of two labels the second is the one looked for; of more, each counts the same."""
        return "binary" if len(self.config.label_names) == 2 else "macro"


class Classes:
    """Predicted classes beside the right ones."""

    def __init__(self, average: str) -> None:
        self._average = average
        self._right: list[int] = []
        self._given: list[int] = []

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        """Take the outputs of the next batch."""
        self._right += batch["labels"].tolist()
        self._given += outputs["logits"].argmax(dim=-1).tolist()

    def metrics(self) -> dict[str, Score]:
        """Return accuracy, F1 and Matthews correlation."""
        f1 = f1_score(self._right, self._given, average=self._average, zero_division=0)
        return {
            Metric.ACCURACY.value: Score(float(accuracy_score(self._right, self._given))),
            Metric.F1.value: Score(float(f1)),
            Metric.MATTHEWS.value: Score(float(matthews_corrcoef(self._right, self._given))),
        }


def _labels(values: list[Any], config: RunConfig) -> list[int]:
    number = {name: position for position, name in enumerate(config.label_names)}
    labels = ["" if value is None else label_text(value) for value in values]
    unknown = next((label for label in labels if label not in number), None)
    if unknown is not None:
        raise InvalidError(
            f"Row {labels.index(unknown) + 1} has the label {unknown!r} in column {config.label_column!r}; "
            f"expected one of {', '.join(config.label_names[:20])}. Mend the file or name the label.",
            "label_column",
        )
    return [number[label] for label in labels]
