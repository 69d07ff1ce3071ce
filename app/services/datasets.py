"""Data sets: train and validation rows of a task, uploaded or named."""

import re
from typing import BinaryIO

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.arriving import SEEING_ARRIVING
from app.db.hub_tasks import TASKS, HubName
from app.db.models import Dataset, DatasetOrigin, Experiment
from app.errors import ConflictError, NotFoundError
from app.formats.tables import describe_pair
from app.sandbox import run_in_sandbox
from app.services.names import base_name, clean_name
from app.services.room import freeing


def create_dataset(
    context: Context,
    train: BinaryIO,
    train_filename: str,
    validation: BinaryIO,
    validation_filename: str,
    name: str | None = None,
    origin: DatasetOrigin = DatasetOrigin.UPLOAD,
) -> Dataset:
    """Keep two files of rows and describe their columns.

    They are read in a process of their own, within limits, while the request waits: the form that comes next
    needs the columns.
    """
    settings = context.settings
    names = base_name(train_filename), base_name(validation_filename)
    with context.ledger.arriving() as store:
        stored = [store(stream, settings.max_dataset_bytes) for stream in (train, validation)]
        paths = [context.storage.local(one.sha256) for one in stored]
        description = run_in_sandbox(
            describe_pair,
            paths[0], names[0], paths[1], names[1],
            memory_bytes=settings.parse_memory_bytes,
            seconds=settings.parse_seconds,
        )  # fmt: skip
        with context.ledger.recording(*stored) as session:
            dataset = Dataset(
                name=clean_name(name, re.sub(r"\.[^.]*(\.gz)?$", "", names[0], flags=re.IGNORECASE)),
                origin=origin,
                train_sha256=stored[0].sha256,
                validation_sha256=stored[1].sha256,
                train_filename=names[0],
                validation_filename=names[1],
                n_train=description.n_train,
                n_validation=description.n_validation,
                columns=[column.model_dump(mode="json") for column in description.columns],
            )
            session.add(dataset)
    return dataset


def create_hub_dataset(context: Context, hub_name: HubName) -> Dataset:
    """Add a task of the Hub, whose rows the worker will fetch from the Hub at a pinned revision."""
    task = TASKS[hub_name]
    with context.sessions.begin() as session:
        dataset = Dataset(
            name=task.title,
            origin=DatasetOrigin.HUB,
            hub_name=hub_name.value,
            n_train=task.n_train,
            n_validation=task.n_validation,
            columns=[column.model_dump(mode="json") for column in task.columns()],
        )
        session.add(dataset)
    return dataset


def list_datasets(context: Context) -> list[Dataset]:
    """All data sets, newest first."""
    with context.sessions() as session:
        return list(session.scalars(select(Dataset).order_by(Dataset.created_at.desc(), Dataset.id)))


def list_trainable(context: Context) -> list[Dataset]:
    """Those whose rows can be had here, newest first."""
    return [one for one in list_datasets(context) if one.origin is not DatasetOrigin.NAMED]


def get_dataset(context: Context, dataset_id: str) -> Dataset:
    """One data set."""
    with context.sessions() as session:
        return find_dataset(session, dataset_id)


def find_dataset(session: Session, dataset_id: str) -> Dataset:
    """One data set within a transaction."""
    if (dataset := session.get(Dataset, dataset_id)) is None:
        raise NotFoundError(f"There is no data set {dataset_id!r}; it may have been deleted.", "dataset_id")
    return dataset


@freeing
def delete_dataset(context: Context, dataset_id: str) -> None:
    """Delete a data set that no experiment uses, and its files."""
    with context.sessions.begin() as session:
        dataset = find_dataset(session, dataset_id)
        used = select(exists().where(Experiment.dataset_id == dataset_id))
        if session.scalar(used, execution_options={SEEING_ARRIVING: True}):
            raise ConflictError(
                f"{dataset.name} is used by an experiment, whose runs could not be repeated without it. "
                "Delete the experiment first."
            )
        session.delete(dataset)
    context.ledger.release(dataset.train_sha256, dataset.validation_sha256)
