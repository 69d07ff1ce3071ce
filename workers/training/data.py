"""Load the columns of a run's rows from files or the Hub, and draw subsets."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import datasets
import numpy as np
from numpy.typing import NDArray

from app.core.settings import Settings
from app.db.config import RunConfig
from app.db.hub_tasks import TASKS, HubName
from app.db.models import Dataset, DatasetOrigin
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.core.formatting import one_line
from isoscope.files.columns import read_columns
from workers.files import fetch

Columns = Mapping[str, list[Any]]
"""Columns of equal length by name; a missing value is None."""
WITHHELD_LABELS = (None, -1, "-1")
"""Labels of a test split whose true labels are kept secret."""
SUBSET_SEED = 0
"""Draws subsets of rows. It never changes, so all runs with as many rows of a split use the same ones."""


class SplitPart(NamedTuple):
    """All rows of a split of a data set, or a subset."""

    columns: Columns
    positions: NDArray[np.int64]
    """[n], the positions of the rows in the split, from 0, ascending."""


def n_rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def take_rows(columns: Columns, positions: Sequence[int]) -> Columns:
    return {name: [values[position] for position in positions] for name, values in columns.items()}


def load_columns(dataset: Dataset, config: RunConfig, settings: Settings) -> tuple[SplitPart, SplitPart]:
    """Return the rows of the train and validation splits, or subsets of the configured sizes."""
    train, validation = (_read_split(dataset, split, config, settings) for split in ("train", "validation"))
    return _draw_subset(train, config.train_rows), _draw_subset(validation, config.validation_rows)


def load_test_columns(dataset: Dataset, config: RunConfig, settings: Settings) -> Columns | None:
    """Return the columns of all test rows; None without a test split. Raise InvalidError if no row has a label."""
    if dataset.n_test is None:
        return None
    columns = _read_split(dataset, "test", config, settings)
    if all(label in WITHHELD_LABELS for label in columns[config.label_column]):
        raise InvalidError(
            f"The test rows of {dataset.name} have no labels: all are missing or -1, so no run can be scored on them. "
            "Use a data set without this test split.",
            "dataset_id",
        )
    return columns


def _read_split(dataset: Dataset, split: str, config: RunConfig, settings: Settings) -> Columns:
    """Return the text columns and the label column of a split."""
    names = [*config.text_columns, config.label_column]
    if dataset.origin is DatasetOrigin.HUB:
        task = TASKS[HubName(str(dataset.hub_name))]
        source = task.source
        try:
            rows = datasets.load_dataset(source.repo, source.config_name, revision=source.revision)[split]
            if set(names) - set(rows.column_names):
                raise InvalidError(
                    f"Expected columns {names}, but the data set has {rows.column_names}: choose among these.",
                    "text_columns",
                )
            return {name: _convert_values(rows[name][:], rows.features[name]) for name in names}
        except OSError as error:
            raise NotFoundError(
                f"{task.title} could not be loaded from the Hub ({one_line(str(error))}). "
                "Try again when it can be reached, or upload the train and validation files.",
                "dataset_id",
            ) from error
    sha256, filename = getattr(dataset, f"{split}_sha256"), getattr(dataset, f"{split}_filename")
    path = fetch(str(sha256), f"{filename} of {dataset.name!r}", settings)
    return read_columns(path, str(filename), names, quoting=dataset.quoting_of(split))


def describe_rows(dataset: Dataset) -> dict[str, Any]:
    """Return fields that identify the rows permanently: a revision on the Hub, or hashes and quoting of the files."""
    if dataset.origin is DatasetOrigin.HUB:
        source = TASKS[HubName(str(dataset.hub_name))].source
        return {"hub": source.repo, "name": dataset.hub_name, "revision": source.revision}
    values = {name: getattr(dataset, name) for name in ("train_sha256", "validation_sha256", "test_sha256", "quoting")}
    return {name: value for name, value in values.items() if value}


def _convert_values(values: list[Any], feature: Any) -> list[Any]:
    """Convert class numbers to class names, or to None if negative, and dictionaries to JSON, as in uploaded files."""
    if isinstance(feature, datasets.ClassLabel):
        return [None if value is None or value < 0 else feature.int2str(value) for value in values]
    return [json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value for value in values]


def _draw_subset(columns: Columns, max_rows: int | None) -> SplitPart:
    """Draw ``max_rows`` rows; return all if there are not more, or if it is None. Raise InvalidError without rows."""
    n = n_rows(columns)
    if n == 0:
        raise InvalidError("The train or the validation file has no rows. Both need at least one.")
    if max_rows is None or max_rows >= n:
        return SplitPart(columns, np.arange(n))
    positions = np.sort(np.random.default_rng(SUBSET_SEED).choice(n, max_rows, replace=False))
    return SplitPart(take_rows(columns, positions.tolist()), positions)
