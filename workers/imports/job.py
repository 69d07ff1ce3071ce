"""Jobs of an import: write it, or remove what a failed or cancelled one wrote."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import insert, update

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_IMPORT, Import, ImportStatus
from app.db.removal import let_others_write, remove_imported
from app.db.session import acquire_locks
from app.db.types import utcnow
from app.results.archive.reading import CheckedArchive, check_archive, open_archive
from app.sandbox import read_in_sandbox
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.formatting import prefixed_errors
from workers.failure import record_error
from workers.files import fetch
from workers.imports.tables import TABLES, ImportTarget, adopt_dataset, refuse_duplicate, write_experiment
from workers.job_rows import JobProgress, StoppedError, job_sessions


def import_experiment(import_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Check an archive and write its rows, resuming after a kill; then show the experiment, or remove it on failure."""
    sessions = job_sessions(settings)
    begun = JobProgress.begin(sessions, Import, UNFINISHED_IMPORT, ImportStatus.RUNNING, import_id)
    if begun is None or (archive_sha256 := begun[0].file_sha256) is None:
        return ()
    row, progress = begun
    try:
        path = fetch(archive_sha256, row.filename, settings)
        target = _prepare_target(row, path, progress, settings)
        with open_archive(path) as archive:
            written_rows: dict[str, int] = dict(row.written)
            for table in TABLES:
                for batch in table.batches(archive, target, skip=written_rows.get(table.member, 0)):
                    written_rows[table.member] = written_rows.get(table.member, 0) + len(batch)
                    with progress.sessions.begin() as session:
                        progress.write(session, written=dict(written_rows))
                        session.execute(insert(table.row_class), batch)
                    let_others_write(progress.sessions)
            dataset_record = archive.experiment().dataset
            with progress.sessions.begin() as session:
                acquire_locks(session.connection(), "imports")
                placeholder_id = session.get_one(Import, import_id).dataset_id
                if placeholder_id is not None:
                    adopt_dataset(session, dataset_record, target.experiment_id, placeholder_id)
                final_values = {"status": ImportStatus.FINISHED, "finished_at": utcnow(), "file_sha256": None}
                progress.write(session, **final_values, error=None, dataset_id=None)
    except StoppedError:
        return ()
    except Exception as error:  # noqa: BLE001 - any but temporary errors belong in the row
        page = getattr(error, "page", None)
        record_error(error, sessions, progress.update_running, status=ImportStatus.REMOVING, page=page, attempts=0)
        return discard_import(import_id, settings, device)
    Ledger(sessions, open_storage(settings)).release(archive_sha256)
    return ()


def discard_import(import_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Remove an import's rows and archive, and mark it as failed or cancelled."""
    sessions = job_sessions(settings)
    with sessions() as session:
        row = session.get(Import, import_id)
    if row is None or row.status is not ImportStatus.REMOVING:
        return ()
    remove_imported(sessions, row)
    status = ImportStatus.FAILED if row.error else ImportStatus.CANCELLED
    with sessions.begin() as session:
        update_removing = update(Import).where(Import.id == import_id, Import.status == ImportStatus.REMOVING)
        session.execute(update_removing.values(status=status, finished_at=utcnow(), file_sha256=None, written={}))
    Ledger(sessions, open_storage(settings)).release(row.file_sha256)
    return ()


def _prepare_target(row: Import, path: Path, progress: JobProgress, settings: Settings) -> ImportTarget:
    """Return the target of an import; check the archive and write the experiment unless an earlier attempt did."""
    if row.experiment_id is not None:
        return ImportTarget(row.id, row.experiment_id)
    # Use a sandbox, because untrusted content is read here for the first time.
    with prefixed_errors(row.filename):
        checked: CheckedArchive = read_in_sandbox(settings, check_archive, path)
    with progress.sessions.begin() as session:
        acquire_locks(session.connection(), "imports")
        progress.write(session, content=checked.content_hash, total=checked.n_rows)
        refuse_duplicate(session, checked, row.id)
        experiment, is_new_dataset = write_experiment(session, checked)
        dataset_id = experiment.dataset_id if is_new_dataset else None
        progress.write(session, experiment_id=experiment.id, dataset_id=dataset_id)
        return ImportTarget(row.id, experiment.id)
