"""The interface of every kind of task, and texts tokenized for a model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import datasets
import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.predictions import Predictions
from app.db.run_results import Trivial
from isoscope.core.errors import InvalidError
from isotropy.score import Score
from workers.training.data import Columns
from workers.training.inference import TokenizedRows


class Collector(Protocol):
    """Collects what a model predicts, batch by batch, and scores it."""

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None: ...

    def metrics(self) -> dict[str, Score]:
        """Return every metric of the task over all added rows, or why it is undefined."""
        ...

    def sorted_predictions(self, split_positions: NDArray[np.int64]) -> Predictions:
        """Return predictions in the order of the split; raise ValueError if they cannot be stored.

        ``split_positions`` are the positions of the examples in the split, ascending.
        """
        ...


@dataclass(frozen=True)
class Task(ABC):
    """A kind of task under one configuration."""

    config: RunConfig
    purpose: ClassVar[str]
    """Completes the sentence "The model cannot be loaded ...", such as "for regression"."""
    auto_class: ClassVar[Any]
    """The auto class of transformers that loads a model with the head for this task."""

    @abstractmethod
    def head_options(self) -> dict[str, Any]:
        """Return the head's options for ``from_pretrained``."""

    @abstractmethod
    def encode(
        self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int, *, training: bool = False
    ) -> TokenizedRows:
        """Tokenize columns; with ``training``, drop rows that the model cannot learn from."""

    @abstractmethod
    def make_collector(self, rows: TokenizedRows, order: NDArray[np.int64]) -> Collector:
        """Return a collector of predictions on ``rows``; ``order`` are the row indices in the order of the batches."""

    @abstractmethod
    def score_trivial_predictor(self, train: TokenizedRows, validation: TokenizedRows) -> Trivial:
        """Return the best constant predictor on ``train``, scored on ``validation``."""

    @abstractmethod
    def untrained_loss(self, train: TokenizedRows) -> float:
        """Return the training loss of a model that has learned nothing."""

    def extra_results(self, train: TokenizedRows, validation: TokenizedRows) -> dict[str, Any]:
        """Return further fields of ``RunResults``, which only this kind of task has."""
        return {}


class PredictionPairs:
    """Predictions and references of rows, in the ``order`` in which batches are added."""

    def __init__(self, order: NDArray[np.int64]) -> None:
        self.references: list[Any] = []
        self.predicted: list[Any] = []
        self._order = order

    def sorted_predictions(self, split_positions: NDArray[np.int64]) -> Predictions:
        added_rows = self._order[: len(self.predicted)]
        sorting = np.argsort(added_rows)
        return Predictions(
            split_positions[added_rows[sorting]], np.array(self.references)[sorting], np.array(self.predicted)[sorting]
        )


def read_texts(columns: Columns, name: str) -> list[str]:
    """Return a column as texts; raise InvalidError if a value is missing."""
    values = columns[name]
    if None in values:
        raise InvalidError(
            f"Row {values.index(None) + 1} has no text in column {name!r}: fill it in or leave the row out.",
            "text_columns",
        )
    return [str(value) for value in values]


def tokenize_texts(
    columns: Columns,
    text_columns: Sequence[str],
    labels: Sequence[int] | Sequence[float],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> TokenizedRows:
    """Return tokenized texts or pairs of texts, truncated to ``max_length`` tokens, with their labels."""
    texts = [read_texts(columns, name) for name in text_columns]
    encoded = dict(tokenizer(*texts, truncation=True, max_length=max_length))
    token_counts = np.array([sum(mask) for mask in encoded["attention_mask"]], dtype=np.int64)
    return TokenizedRows(
        datasets.Dataset.from_dict(encoded | {"labels": labels}), token_counts, DataCollatorWithPadding(tokenizer)
    )
