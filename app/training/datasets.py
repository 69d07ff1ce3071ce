"""Data sets: train, validation and test rows of a task, uploaded or named."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from app.context import Context, makes_room, not_found
from app.core.names import MAX_NAME_CHARACTERS, base_name, clean_name
from app.core.validation_messages import first_message
from app.db.hub_tasks import TASKS, HubName
from app.db.models import Dataset, DatasetOrigin, Experiment
from app.db.session import INCLUDE_HIDDEN
from app.sandbox import read_in_sandbox
from app.storage import Incoming, Stored
from app.storage.ledger import Store
from app.storage.storage import DIVIDING_PREFIX
from app.training.columns import guess_task
from isoscope.core.errors import ConflictError, InvalidError
from isoscope.core.formatting import quote
from isoscope.files.columns import DatasetDescription, describe_dataset
from isoscope.files.division import SPLITS, SUFFIX, ColumnDivision, Division, FractionDivision, divide_file
from isoscope.files.text import Quoting, QuotingBySplit


def create_dataset(
    context: Context,
    train: Incoming,
    validation: Incoming | None,
    name: str | None = None,
    origin: DatasetOrigin = DatasetOrigin.UPLOAD,
    *,
    test: Incoming | None = None,
    division: Division | None = None,
    quoting: Quoting | None = None,
) -> Dataset:
    """Store the files and describe their columns. With a ``division``, replace the train file by its parts."""
    settings = context.settings
    check_split_files(division, has_validation=validation is not None, has_test=test is not None)
    with context.ledger.storing() as store:
        files = {
            split: SplitFile(store(file.stream, settings.max_dataset_bytes), base_name(file.filename))
            for split, file in zip(SPLITS, (train, validation, test), strict=True)
            if file is not None
        }
        undivided_hashes = [files["train"].stored.sha256] if division else []
        known_quoting: Quoting | QuotingBySplit | None = quoting
        if division is not None:
            split_files, known_quoting = divide_upload(context, division, files, store, quoting)
            files |= split_files
        locations = {split: split_file.location(context) for split, split_file in files.items()}
        description = _describe_files(context, locations, known_quoting)
        if "test" in files:
            require_test_labels(description)
        with context.ledger.recording(*(split_file.stored for split_file in files.values())) as session:
            dataset = Dataset(
                name=clean_name(name, FILE_SUFFIX.sub("", base_name(train.filename))),
                origin=origin,
                division=division,
                **dict(description),  # its fields are columns of the database table
            )
            for split, file in files.items():
                setattr(dataset, f"{split}_sha256", file.stored.sha256)
                setattr(dataset, f"{split}_filename", file.filename)
            session.add(dataset)
    context.ledger.release(*undivided_hashes)
    return dataset


def change_quoting(context: Context, dataset_id: str, quoting: Quoting) -> Dataset:
    """Change how quotes in .tsv files are read, unless an experiment uses the data set."""
    dataset = get_dataset(context, dataset_id)
    if not dataset.quoting:
        raise ConflictError(
            f"The quoting of {dataset.name} cannot be changed, because it has no .tsv file whose quotes were detected. "
            "If an earlier version of Isoscope stored it, upload the files again.",
            "quoting",
        )
    if dataset.division is not None:
        raise ConflictError(
            f"The rows of {dataset.name} were split with the current quoting. Upload the file again and choose how its "
            "quotes are read.",
            "quoting",
        )
    locations = _locate_files(context, dataset)
    description = _describe_files(context, locations, quoting)
    if "test" in locations:
        require_test_labels(description)
    unused = ~exists().where(Experiment.dataset_id == dataset_id)
    statement = update(Dataset).where(Dataset.id == dataset_id, unused).values(**dict(description))
    with context.sessions.begin() as session:
        updated_id = session.scalar(statement.returning(Dataset.id), execution_options={INCLUDE_HIDDEN: True})
    if updated_id is None:
        raise ConflictError(
            f"{dataset.name} is used by an experiment, whose runs depend on its quoting. Upload the files again and "
            "choose how their quotes are read.",
            "quoting",
        )
    return get_dataset(context, dataset_id)


def add_missing_counts(context: Context, dataset_id: str) -> Dataset:
    """Count classes and text lengths of a data set that Isoscope 0.1 stored without counts."""
    dataset = get_dataset(context, dataset_id)
    if not (locations := _locate_files(context, dataset)):
        raise ConflictError(f"The rows of {dataset.name} are not stored here, so they cannot be counted.")
    tsv_splits = [split for split, (_, filename) in locations.items() if ".tsv" in filename.lower()]
    quoting_by_split = {split: dataset.quoting_of(split) for split in tsv_splits}
    counted_columns = {column.name: column for column in _describe_files(context, locations, quoting_by_split).columns}
    with context.sessions.begin() as session:
        row = require_dataset(session, dataset_id)
        columns = []
        for column in row.columns:
            counts, counted_column = {}, counted_columns.get(column.name)
            if counted_column is not None and counted_column.values == column.values:
                counts = {field: getattr(counted_column, field) for field in COUNT_FIELDS}
            columns.append(column.model_copy(update=counts))
        row.columns = columns
    return get_dataset(context, dataset_id)


COUNT_FIELDS = ("train_counts", "validation_counts", "lengths")
"""Fields of a column that earlier versions did not fill in."""


def _locate_files(context: Context, dataset: Dataset) -> dict[str, tuple[Path, str]]:
    """Return the path and the original name of each stored file, by split."""
    return {
        split: (context.storage.local_path(str(sha256)), str(getattr(dataset, f"{split}_filename")))
        for split in SPLITS
        if (sha256 := getattr(dataset, f"{split}_sha256")) is not None
    }


def _describe_files(
    context: Context, locations: Mapping[str, tuple[Path, str]], quoting: Quoting | QuotingBySplit | None
) -> DatasetDescription:
    test: tuple[Path | None, str] = locations.get("test", (None, ""))
    return read_in_sandbox(
        context.settings, describe_dataset, *locations["train"], *locations["validation"], *test, quoting
    )


def create_hub_dataset(context: Context, hub_name: HubName, score_test: bool | None = None) -> Dataset:
    """Add a Hub task, which a worker downloads later. None scores its test split if that has labels."""
    task = TASKS[hub_name]
    if score_test and task.n_test is None:
        raise InvalidError(
            f"The test split of {task.title} has no labels (they are -1 or kept back), so no run can be scored on it. "
            "Leave it out, or upload files with a labeled test file.",
            "test",
        )
    with context.sessions.begin() as session:
        dataset = Dataset(
            name=task.title,
            origin=DatasetOrigin.HUB,
            hub_name=hub_name.value,
            n_train=task.n_train,
            n_validation=task.n_validation,
            n_test=None if score_test is False else task.n_test,
            columns=task.columns(),
        )
        session.add(dataset)
    return dataset


def list_datasets(context: Context) -> list[Dataset]:
    return context.scalars(select(Dataset).order_by(Dataset.created_at.desc(), Dataset.id))


def list_trainable_datasets(context: Context) -> list[Dataset]:
    return [dataset for dataset in list_datasets(context) if dataset.origin is not DatasetOrigin.BY_NAME]


def get_dataset(context: Context, dataset_id: str) -> Dataset:
    with context.sessions() as session:
        return require_dataset(session, dataset_id)


def require_dataset(session: Session, dataset_id: str) -> Dataset:
    if (dataset := session.get(Dataset, dataset_id)) is None:
        raise not_found("data set", dataset_id, "dataset_id")
    return dataset


def list_experiments_using(context: Context, dataset_id: str) -> list[Experiment]:
    query = select(Experiment).where(Experiment.dataset_id == dataset_id).order_by(Experiment.created_at.desc())
    return context.scalars(query)


@makes_room
def delete_dataset(context: Context, dataset_id: str) -> None:
    with context.sessions.begin() as session:
        dataset = require_dataset(session, dataset_id)
        in_use = select(exists().where(Experiment.dataset_id == dataset_id))
        if session.scalar(in_use, execution_options={INCLUDE_HIDDEN: True}):
            raise ConflictError(
                f"{dataset.name} is used by an experiment, whose runs could not be repeated without it. "
                "Delete the experiment first."
            )
        session.delete(dataset)
    context.ledger.release(dataset.train_sha256, dataset.validation_sha256, dataset.test_sha256)


FILE_SUFFIX = re.compile(r"\.[^.]*(\.gz)?$", re.IGNORECASE)
# Form field names by field of a division. The values of a split have form fields such as split_train.
FORM_FIELDS = {
    "column": "split_column", "fraction": "test_fraction", "validation_fraction": "validation_fraction",
    "seed": "split_seed",
}  # fmt: skip


class SplitFile(NamedTuple):
    """The stored file of a split, with its original name."""

    stored: Stored
    filename: str

    def location(self, context: Context) -> tuple[Path, str]:
        return context.storage.local_path(self.stored.sha256), self.filename


def read_division(
    split_column: str,
    split_values: Mapping[str, str],
    fractions: Mapping[str, str | float | None],
    split_seed: str | int,
) -> Division | None:
    """Return the requested division, if any. ``split_values`` has each split's column values, separated by commas."""
    column = split_column.strip()
    drawn_fractions = {split: fraction for split, fraction in fractions.items() if fraction not in ("", None)}
    if column and drawn_fractions:
        split = next(iter(drawn_fractions))
        raise InvalidError(f"Choose either a split column or a {split} fraction, not both.", f"{split}_fraction")
    division_type: type[ColumnDivision] | type[FractionDivision] = ColumnDivision if column else FractionDivision
    settings: dict[str, Any] = {"column": column}
    if column:
        for split, text in split_values.items():
            if text.strip():
                settings[split] = [value for part in text.split(",") if (value := part.strip())]
    elif drawn_fractions:
        settings = {"fraction": drawn_fractions.get("test"), "validation_fraction": drawn_fractions.get("validation")}
        settings |= {} if split_seed == "" else {"seed": split_seed}
    else:
        return None
    try:
        return division_type.model_validate(settings)
    except ValidationError as error:
        message = first_message(error.errors())
        field = next((str(part) for part in message.path), "column")
        raise InvalidError(message.sentence, FORM_FIELDS.get(field, f"split_{field}")) from None


def check_split_files(division: Division | None, *, has_validation: bool, has_test: bool) -> None:
    if isinstance(division, ColumnDivision):
        if has_validation or has_test:
            field = "validation" if has_validation else "test"
            raise InvalidError(
                f"A split column divides one file: remove the {field} file, or leave the split column empty.", field
            )
        return
    drawn_fractions = {} if division is None else division.fractions
    if not has_validation and "validation" not in drawn_fractions:
        raise InvalidError(
            "No validation file. Choose one, or split the train file: by a validation fraction, or by a column that "
            "names the split of each row.",
            "validation",
        )
    for split, has_file in (("test", has_test), ("validation", has_validation)):
        if has_file and split in drawn_fractions:
            raise InvalidError(f"Choose either a {split} file or a {split} fraction, not both.", f"{split}_fraction")


def divide_upload(
    context: Context, division: Division, files: Mapping[str, SplitFile], store: Store, quoting: Quoting | None
) -> tuple[dict[str, SplitFile], dict[str, Quoting]]:
    """Divide the train file in the sandbox; return the new file and the quoting of every split."""
    settings = context.settings
    train, validation = files["train"], files.get("validation")
    validation_file = None if validation is None else validation.location(context)
    with tempfile.TemporaryDirectory(dir=settings.root, prefix=DIVIDING_PREFIX) as folder_name:
        folder = Path(folder_name)
        n_rows_by_split, quoting_by_split = read_in_sandbox(
            settings, divide_file, division, *train.location(context), validation_file, folder, quoting, writable=folder
        )
        stem, split_files = FILE_SUFFIX.sub("", train.filename)[:MAX_NAME_CHARACTERS], {}
        for split in n_rows_by_split:
            with (folder / f"{split}{SUFFIX}").open("rb") as file:
                stored = store(file, settings.max_dataset_bytes)
            split_files[split] = SplitFile(stored, f"{stem}-{split}{SUFFIX}")
    return split_files, quoting_by_split


def require_test_labels(description: DatasetDescription) -> None:
    proposal = guess_task(description.columns)
    label = next((column for column in description.columns if proposal and column.name == proposal.label_column), None)
    if label is None:
        return
    if label.test_unlabelled or label.n_test_unseen == description.n_test:
        raise InvalidError(
            f"The test rows have no labels: none has a value in column {quote(label.name)} that train rows have, as in "
            "published test files whose labels are -1. Leave the test file out, or upload one with labels.",
            "test",
        )
