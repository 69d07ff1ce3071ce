"""The columns of a run's train and validation rows: read from files or fetched from the Hub, subsets drawn."""

from typing import Any

import datasets
import numpy as np

from app.db.config import RunConfig
from app.db.models import Dataset, DatasetOrigin
from app.errors import InvalidError, NotFoundError
from app.formats.tables import read_columns
from app.settings import Settings
from workers.files import fetch
from workers.finetune.tasks.task import Columns

GLUE = "nyu-mll/glue"
GLUE_REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
SUBSET_SEED = 0
"""Of the rows drawn by ``train_rows`` and ``validation_rows``: the same in every run of every experiment."""


def load_columns(dataset: Dataset, config: RunConfig, settings: Settings) -> tuple[Columns, Columns]:
    """Return the text and label columns of the train and of the validation rows, subsets drawn."""
    names = [*config.text_columns, config.label_column]
    if dataset.origin is DatasetOrigin.HUB:
        train, validation = _glue_columns(dataset.hub_name or "", names)
    else:
        files = (dataset.train_sha256, dataset.train_filename), (dataset.validation_sha256, dataset.validation_filename)
        train, validation = (
            dict(read_columns(fetch(str(sha256), f"{filename} of {dataset.name!r}", settings), str(filename), names))
            for sha256, filename in files
        )
    return _subset(train, config.train_rows), _subset(validation, config.validation_rows)


def describe_rows(dataset: Dataset) -> dict[str, Any]:
    """Return what names the rows of a data set for good: a revision on the Hub, or hashes."""
    if dataset.origin is DatasetOrigin.HUB:
        return {"hub": GLUE, "name": dataset.hub_name, "revision": GLUE_REVISION}
    return {"train_sha256": dataset.train_sha256, "validation_sha256": dataset.validation_sha256}


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
