"""Write an archive's experiment and the rows of its runs into tables, and refuse experiments that exist already."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, repeat
from typing import Any, NamedTuple

from pydantic import BaseModel
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.db.models import (
    UNFINISHED_IMPORT,
    Attempt,
    AttemptOutcome,
    Dataset,
    DatasetOrigin,
    Experiment,
    ExperimentOrigin,
    Import,
    Opening,
    Run,
    RunFigure,
    RunPredictions,
    RunStatus,
    RunTag,
    SealedScore,
    Split,
    Step,
)
from app.db.predictions import Predictions
from app.db.session import INCLUDE_HIDDEN
from app.db.types import utcnow
from app.results.archive import container
from app.results.archive.reading import Archive, CheckedArchive
from app.results.archive.records import AttemptRecord, DatasetRecord, RunRecord
from app.results.archive.sealed_records import OpeningRecord
from isoscope.core.errors import ConflictError
from isoscope.files.division import SPLITS
from isoscope.files.text import Quoting

MAX_BATCH_BYTES = 2**21
"""Limit for the lines of a batch, which take about twenty times as much memory as objects and rows."""


class ImportTarget(NamedTuple):
    """The import and the experiment that rows are written for."""

    import_id: str
    experiment_id: str

    def derive_id(self, exported_id: str) -> str:
        """Return the new id of a run or opening, which is the same at every attempt and unique to this import."""
        return hashlib.sha256(f"{self.import_id} {exported_id}".encode()).hexdigest()[:32]


class ImportTable(NamedTuple):
    """How records of an archive become rows of a table, ``batch_rows`` in one transaction."""

    member: str
    """The member that the records come from, or a unique name if several tables come from it."""
    read_records: Callable[[Archive], Iterator[Any]]
    row_class: type[Any]
    make_columns: Callable[[Any, ImportTarget], dict[str, Any]]
    batch_rows: int

    def batches(self, archive: Archive, target: ImportTarget, skip: int = 0) -> Iterator[list[dict[str, Any]]]:
        """Yield batches of the rows after the first ``skip``, each small enough to be written within a second.

        A batch ends after ``MAX_BATCH_BYTES`` of the member's lines.
        """
        batch: list[dict[str, Any]] = []
        records = self.read_records(archive)
        for _ in islice(records, skip):
            pass
        batch_start = archive.bytes_read
        for record in records:
            batch.append(self.make_columns(record, target))
            if len(batch) == self.batch_rows or archive.bytes_read - batch_start >= MAX_BATCH_BYTES:
                yield batch
                batch, batch_start = [], archive.bytes_read
        if batch:
            yield batch


FIELDS_OF_OTHER_TABLES = ("timeline", "tags")


def run_columns(run: RunRecord, target: ImportTarget) -> dict[str, Any]:
    """Return the columns of a run. An unfinished run becomes a cancelled one, with a note."""
    columns = {name: getattr(run, name) for name in RunRecord.model_fields if name not in FIELDS_OF_OTHER_TABLES}
    columns |= {"id": target.derive_id(run.id), "experiment_id": target.experiment_id}
    columns["model"] = run.config.model
    columns["learning"] = run.results.learning if run.results else None
    if not run.status.final:
        columns["status"] = RunStatus.CANCELLED
        columns["notes"] = [*run.notes, f"It was {run.status} when it was exported, and does not continue here."]
    return columns


def columns_with_run_id(record: BaseModel, target: ImportTarget) -> dict[str, Any]:
    columns = record.model_dump()
    return {"run_id": target.derive_id(columns.pop("run")), **columns}


def attempt_columns(id_and_attempt: tuple[str, AttemptRecord], target: ImportTarget) -> dict[str, Any]:
    """Return the columns of an attempt at the run of this id. An open attempt becomes a cancelled one."""
    run_id, attempt = id_and_attempt
    columns = {"run_id": target.derive_id(run_id), **attempt.model_dump()}
    if attempt.ended_at is None:
        columns |= {"ended_at": attempt.started_at, "outcome": AttemptOutcome.CANCELLED}
    return columns


def read_archived_predictions(split: Split, archive: Archive) -> Iterator[tuple[str, Predictions]]:
    return archive.predictions(archive.experiment().config.task, split)


def prediction_columns(split: Split, run_predictions: tuple[str, Predictions], target: ImportTarget) -> dict[str, Any]:
    run_id, predictions = run_predictions
    return {"run_id": target.derive_id(run_id), "split": split, "n": len(predictions), "data": predictions.pack()}


def opening_columns(name_and_opening: tuple[str, OpeningRecord], target: ImportTarget) -> dict[str, Any]:
    """Return the columns of an opening of the experiment of this name."""
    name, record = name_and_opening
    columns = {"id": target.derive_id(f"opening {record.number}"), "experiment_id": target.experiment_id}
    return {**columns, "experiment_name": name, **record.model_dump()}


TABLES = (
    ImportTable(container.RUNS, Archive.runs, Run, run_columns, 50),
    ImportTable(
        "attempts in runs.jsonl",
        lambda archive: ((run.id, attempt) for run in archive.runs() for attempt in run.timeline),
        Attempt,
        attempt_columns,
        500,
    ),
    ImportTable(
        "tags in runs.jsonl",
        lambda archive: ({"run": run.id, "tag": tag} for run in archive.runs() for tag in run.tags),
        RunTag,
        lambda row, target: {"run_id": target.derive_id(row["run"]), "tag": row["tag"]},
        500,
    ),
    ImportTable(container.STEPS, Archive.steps, Step, columns_with_run_id, 5000),
    ImportTable(container.RUN_FIGURES, Archive.run_figures, RunFigure, columns_with_run_id, 50),
    *(
        ImportTable(
            member, partial(read_archived_predictions, split), RunPredictions, partial(prediction_columns, split), 50
        )
        for member, split in ((container.PREDICTIONS, Split.VALIDATION), (container.SEALED_PREDICTIONS, Split.TEST))
    ),
    ImportTable(container.SEALED_SCORES, Archive.sealed_scores, SealedScore, columns_with_run_id, 50),
    ImportTable(
        container.OPENINGS,
        lambda archive: zip(repeat(archive.experiment().name), archive.openings(), strict=False),
        Opening,
        opening_columns,
        50,
    ),
)
"""The tables in the order of writing: rows that belong to a run come after it."""


def refuse_duplicate(session: Session, checked: CheckedArchive, import_id: str) -> None:
    """Raise ConflictError if the experiment exists here or is being imported."""
    being_removed = select(Experiment).where(Experiment.id == checked.experiment.id, Experiment.removed_at.is_not(None))
    if removed_experiment := session.scalar(being_removed, execution_options={INCLUDE_HIDDEN: True}):
        raise ConflictError(f"{removed_experiment.name} is being deleted. Import it again when that is done.", "file")
    same_content = (
        row for row in _imported_experiments(session) if (row.source or {}).get("content") == checked.content_hash
    )
    if existing := session.get(Experiment, checked.experiment.id) or next(same_content, None):
        raise ConflictError(
            f"This experiment already exists: {existing.name}.", "file", page=f"/experiments/{existing.id}"
        )
    imports = select(Import).where(Import.id != import_id, Import.status.in_(UNFINISHED_IMPORT))
    if running_import := session.scalar(imports.where(Import.content == checked.content_hash).limit(1)):
        raise ConflictError("This experiment is already being imported.", "file", page=f"/imports/{running_import.id}")


def write_experiment(session: Session, checked: CheckedArchive) -> tuple[Experiment, bool]:
    """Write an experiment without its runs. Return it, and whether its data set was written too, as a placeholder."""
    record = checked.experiment
    search = record.study
    if search is not None and not search.over:  # its trials are run where it was exported
        search = search.model_copy(update={"over": True, "why": "It continues on the dashboard that exported it."})
    dataset = find_dataset(session, record.dataset)
    experiment = Experiment(
        name=record.name,
        dataset=dataset
        or Dataset(
            name=record.dataset.name,
            origin=DatasetOrigin.BY_NAME,
            hub_name=record.dataset.hub_name.value if record.dataset.hub_name else None,
            train_filename=record.dataset.train_filename,
            validation_filename=record.dataset.validation_filename,
            n_train=record.dataset.n_train,
            n_validation=record.dataset.n_validation,
            columns=record.dataset.columns,
        ),
        config=record.config,
        grid=record.model_dump(mode="json")["grid"],
        origin=ExperimentOrigin.IMPORTED,
        study=search,
        created_at=record.created_at,
        source={
            "content": checked.content_hash,
            "isoscope": checked.manifest.isoscope,
            "exported_at": checked.manifest.exported_at.isoformat(),
            "imported_at": utcnow().isoformat(),
            "experiment_id": record.id,
            "origin": record.origin,
            "dataset": _dataset_source(record.dataset),
        },
    )
    session.add(experiment)
    session.flush()
    return experiment, dataset is None


def adopt_dataset(session: Session, record: DatasetRecord, experiment_id: str, placeholder_id: str) -> None:
    """Replace an import's placeholder data set if a data set that matches the record has been added since."""
    if (dataset := find_dataset(session, record)) is None:
        return
    session.execute(update(Experiment).where(Experiment.id == experiment_id).values(dataset_id=dataset.id))
    session.execute(delete(Dataset).where(Dataset.id == placeholder_id))


def find_dataset(session: Session, record: DatasetRecord) -> Dataset | None:
    """Return a data set with the files or Hub name of an exported one, or that of an earlier import, or None."""
    hashes = (record.train_sha256, record.validation_sha256)
    datasets = select(Dataset).order_by(Dataset.created_at)
    dataset = None
    if None not in hashes:
        datasets = datasets.where(Dataset.train_sha256 == hashes[0], Dataset.validation_sha256 == hashes[1])
        if record.test_sha256 is not None:
            datasets = datasets.where(Dataset.test_sha256 == record.test_sha256)
        quoting_by_split = {str(split): quoting for split, quoting in (record.quoting or {}).items()}
        quoting = [quoting_by_split.get(split, Quoting.TEXT) for split in SPLITS]
        same_files = session.scalars(datasets)
        dataset = next((row for row in same_files if [row.quoting_of(split) for split in SPLITS] == quoting), None)
    elif record.hub_name is not None:
        dataset = session.scalar(datasets.where(Dataset.hub_name == record.hub_name.value).limit(1))
    source = _dataset_source(record)
    imported_datasets = (
        row.dataset for row in _imported_experiments(session) if (row.source or {}).get("dataset") == source
    )
    return dataset or next(imported_datasets, None)


def _imported_experiments(session: Session) -> Iterator[Experiment]:
    yield from session.scalars(select(Experiment).where(Experiment.origin == ExperimentOrigin.IMPORTED))


def _dataset_source(record: DatasetRecord) -> dict[str, Any]:
    """Return the fields that data sets of two exports are compared by. A missing ``quoting`` equals an empty one."""
    return record.model_dump(mode="json", exclude={"columns"} if record.quoting else {"columns", "quoting"})
