"""The jobs of an import: write it, or remove what was written of one that failed or was cancelled."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import insert, update

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_IMPORT, Import, ImportStatus
from app.db.removal import let_others_write, remove_imported
from app.db.session import hold
from app.db.types import utcnow
from app.results.archive.reading import Archive, Found, check_archive, open_archive
from app.sandbox import read_in_sandbox
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.formatting import blaming
from workers.failure import record
from workers.files import fetch
from workers.imports.tables import TABLES, Target, adopt_dataset, refuse_a_second, write_experiment
from workers.job_rows import Progress, StoppedError, job_sessions


def import_experiment(import_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Check an archive, write its rows, and show them once all are there.

    Killed at any moment it goes on after the last batch that was written. Refused or failed, it removes what it wrote.
    """
    sessions = job_sessions(settings)
    begun = Progress.begin(sessions, Import, UNFINISHED_IMPORT, ImportStatus.RUNNING, import_id)
    if begun is None or (archived := begun[0].file_sha256) is None:
        return ()
    row, progress = begun
    try:
        path = fetch(archived, row.filename, settings)
        target = _target(row, path, progress, settings)
        with open_archive(path) as archive:
            _write(archive, target, row, progress)
            _finish(archive, target, progress)
    except StoppedError:
        return ()
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        page = getattr(error, "page", None)
        record(error, sessions, progress.row, status=ImportStatus.REMOVING, page=page, attempts=0)
        return discard_import(import_id, settings, device)
    Ledger(sessions, open_storage(settings)).release(archived)
    return ()


def discard_import(import_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Remove what an import wrote and its archive, and say how it ended: failed with its error, else cancelled."""
    sessions = job_sessions(settings)
    with sessions() as session:
        row = session.get(Import, import_id)
    if row is None or row.status is not ImportStatus.REMOVING:
        return ()
    remove_imported(sessions, row)
    ended = ImportStatus.FAILED if row.error else ImportStatus.CANCELLED
    with sessions.begin() as session:
        mine = update(Import).where(Import.id == import_id, Import.status == ImportStatus.REMOVING)
        session.execute(mine.values(status=ended, finished_at=utcnow(), file_sha256=None, written={}))
    Ledger(sessions, open_storage(settings)).release(row.file_sha256)
    return ()


def _target(row: Import, path: Path, progress: Progress, settings: Settings) -> Target:
    """Return where the rows go; at the first attempt the archive is checked and its experiment written."""
    if row.experiment_id is not None:
        return Target(row.id, row.experiment_id)
    # In a process of its own: whatever the archive holds is read here for the first time.
    with blaming(row.filename):
        found = read_in_sandbox(settings, check_archive, path)
    return Target(row.id, _write_experiment(row.id, found, progress))


def _write_experiment(import_id: str, found: Found, progress: Progress) -> str:
    with progress.sessions.begin() as session:
        hold(session.connection(), "imports")
        progress.write(session, content=found.content, total=found.total)
        refuse_a_second(session, found, import_id)
        experiment, is_named = write_experiment(session, found)
        made = experiment.dataset_id if is_named else None
        progress.write(session, experiment_id=experiment.id, dataset_id=made)
        return experiment.id


def _write(archive: Archive, target: Target, row: Import, progress: Progress) -> None:
    """Write the rows in transactions of less than a second, after those that are there already."""
    written: dict[str, int] = dict(row.written)
    for table in TABLES:
        for batch in table.batches(archive, target, skip=written.get(table.member, 0)):
            written[table.member] = written.get(table.member, 0) + len(batch)
            with progress.sessions.begin() as session:
                progress.write(session, written=dict(written))
                session.execute(insert(table.rows), batch)
            let_others_write(progress.sessions)


def _finish(archive: Archive, target: Target, progress: Progress) -> None:
    """Show the experiment."""
    told = archive.experiment().dataset
    with progress.sessions.begin() as session:
        hold(session.connection(), "imports")
        row = session.get_one(Import, target.import_id)
        if row.dataset_id is not None:
            adopt_dataset(session, told, target.experiment_id, row.dataset_id)
        progress.write(
            session, status=ImportStatus.FINISHED, finished_at=utcnow(), error=None, file_sha256=None, dataset_id=None
        )
