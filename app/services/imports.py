"""Experiments that another Isoscope exported: kept as a file, then written by a worker, hidden until whole."""

from datetime import timedelta
from typing import BinaryIO

from sqlalchemy import delete, select, update

from app.context import Context
from app.db import job_kinds
from app.db.models import UNFINISHED_IMPORT, Import, ImportStatus
from app.db.types import utcnow
from app.queue import Job
from app.services.names import base_name
from isoscope.core.errors import ConflictError, IsoscopeError, NotFoundError

KEPT = timedelta(days=30)
"""So long an import that has ended is remembered."""
FINAL_IMPORT = (ImportStatus.FINISHED, ImportStatus.FAILED, ImportStatus.CANCELLED)
LATEST = 20


def create_import(context: Context, stream: BinaryIO, filename: str) -> Import:
    """Keep an exported experiment, and have a worker check and write it."""
    try:
        stored = context.ledger.store(stream, context.settings.max_upload_bytes)
    except IsoscopeError as error:
        error.field = error.field or "file"
        raise
    with context.ledger.recording(stored) as session:
        ended = Import.status.in_(FINAL_IMPORT) & (Import.finished_at < utcnow() - KEPT)
        # While an import that did not finish has an experiment, its row is what hides that.
        hides_nothing = (Import.status == ImportStatus.FINISHED) | Import.experiment_id.is_(None)
        session.execute(delete(Import).where(ended, hides_nothing))
        row = Import(filename=base_name(filename), file_sha256=stored.sha256)
        session.add(row)
    context.queue.enqueue(Job(job_kinds.IMPORT, row.id))
    return row


def list_imports(context: Context) -> list[Import]:
    """The latest imports, newest first, but for those whose experiment has been deleted since."""
    gone = (Import.status == ImportStatus.FINISHED) & Import.experiment_id.is_(None)
    with context.sessions() as session:
        newest = select(Import).where(~gone).order_by(Import.created_at.desc(), Import.id).limit(LATEST)
        return list(session.scalars(newest))


def get_import(context: Context, import_id: str) -> Import:
    """One import and how far it is."""
    with context.sessions() as session:
        if (row := session.get(Import, import_id)) is None:
            raise NotFoundError(f"There is no import {import_id!r}. It may have ended long ago.")
        return row


def cancel_import(context: Context, import_id: str) -> Import:
    """Stop an import that waits or runs; a worker removes what it has written."""
    with context.sessions.begin() as session:
        unfinished = update(Import).where(Import.id == import_id, Import.status.in_(UNFINISHED_IMPORT))
        removing = unfinished.values(status=ImportStatus.REMOVING, attempts=0, error=None)
        stopped = session.scalar(removing.returning(Import.id))
    row = get_import(context, import_id)
    if stopped is None:
        raise ConflictError(f"Only a queued or running import can be cancelled. This one is {row.status}.")
    context.queue.cancel(Job(job_kinds.IMPORT, import_id))
    context.queue.enqueue(Job(job_kinds.DISCARD, import_id))
    return row
