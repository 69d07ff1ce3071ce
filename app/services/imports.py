"""Experiments that another Isoscope exported: read within limits, then written as a whole or not at all."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from app.archive.logged_records import LoggedConfig
from app.archive.reading import Archive, Found, check_archive, open_archive
from app.archive.records import DatasetRecord, RunRecord
from app.context import Context
from app.db.models import Dataset, DatasetOrigin, Experiment, ExperimentOrigin, Run, RunFigure, RunStatus, Split, Step
from app.db.predictions import write_predictions
from app.db.session import hold
from app.db.study import Search
from app.db.trivial import learning_of
from app.db.types import new_id, utcnow
from app.errors import ConflictError, TooLargeError
from app.formats.wording import blaming
from app.sandbox import run_in_sandbox
from app.services.experiments import get_experiment
from app.services.names import base_name
from app.storage.storage import BLOCK_BYTES

STEPS_AT_ONCE = 5000
RUNS_AT_ONCE = 50
MAX_STEPS_ON_SQLITE = 2_000_000
"""Of one transaction, so that nothing is ever half here; these are written in less time than other writers wait."""
BYTES_AT_ONCE = 2**21
"""Of lines: as objects and as rows they take some twenty times as much memory."""


def import_experiment(context: Context, stream: BinaryIO, filename: str) -> Experiment:
    """Add an exported experiment under ids of its own.

    It is read in a process of its own, within limits, while the request waits. Its runs are as they were; those that
    had not ended are cancelled here, since whoever works on them is elsewhere. An experiment that was launched here, or
    that is here already as it was at the same moment, is refused.
    """
    settings = context.settings
    with tempfile.NamedTemporaryFile(dir=settings.root, prefix="import-", suffix=".zip") as file:
        _copy(stream, file, settings.max_upload_bytes)
        path = Path(file.name)
        with blaming(base_name(filename), "file"):
            found = run_in_sandbox(
                check_archive, path, memory_bytes=settings.parse_memory_bytes, seconds=settings.parse_seconds
            )
        with open_archive(path) as archive, context.sessions.begin() as session:
            hold(session.connection(), "imports")
            _refuse_what_takes_long(session, found)
            _refuse_a_second(session, found)
            experiment_id = _write(session, archive, found)
    return get_experiment(context, experiment_id)


def _copy(stream: BinaryIO, file: Any, most: int) -> None:
    size = 0
    while block := stream.read(BLOCK_BYTES):
        size += len(block)
        if size > most:
            raise TooLargeError(
                f"The file has more than {most:,} bytes, the limit here: have ISOSCOPE_MAX_UPLOAD_BYTES raised by "
                "whoever runs this server.",
                "file",
            )
        file.write(block)
    file.flush()


def _refuse_what_takes_long(session: Session, found: Found) -> None:
    if session.get_bind().dialect.name == "sqlite" and found.steps > MAX_STEPS_ON_SQLITE:
        raise TooLargeError(
            f"The experiment has {found.steps:,} steps, and SQLite takes up to {MAX_STEPS_ON_SQLITE:,} at once: "
            "nothing else could be written meanwhile. Import it where the rows are in PostgreSQL.",
            "file",
        )


def _refuse_a_second(session: Session, found: Found) -> None:
    imported = (one for one in session.scalars(_imported()) if (one.source or {}).get("content") == found.content)
    if there := session.get(Experiment, found.experiment.id) or next(imported, None):
        raise ConflictError(f"It is here already: {there.name}.", "file", page=f"/experiments/{there.id}")


def _imported() -> Any:
    return select(Experiment).where(Experiment.origin == ExperimentOrigin.IMPORTED)


def _write(session: Session, archive: Archive, found: Found) -> str:
    told = found.experiment
    dataset = told.dataset.model_dump(mode="json", exclude={"columns"})
    experiment = Experiment(
        name=told.name,
        dataset=_dataset(session, told.dataset),
        config=_said(told.config),
        grid=told.model_dump(mode="json")["grid"],
        origin=ExperimentOrigin.IMPORTED,
        study=_study(told.study),
        created_at=told.created_at,
        source={
            "content": found.content,
            "isoscope": found.manifest.isoscope,
            "exported_at": found.manifest.exported_at.isoformat(),
            "imported_at": utcnow().isoformat(),
            "experiment_id": told.id,
            "origin": told.origin,
            "dataset": dataset,
        },
    )
    session.add(experiment)
    session.flush()
    experiment_id = experiment.id
    ids: dict[str, str] = {}
    for runs in _batches(archive, archive.runs(), RUNS_AT_ONCE):
        ids |= {run.id: new_id() for run in runs}
        session.execute(insert(Run), [_run(run) | {"id": ids[run.id], "experiment_id": experiment_id} for run in runs])
    for steps in _batches(archive, archive.steps(), STEPS_AT_ONCE):
        session.execute(insert(Step), [_of_run(step.model_dump(), ids) for step in steps])
    for figures in _batches(archive, archive.run_figures(), RUNS_AT_ONCE):
        session.execute(insert(RunFigure), [_of_run(figure.model_dump(), ids) for figure in figures])
    for run_id, predictions in archive.predictions(told.config.task):
        write_predictions(session, ids[run_id], Split.VALIDATION, predictions)
        session.flush()
        session.expunge_all()
    return experiment_id


def _dataset(session: Session, told: DatasetRecord) -> Dataset:
    """The data set of the same files or of the same task of the Hub, or that of an earlier import, or a name for it."""
    files = (told.train_sha256, told.validation_sha256)
    wanted = select(Dataset).order_by(Dataset.created_at)
    if None not in files:
        wanted = wanted.where(Dataset.train_sha256 == files[0], Dataset.validation_sha256 == files[1])
        found = session.scalar(wanted.limit(1))
    elif told.hub_name is not None:
        found = session.scalar(wanted.where(Dataset.hub_name == told.hub_name.value).limit(1))
    else:
        found = None
    return found or _named_before(session, told) or _named(told)


def _named_before(session: Session, told: DatasetRecord) -> Dataset | None:
    wanted = told.model_dump(mode="json", exclude={"columns"})
    return next((one.dataset for one in session.scalars(_imported()) if (one.source or {}).get("dataset") == wanted),
                None)  # fmt: skip


def _named(told: DatasetRecord) -> Dataset:
    return Dataset(
        name=told.name,
        origin=DatasetOrigin.NAMED,
        hub_name=told.hub_name.value if told.hub_name else None,
        train_filename=told.train_filename,
        validation_filename=told.validation_filename,
        n_train=told.n_train,
        n_validation=told.n_validation,
        columns=[column.model_dump(mode="json") for column in told.columns],
    )


def _study(search: Search | None) -> dict[str, Any] | None:
    """A search that was not over when it was exported is over here: its trials are made elsewhere."""
    if search is None:
        return None
    ended = search if search.over else search.model_copy(update={"over": True, "why": "It goes on where it came from."})
    return ended.model_dump(mode="json")


def _run(run: RunRecord) -> dict[str, Any]:
    """The columns of a run; one that had not ended has ended here, and says so."""
    columns = {name: getattr(run, name) for name in RunRecord.model_fields if name != "id"}
    columns["config"] = _said(run.config)
    columns["model"] = run.config.model
    columns["results"] = run.results.model_dump(mode="json", exclude_unset=True) if run.results else None
    columns["learning"] = learning_of(columns["results"])
    if not run.status.final:
        columns["status"] = RunStatus.CANCELLED
        columns["notes"] = [*run.notes, f"It was {run.status} when it was exported, and does not go on here."]
    return columns


def _said(config: BaseModel) -> dict[str, Any]:
    """A configuration as its row has it: of a script's nothing that was not said."""
    return config.model_dump(mode="json", exclude_unset=isinstance(config, LoggedConfig))


def _of_run(columns: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The columns of what belongs to a run, under the run's id here."""
    return {"run_id": ids[columns.pop("run")], **columns}


def _batches(archive: Archive, rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Some rows at a time, of at most so many bytes in the archive but for the last of them."""
    batch: list[Any] = []
    begun = archive.passed
    for row in rows:
        batch.append(row)
        if len(batch) == size or archive.passed - begun >= BYTES_AT_ONCE:
            yield batch
            batch, begun = [], archive.passed
    if batch:
        yield batch
