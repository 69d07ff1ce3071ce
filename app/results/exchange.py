"""Export experiments as files with all rows and figures; queue imports of such files."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO

from pydantic import BaseModel
from sqlalchemy import delete, select, update
from sqlalchemy.orm import selectinload

from app import VERSION
from app.context import Context
from app.core.names import base_name, to_file_name
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import (
    UNFINISHED_IMPORT,
    Experiment,
    Import,
    ImportStatus,
    Run,
    RunFigure,
    SealedScore,
    Split,
    Step,
)
from app.db.predictions import read_predictions
from app.db.types import utcnow
from app.figures.figure import Figure
from app.results.archive import container
from app.results.archive.container import FORMAT, README_TEXT, ArchiveWriter, write_json
from app.results.archive.records import AttemptRecord, DatasetRecord, ExperimentRecord, RunRecord
from app.results.archive.sealed_records import OpeningRecord, SealedScoreRecord, predictions_to_records
from app.results.openings import list_openings
from app.storage import Incoming
from app.storage.storage import BLOCK_BYTES
from app.training.experiments import get_experiment
from isoscope.core.errors import ConflictError, IsoscopeError, NotFoundError

SCORE_FIELDS = [name for name in SealedScoreRecord.model_fields if name != "run"]
IMPORT_RETENTION = timedelta(days=30)
"""How long ended imports are listed."""
FINAL_IMPORT = (ImportStatus.FINISHED, ImportStatus.FAILED, ImportStatus.CANCELLED)
MAX_LISTED_IMPORTS = 20
ROWS_AT_ONCE = 1000
OPTIONAL_DATASET_FIELDS = ("test_sha256", "test_filename", "n_test", "division", "quoting")
"""Fields that an archive leaves out if empty."""
RUNS_AT_ONCE = 20

FigureMaker = Callable[[Experiment], Iterable[Figure]]


@dataclass(frozen=True)
class Export:
    """An exported experiment in an unnamed temporary file, which is deleted when it is closed."""

    file: BinaryIO
    size_bytes: int
    filename: str

    def blocks(self) -> Iterator[bytes]:
        """Yield the file block by block, and close it at the end."""
        with self.file as file:
            file.seek(0)
            while block := file.read(BLOCK_BYTES):
                yield block


def export_experiment(context: Context, experiment_id: str, draw_figures: FigureMaker) -> Export:
    """Write an experiment with its runs, all their steps and its figures to a file, without trained models.

    Memory holds at most a few rows and one figure. What runs log meanwhile may be in some of the archive's files only.
    """
    experiment = get_experiment(context, experiment_id)
    file = tempfile.TemporaryFile(dir=context.settings.root)  # noqa: SIM115 - closed when it has been sent
    try:
        _write_members(context, experiment, draw_figures(experiment), file)
        name = f"isoscope-{to_file_name(experiment.name) or 'experiment'}.zip"
        return Export(file, file.seek(0, os.SEEK_END), name)
    except BaseException:
        file.close()
        raise


def _write_members(context: Context, experiment: Experiment, figures: Iterable[Figure], file: BinaryIO) -> None:
    archive = ArchiveWriter(file)
    readme = README_TEXT.format(version=VERSION, format=FORMAT, exported_at=archive.exported_at)
    archive.add(container.README, [readme.encode()])
    fields = _column_values(experiment, [name for name in ExperimentRecord.model_fields if name != "dataset"])
    dataset = _column_values(experiment.dataset, DatasetRecord.model_fields)
    dataset = {name: value for name, value in dataset.items() if value or name not in OPTIONAL_DATASET_FIELDS}
    archive.add(container.EXPERIMENT, [write_json(fields | {"dataset": dataset})])
    ids = [run.id for run in experiment.runs]
    archive.add(container.RUNS, map(write_json, _run_records(context, ids)))
    steps = (Step.step, Step.task_loss, Step.penalty, Step.layers)
    archive.add(container.STEPS, map(write_json, _rows_by_run(context, ids, Step.run_id, steps)))
    figure_columns = (RunFigure.slug, RunFigure.data)
    archive.add(container.RUN_FIGURES, map(write_json, _rows_by_run(context, ids, RunFigure.run_id, figure_columns)))
    archive.add(container.PREDICTIONS, map(write_json, _prediction_records(context, ids, Split.VALIDATION)))
    with context.sessions() as session:
        in_experiment = Run.experiment_id == experiment.id
        scores = session.scalars(select(SealedScore).join(Run).where(in_experiment).order_by(Run.position)).all()
        openings = list_openings(session, experiment.id)
    if scores:
        records = ({"run": row.run_id} | _column_values(row, SCORE_FIELDS) for row in scores)
        archive.add(container.SEALED_SCORES, map(write_json, records))
        predictions = _prediction_records(context, [score.run_id for score in scores], Split.TEST)
        archive.add(container.SEALED_PREDICTIONS, map(write_json, predictions))
    if openings:
        records = (_column_values(row, OpeningRecord.model_fields) for row in openings)
        archive.add(container.OPENINGS, map(write_json, records))
    for figure in figures:
        if not figure.empty:
            archive.add(f"figures/{figure.slug}.json", [figure.json().encode()])
            archive.add(f"figures/{figure.slug}.csv", [figure.table.csv().encode()])
    archive.close()


def _run_records(context: Context, run_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    # Select runs by id, because runs added since the experiment was read may have values that its grid lacks.
    with context.sessions() as session:
        for start in range(0, len(run_ids), RUNS_AT_ONCE):
            in_batch = Run.id.in_(run_ids[start : start + RUNS_AT_ONCE])
            run_query = select(Run).where(in_batch).order_by(Run.position)
            run_query = run_query.options(selectinload(Run.timeline), selectinload(Run.tags))
            for run in session.scalars(run_query):
                attempts = [_column_values(attempt, AttemptRecord.model_fields) for attempt in run.timeline]
                columns = _column_values(run, [name for name in RunRecord.model_fields if name != "tags"])
                if run.seed_round == 1:  # earlier versions refuse the field
                    del columns["seed_round"]
                yield columns | {"timeline": attempts} | ({"tags": list(run.tag_names)} if run.tags else {})


def _rows_by_run(
    context: Context, run_ids: Iterable[str], run_column: Any, columns: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    # Read one run at a time, because the database would copy all steps to sort them.
    with context.sessions() as session:
        for run_id in run_ids:
            row_query = select(*columns).where(run_column == run_id).order_by(columns[0])
            for row in session.execute(row_query.execution_options(yield_per=ROWS_AT_ONCE)):
                yield {"run": run_id} | row._asdict()


def _prediction_records(context: Context, run_ids: Sequence[str], split: Split) -> Iterator[dict[str, Any]]:
    with context.sessions() as session:
        for run_id in run_ids:
            for predictions in read_predictions(session, [run_id], split).values():
                yield from predictions_to_records(run_id, predictions, split)


def _column_values(row: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: _to_json(getattr(row, name)) for name in names}


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return list(map(_to_json, value))
    return value.isoformat() if hasattr(value, "isoformat") else value


def create_import(context: Context, file: Incoming) -> Import:
    """Store an uploaded export, queue its import, and delete the records of imports that ended long ago."""
    try:
        stored = context.ledger.store(file.stream, context.settings.max_upload_bytes)
    except IsoscopeError as error:
        error.field = error.field or "file"
        raise
    with context.ledger.recording(stored) as session:
        ended_long_ago = Import.status.in_(FINAL_IMPORT) & (Import.finished_at < utcnow() - IMPORT_RETENTION)
        # The row of an import that is not finished hides the experiment that it has begun to write.
        hides_nothing = (Import.status == ImportStatus.FINISHED) | Import.experiment_id.is_(None)
        session.execute(delete(Import).where(ended_long_ago, hides_nothing))
        row = Import(filename=base_name(file.filename), file_sha256=stored.sha256)
        session.add(row)
    context.queue.enqueue(Job(job_kinds.IMPORT, row.id))
    return row


def list_imports(context: Context) -> list[Import]:
    """Return the latest imports, newest first, without those whose experiment was deleted."""
    is_deleted = (Import.status == ImportStatus.FINISHED) & Import.experiment_id.is_(None)
    newest = select(Import).where(~is_deleted).order_by(Import.created_at.desc(), Import.id).limit(MAX_LISTED_IMPORTS)
    return context.scalars(newest)


def get_import(context: Context, import_id: str) -> Import:
    if (row := context.get(Import, import_id)) is None:
        raise NotFoundError(f"There is no import {import_id!r}. It may have ended long ago.")
    return row


def cancel_import(context: Context, import_id: str) -> Import:
    """Cancel an unfinished import; a worker removes what it has written. Raise ConflictError if it has ended."""
    with context.sessions.begin() as session:
        update_unfinished = update(Import).where(Import.id == import_id, Import.status.in_(UNFINISHED_IMPORT))
        removal = update_unfinished.values(status=ImportStatus.REMOVING, attempts=0, error=None)
        cancelled_id = session.scalar(removal.returning(Import.id))
    row = get_import(context, import_id)
    if cancelled_id is None:
        raise ConflictError(f"Only a queued or running import can be cancelled. This one is {row.status}.")
    context.queue.cancel(Job(job_kinds.IMPORT, import_id))
    context.queue.enqueue(Job(job_kinds.DISCARD, import_id))
    return row
