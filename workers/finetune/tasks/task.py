"""What every kind of task has to say."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.errors import InvalidError
from isotropy.score import Score
from workers.finetune.rows import Rows

Columns = Mapping[str, list[Any]]
"""Whole columns of a file, as long as each other, by name; a missing value is None."""


class Predictions(Protocol):
    """What a model gave for rows, gathered batch by batch, and what that is worth."""

    def add(self, outputs: ModelOutput, batch: Mapping[str, Tensor]) -> None:
        """Take the outputs of the next batch."""
        ...

    def metrics(self) -> dict[str, Score]:
        """Return every metric of the task, by the values of ``app.db.task.Metric``, of all rows added.

        One that is undefined, as a correlation with a constant is, says why.
        """
        ...


class Task(ABC):
    """A kind of task under one configuration."""

    purpose: str
    """What its model is loaded for, to complete the sentence "cannot be loaded ..."."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    @abstractmethod
    def load(self, folder: Path, **options: Any) -> PreTrainedModel:
        """Return the pretrained model of a folder with a new head; ``options`` go to ``from_pretrained``."""

    @abstractmethod
    def encode(self, columns: Columns, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Rows:
        """Return the rows of ``columns`` tokenised, with what is to be predicted."""

    @abstractmethod
    def predictions(self, rows: Rows, order: NDArray[np.int64]) -> Predictions:
        """Begin to gather what a model gives for ``rows``, whose batches come in ``order``, indices of rows."""

    def details(self) -> dict[str, Any]:
        """Return what has to be said beside the metrics, for a run's results."""
        return {}


def texts_of(columns: Columns, name: str) -> list[str]:
    """Return a column of texts.

    Raises:
        InvalidError: a row has none.

    """
    values = columns[name]
    if None in values:
        raise InvalidError(
            f"Row {values.index(None) + 1} has no text in column {name!r}: fill it in or leave the row out.",
            "text_columns",
        )
    return [str(value) for value in values]
