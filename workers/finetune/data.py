"""The columns of a run's train and validation rows: read from files or fetched from the Hub, subsets drawn."""

import json
from typing import Any

import datasets
import numpy as np

from app.db.config import RunConfig
from app.db.hub_tasks import TASKS, HubName, HubTask
from app.db.models import Dataset, DatasetOrigin
from app.errors import InvalidError, NotFoundError
from app.formats.tables import read_columns
from app.settings import Settings
from workers.files import fetch
from workers.finetune.columns import Columns, Part, n_rows, rows_of

SUBSET_SEED = 0
"""Of the rows drawn by ``train_rows`` and ``validation_rows``: the same in every run of every experiment."""


def load_columns(dataset: Dataset, config: RunConfig, settings: Settings) -> tuple[Part, Part]:
    """Return the text and label columns of the train and of the validation rows, subsets drawn."""
    names = [*config.text_columns, config.label_column]
    if dataset.origin is DatasetOrigin.HUB:
        train, validation = _hub_columns(_hub_task(dataset), names)
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
        source = _hub_task(dataset).source
        return {"hub": source.repo, "name": dataset.hub_name, "revision": source.revision}
    return {"train_sha256": dataset.train_sha256, "validation_sha256": dataset.validation_sha256}


def _hub_task(dataset: Dataset) -> HubTask:
    return TASKS[HubName(str(dataset.hub_name))]


def _hub_columns(task: HubTask, names: list[str]) -> tuple[Columns, Columns]:
    source = task.source
    try:
        splits = datasets.load_dataset(source.repo, source.config_name, revision=source.revision)
        return _named_columns(splits["train"], names), _named_columns(splits["validation"], names)
    except OSError as error:
        raise NotFoundError(
            f"{task.title} could not be had from the Hub ({' '.join(str(error).split())}). "
            "Try again when it can be reached, or upload the train and validation files.",
            "dataset_id",
        ) from error


def _named_columns(split: datasets.Dataset, names: list[str]) -> Columns:
    """Columns of a split, with values as a file has them: a class by its name, an object as JSON text."""
    missing = sorted(set(names) - set(split.column_names))
    if missing:
        raise InvalidError(
            f"Expected columns {names}, but the data set has {split.column_names}: choose of these.", "text_columns"
        )
    return {name: _values(split[name][:], split.features[name]) for name in names}


def _values(values: list[Any], feature: Any) -> list[Any]:
    if isinstance(feature, datasets.ClassLabel):
        names: list[Any] = feature.int2str(values)
        return names
    return [json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value for value in values]


def _subset(columns: Columns, rows: int | None) -> Part:
    n = n_rows(columns)
    if n == 0:
        raise InvalidError("Expected at least one row in the train and in the validation file, got none.")
    if rows is None or rows >= n:
        return Part(columns, np.arange(n))
    chosen = np.sort(np.random.default_rng(SUBSET_SEED).choice(n, rows, replace=False))
    return Part(rows_of(columns, chosen.tolist()), chosen)
