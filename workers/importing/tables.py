"""Which member of an archive becomes rows of which table. A member that is added to archives is one more entry."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from pydantic import BaseModel

from app.archive.members import OPENINGS, PREDICTIONS, RUN_FIGURES, RUNS, SEALED_PREDICTIONS, SEALED_SCORES, STEPS
from app.archive.reading import Archive
from app.archive.records import AttemptRecord, RunRecord
from app.archive.sealed_records import OpeningRecord
from app.db.models import (
    Attempt,
    AttemptOutcome,
    Opening,
    Run,
    RunFigure,
    RunPredictions,
    RunStatus,
    SealedScore,
    Split,
    Step,
)
from app.db.predictions import Predictions

MAX_BATCH_BYTES = 2**21
"""Of lines: as objects and as rows they take some twenty times as much memory."""


class Target(NamedTuple):
    """Where the rows of an archive go."""

    import_id: str
    experiment_id: str

    def run_id(self, exported_id: str) -> str:
        """Return the id of a run here: the same at every attempt, and in no other import."""
        return hashlib.sha256(f"{self.import_id} {exported_id}".encode()).hexdigest()[:32]


class Table(NamedTuple):
    """A part of an archive, the rows that its records become, and how many are written in one transaction."""

    member: str
    """The member that the records come from, or a name of its own where another table is made of that."""
    records: Callable[[Archive], Iterator[Any]]
    rows: type[Any]
    columns: Callable[[Any, Target], dict[str, Any]]
    at_once: int

    def batches(self, archive: Archive, target: Target, skip: int = 0) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows after the first ``skip``, few enough at a time to be written in less than a second.

        A batch ends beyond ``MAX_BATCH_BYTES`` of the member's lines.
        """
        batch: list[dict[str, Any]] = []
        records = self.records(archive)
        for _ in islice(records, skip):
            pass
        begun = archive.passed
        for record in records:
            batch.append(self.columns(record, target))
            if len(batch) == self.at_once or archive.passed - begun >= MAX_BATCH_BYTES:
                yield batch
                batch, begun = [], archive.passed
        if batch:
            yield batch


def run_columns(run: RunRecord, target: Target) -> dict[str, Any]:
    """Return the columns of a run; one that had not ended is cancelled here, and says so."""
    columns = {name: getattr(run, name) for name in RunRecord.model_fields if name != "timeline"}
    columns |= {"id": target.run_id(run.id), "experiment_id": target.experiment_id}
    columns["model"] = run.config.model
    columns["learning"] = run.results.learning if run.results else None
    if not run.status.final:
        columns["status"] = RunStatus.CANCELLED
        columns["notes"] = [*run.notes, f"It was {run.status} when it was exported, and does not go on here."]
    return columns


def columns_of_run(record: BaseModel, target: Target) -> dict[str, Any]:
    """Return the columns of what belongs to a run."""
    columns = record.model_dump()
    return {"run_id": target.run_id(columns.pop("run")), **columns}


def attempts_of(archive: Archive) -> Iterator[tuple[str, AttemptRecord]]:
    """Yield the id of each run and its attempts, one at a time."""
    return ((run.id, attempt) for run in archive.runs() for attempt in run.timeline)


def attempt_columns(attempted: tuple[str, AttemptRecord], target: Target) -> dict[str, Any]:
    """Return the columns of an attempt; one that had not ended when it was exported is cancelled here."""
    run_id, attempt = attempted
    columns = {"run_id": target.run_id(run_id), **attempt.model_dump()}
    if attempt.ended_at is None:
        columns |= {"ended_at": attempt.started_at, "outcome": AttemptOutcome.CANCELLED}
    return columns


def predictions_of(split: Split, archive: Archive) -> Iterator[tuple[str, Predictions]]:
    """Yield the id of each run that has predictions on a split, and these."""
    return archive.predictions(archive.experiment().config.task, split)


def prediction_columns(split: Split, predicted: tuple[str, Predictions], target: Target) -> dict[str, Any]:
    """Return the columns of a run's predictions on a split."""
    run_id, predictions = predicted
    return {"run_id": target.run_id(run_id), "split": split, "n": len(predictions), "data": predictions.pack()}


def openings_of(archive: Archive) -> Iterator[tuple[str, OpeningRecord]]:
    """Yield the name of the experiment and each opening of its test scores."""
    name = archive.experiment().name
    return ((name, opening) for opening in archive.openings())


def opening_columns(opened: tuple[str, OpeningRecord], target: Target) -> dict[str, Any]:
    """Return the columns of an opening; its id is the same at every attempt."""
    name, opening = opened
    return {
        "id": target.run_id(f"opening {opening.number}"),
        "experiment_id": target.experiment_id,
        "experiment_name": name,
        **opening.model_dump(),
    }


ATTEMPTS = "attempts in runs.jsonl"
TABLES = (
    Table(RUNS, Archive.runs, Run, run_columns, 50),
    Table(ATTEMPTS, attempts_of, Attempt, attempt_columns, 500),
    Table(STEPS, Archive.steps, Step, columns_of_run, 5000),
    Table(RUN_FIGURES, Archive.run_figures, RunFigure, columns_of_run, 50),
    *(
        Table(member, partial(predictions_of, split), RunPredictions, partial(prediction_columns, split), 50)
        for member, split in ((PREDICTIONS, Split.VALIDATION), (SEALED_PREDICTIONS, Split.TEST))
    ),
    Table(SEALED_SCORES, Archive.sealed_scores, SealedScore, columns_of_run, 50),
    Table(OPENINGS, openings_of, Opening, opening_columns, 50),
)
"""In the order in which they are written: what belongs to a run comes after it."""
