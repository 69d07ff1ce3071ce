"""The experiment of an import and its data set: refused where it is here already, else written, still hidden."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.archive.reading import Found
from app.archive.records import DatasetRecord
from app.db.arriving import SEEING_ARRIVING
from app.db.models import UNFINISHED_IMPORT, Dataset, DatasetOrigin, Experiment, ExperimentOrigin, Import
from app.db.study import Search
from app.db.types import utcnow
from isoscope.core.errors import ConflictError
from isoscope.files.division import SPLITS
from isoscope.files.quoting import Quoting


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
