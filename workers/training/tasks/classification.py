"""Classification of a text or a pair of texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.learning import best_constant_class
from app.db.run_results import Trivial
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric
from isoscope.files.columns import label_text
from isotropy.score import Score
from workers.training.data import Columns
from workers.training.inference import TokenizedRows
from workers.training.tasks.task import Collector, PredictionPairs, Task, tokenize_texts


class Classification(Task):
    """Predicts one of the configuration's classes for each row."""

    purpose = "for classification"
    auto_class = AutoModelForSequenceClassification

    def head_options(self) -> dict[str, Any]:
        names = self.config.label_names
        return {
            "num_labels": len(names),
            "id2label": dict(enumerate(names)),
            "label2id": {name: number for number, name in enumerate(names)},
            # Set explicitly: transformers would infer a multi-label task from int8 labels.
            "problem_type": "single_label_classification",
        }

    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> TokenizedRows:
        config = self.config
        class_ids = {name: number for number, name in enumerate(config.label_names)}
        labels = ["" if value is None else label_text(value) for value in columns[config.label_column]]
        unknown = next((label for label in labels if label not in class_ids), None)
        if unknown is not None:
            raise InvalidError(
                f"Row {labels.index(unknown) + 1} has the label {unknown!r} in column {config.label_column!r}; "
                f"expected one of {', '.join(config.label_names[:20])}. Fix the file or name the label.",
                "label_column",
            )
        row_classes = [class_ids[label] for label in labels]
        return tokenize_texts(columns, config.text_columns, row_classes, tokenizer, max_length)

    def make_collector(self, rows: TokenizedRows, order: NDArray[np.int64]) -> Collector:
        return ClassPredictions(self.config.label_names, order)

    def score_trivial_predictor(self, train: TokenizedRows, validation: TokenizedRows) -> Trivial:
        training_labels, validation_labels = (np.array(rows.dataset["labels"][:]) for rows in (train, validation))
        return best_constant_class(
            training_labels, validation_labels, self.config.label_names, self.config.metric, "training"
        )

    def untrained_loss(self, train: TokenizedRows) -> float:
        return math.log(len(self.config.label_names))

    def extra_results(self, train: TokenizedRows, validation: TokenizedRows) -> dict[str, Any]:
        positive = positive_label(self.config.label_names)
        return {"f1_average": "macro"} if positive is None else {"f1_average": "binary", "f1_positive": positive}


def positive_label(names: Sequence[str]) -> str | None:
    """Return the second of two labels, which F1 is computed for; None unless there are two."""
    return names[1] if len(names) == 2 else None


class ClassPredictions(PredictionPairs):
    """Predicted and reference classes."""

    def __init__(self, names: Sequence[str], order: NDArray[np.int64]) -> None:
        super().__init__(order)
        self._names = names

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        self.references += batch["labels"].tolist()
        self.predicted += outputs["logits"].argmax(dim=-1).tolist()

    def metrics(self) -> dict[str, Score]:
        positive = positive_label(self._names)
        if positive is not None and 1 not in self.references:
            f1 = Score.undefined(f"No validation row has the label {positive!r}, which F1 looks for.")
        else:
            average = "macro" if positive is None else "binary"
            f1 = Score(float(f1_score(self.references, self.predicted, average=average, zero_division=0)))
        if len(set(self.references)) == 1:
            label = self._names[self.references[0]]
            matthews = Score.undefined(f"All validation rows have the label {label!r}, so correlations are undefined.")
        else:
            matthews = Score(float(matthews_corrcoef(self.references, self.predicted)))
        accuracy = Score(float(accuracy_score(self.references, self.predicted)))
        return {Metric.ACCURACY.value: accuracy, Metric.F1.value: f1, Metric.MATTHEWS.value: matthews}
