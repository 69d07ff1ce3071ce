"""Which member of an archive becomes rows of which table, and what an import must not write twice."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
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
from app.db.session import SEEING_ARRIVING
from app.db.study import Search
from app.db.types import utcnow
from app.results.archive import container
from app.results.archive.reading import Archive, Found
from app.results.archive.records import AttemptRecord, DatasetRecord, RunRecord
from app.results.archive.sealed_records import OpeningRecord
from isoscope.core.errors import ConflictError
from isoscope.files.division import SPLITS
from isoscope.files.text import Quoting

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


OF_TABLES_OF_THEIR_OWN = ("timeline", "tags")


def run_columns(run: RunRecord, target: Target) -> dict[str, Any]:
    """Return the columns of a run; one that had not ended is cancelled here, and says so."""
    columns = {name: getattr(run, name) for name in RunRecord.model_fields if name not in OF_TABLES_OF_THEIR_OWN}
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


def tags_of(archive: Archive) -> Iterator[tuple[str, str]]:
    """Yield the id of each run and its tags, one at a time."""
    return ((run.id, tag) for run in archive.runs() for tag in run.tags)


def tag_columns(tagged: tuple[str, str], target: Target) -> dict[str, Any]:
    """Return the columns of a tag."""
    run_id, tag = tagged
    return {"run_id": target.run_id(run_id), "tag": tag}


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
TAGS = "tags in runs.jsonl"
TABLES = (
    Table(container.RUNS, Archive.runs, Run, run_columns, 50),
    Table(ATTEMPTS, attempts_of, Attempt, attempt_columns, 500),
    Table(TAGS, tags_of, RunTag, tag_columns, 500),
    Table(container.STEPS, Archive.steps, Step, columns_of_run, 5000),
    Table(container.RUN_FIGURES, Archive.run_figures, RunFigure, columns_of_run, 50),
    *(
        Table(member, partial(predictions_of, split), RunPredictions, partial(prediction_columns, split), 50)
        for member, split in ((container.PREDICTIONS, Split.VALIDATION), (container.SEALED_PREDICTIONS, Split.TEST))
    ),
    Table(container.SEALED_SCORES, Archive.sealed_scores, SealedScore, columns_of_run, 50),
    Table(container.OPENINGS, openings_of, Opening, opening_columns, 50),
)
"""In the order in which they are written: what belongs to a run comes after it."""


def refuse_a_second(session: Session, found: Found, import_id: str) -> None:
    """Raise ConflictError where the experiment is here already, or on its way in by another import."""
    removed = select(Experiment).where(Experiment.id == found.experiment.id, Experiment.removed_at.is_not(None))
    if gone := session.scalar(removed, execution_options={SEEING_ARRIVING: True}):
        raise ConflictError(f"{gone.name} is being deleted. Import it again when that is done.", "file")
    same = (one for one in _imported(session) if (one.source or {}).get("content") == found.content)
    if there := session.get(Experiment, found.experiment.id) or next(same, None):
        raise ConflictError(f"It is here already: {there.name}.", "file", page=f"/experiments/{there.id}")
    others = select(Import).where(Import.id != import_id, Import.status.in_(UNFINISHED_IMPORT))
    if going_on := session.scalar(others.where(Import.content == found.content).limit(1)):
        raise ConflictError("It is being imported already.", "file", page=f"/imports/{going_on.id}")


def write_experiment(session: Session, found: Found) -> tuple[Experiment, bool]:
    """Return the experiment, written without its runs, and whether its data set was made for it."""
    told = found.experiment
    known = find_dataset(session, told.dataset)
    experiment = Experiment(
        name=told.name,
        dataset=known or _named(told.dataset),
        config=told.config,
        grid=told.model_dump(mode="json")["grid"],
        origin=ExperimentOrigin.IMPORTED,
        study=_ended(told.study),
        created_at=told.created_at,
        source={
            "content": found.content,
            "isoscope": found.manifest.isoscope,
            "exported_at": found.manifest.exported_at.isoformat(),
            "imported_at": utcnow().isoformat(),
            "experiment_id": told.id,
            "origin": told.origin,
            "dataset": _source(told.dataset),
        },
    )
    session.add(experiment)
    session.flush()
    return experiment, known is None


def adopt_dataset(session: Session, told: DatasetRecord, experiment_id: str, made_id: str) -> None:
    """Replace the data set that was made for an experiment where one like it has come meanwhile."""
    if (known := find_dataset(session, told)) is None:
        return
    session.execute(update(Experiment).where(Experiment.id == experiment_id).values(dataset_id=known.id))
    session.execute(delete(Dataset).where(Dataset.id == made_id))


def find_dataset(session: Session, told: DatasetRecord) -> Dataset | None:
    """Return the data set of the same files, of the same task of the Hub, or of an earlier import."""
    files = (told.train_sha256, told.validation_sha256)
    wanted = select(Dataset).order_by(Dataset.created_at)
    found = None
    if None not in files:
        wanted = wanted.where(Dataset.train_sha256 == files[0], Dataset.validation_sha256 == files[1])
        found = next((one for one in session.scalars(wanted) if _is_read_alike(one, told)), None)
    elif told.hub_name is not None:
        found = session.scalar(wanted.where(Dataset.hub_name == told.hub_name.value).limit(1))
    source = _source(told)
    named = (one.dataset for one in _imported(session) if (one.source or {}).get("dataset") == source)
    return found or next(named, None)


def _is_read_alike(dataset: Dataset, told: DatasetRecord) -> bool:
    """Whether quotes of the same files are read in the same way."""
    readings = {str(split): quoting for split, quoting in (told.quoting or {}).items()}
    return all(dataset.quoting_of(split) is readings.get(split, Quoting.TEXT) for split in SPLITS)


def _imported(session: Session) -> Iterator[Experiment]:
    yield from session.scalars(select(Experiment).where(Experiment.origin == ExperimentOrigin.IMPORTED))


def _source(told: DatasetRecord) -> dict[str, Any]:
    # Without what earlier exports did not tell, so that an experiment finds the data set of one that came before.
    return told.model_dump(mode="json", exclude={"columns"} if told.quoting else {"columns", "quoting"})


def _named(told: DatasetRecord) -> Dataset:
    return Dataset(
        name=told.name,
        origin=DatasetOrigin.NAMED,
        hub_name=told.hub_name.value if told.hub_name else None,
        train_filename=told.train_filename,
        validation_filename=told.validation_filename,
        n_train=told.n_train,
        n_validation=told.n_validation,
        columns=told.columns,
    )


def _ended(search: Search | None) -> Search | None:
    """A search that was not over when it was exported is over here: its trials are made elsewhere."""
    if search is None:
        return None
    return search if search.over else search.model_copy(update={"over": True, "why": "It goes on where it came from."})
