"""The rows of a task: read, drawn, labelled, tokenised; and batches of them for passes that only look."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import datasets
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase

from app.db.config import RunConfig
from app.db.models import Dataset, DatasetOrigin
from app.errors import InvalidError, NotFoundError
from app.formats.labels import label_text
from app.formats.tables import read_columns
from app.settings import Settings
from workers.files import fetch

GLUE = "nyu-mll/glue"
GLUE_REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
SUBSET_SEED = 0
"""Of the rows drawn by ``train_rows`` and ``validation_rows``: the same in every run of every experiment."""

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Rows:
    """Tokenised rows with their labels, and how to make a batch of them."""

    dataset: datasets.Dataset
    """``input_ids`` and the tokenizer's other columns, and ``labels``; one row a text or pair of texts."""
    tokens: NDArray[np.int64]
    """[n], tokens of each row, padding not counted."""
    collate: DataCollatorWithPadding

    def __len__(self) -> int:
        return len(self.tokens)

    def batches(
        self, indices: Sequence[int] | NDArray[np.int64], size: int, device: torch.device
    ) -> Iterator[dict[str, Tensor]]:
        """Yield the rows of ``indices`` in that order, tensors [at most ``size``, tokens] on ``device``.

        Unlike a DataLoader it draws no random number, so that looking at a model does not change its training.
        """
        for start in range(0, len(indices), size):
            rows = [self.dataset[int(index)] for index in indices[start : start + size]]
            yield {name: tensor.to(device) for name, tensor in self.collate(rows).items()}

    def longest_first(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``indices`` by falling number of tokens: little padding, and too long a batch fails at once."""
        return indices[np.argsort(-self.tokens[indices], kind="stable")]

    def draw(self, tokens: int, seed: Sequence[int], most: int | None = None) -> NDArray[np.int64]:
        """Return rows drawn without replacement: as many as hold ``tokens`` tokens at most, but one at least."""
        order = np.random.default_rng(seed).permutation(len(self))[:most]
        fit = np.searchsorted(np.cumsum(self.tokens[order]), tokens, side="right")
        return order[: max(int(fit), 1)]


def load_columns(dataset: Dataset, config: RunConfig, settings: Settings) -> tuple[Columns, Columns]:
    """Return the text and label columns of the train and of the validation rows, subsets drawn."""
    names = [*config.text_columns, config.label_column]
    if dataset.origin is DatasetOrigin.GLUE:
        train, validation = _glue_columns(dataset.glue_name or "", names)
    else:
        files = (dataset.train_sha256, dataset.train_filename), (dataset.validation_sha256, dataset.validation_filename)
        train, validation = (
            dict(read_columns(fetch(str(sha256), f"{filename} of {dataset.name!r}", settings), str(filename), names))
            for sha256, filename in files
        )
    return _subset(train, config.train_rows), _subset(validation, config.validation_rows)


def describe_rows(dataset: Dataset) -> dict[str, Any]:
    """Return what names the rows of a data set for good: a revision on the Hub, or hashes."""
    if dataset.origin is DatasetOrigin.GLUE:
        return {"hub": GLUE, "name": dataset.glue_name, "revision": GLUE_REVISION}
    return {"train_sha256": dataset.train_sha256, "validation_sha256": dataset.validation_sha256}


def encode(columns: Columns, config: RunConfig, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Rows:
    """Return the rows of ``columns`` tokenised, their labels as positions in ``config.label_names``."""
    texts = [_texts(columns, name) for name in config.text_columns]
    encoded = dict(tokenizer(*texts, truncation=True, max_length=max_length))
    encoded["labels"] = _labels(columns[config.label_column], config)
    tokens = np.array([sum(mask) for mask in encoded["attention_mask"]], dtype=np.int64)
    return Rows(datasets.Dataset.from_dict(encoded), tokens, DataCollatorWithPadding(tokenizer))


def _glue_columns(name: str, names: list[str]) -> tuple[Columns, Columns]:
    try:
        splits = datasets.load_dataset(GLUE, name, revision=GLUE_REVISION)
        return _named_columns(splits["train"], names), _named_columns(splits["validation"], names)
    except OSError as error:
        raise NotFoundError(
            f"GLUE's {name!r} could not be had from the Hub ({' '.join(str(error).split())}). "
            "Try again when it can be reached, or upload the train and validation files.",
            "dataset_id",
        ) from error


def _named_columns(split: datasets.Dataset, names: list[str]) -> Columns:
    """Columns of a split; a class is called by its name, as in a file."""
    missing = sorted(set(names) - set(split.column_names))
    if missing:
        raise InvalidError(f"Expected columns {names}, but the data set has {split.column_names}: choose of these.")
    features = split.features
    return {
        name: features[name].int2str(split[name][:])
        if isinstance(features[name], datasets.ClassLabel)
        else split[name][:]
        for name in names
    }


def _subset(columns: Columns, rows: int | None) -> Columns:
    n = len(next(iter(columns.values())))
    if n == 0:
        raise InvalidError("Expected at least one row in the train and in the validation file, got none.")
    if rows is None or rows >= n:
        return columns
    chosen = np.sort(np.random.default_rng(SUBSET_SEED).choice(n, rows, replace=False))
    return {name: [values[index] for index in chosen] for name, values in columns.items()}


def _texts(columns: Columns, name: str) -> list[str]:
    values = columns[name]
    if None in values:
        raise InvalidError(
            f"Row {values.index(None) + 1} has no text in column {name!r}: fill it in or leave the row out.",
            "text_columns",
        )
    return [str(value) for value in values]


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
