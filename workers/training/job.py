"""The fine-tune job: train the run of a row and write the outcome into it."""

import gc
import logging
from collections.abc import Sequence
from functools import partial

import torch
from sqlalchemy import Update, func, or_, select, update

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import (
    RETRIABLE,
    UNFINISHED,
    Attempt,
    AttemptOutcome,
    Experiment,
    FailureCause,
    Phase,
    Run,
    RunStatus,
)
from app.db.session import Sessions
from app.db.types import utcnow
from app.db.work import end_attempts, pause_waiting_runs, queue_for_whole_device, ran_beside_others, slot_name
from workers.failure import classify_error, raise_if_temporary
from workers.job_rows import job_sessions
from workers.training.ddp_launch import train_in_processes
from workers.training.folder import DamagedError, RunFolder, remove_unneeded_folders, step_of
from workers.training.progress import Progress, RunStoppedError
from workers.training.run_spec import (
    OutOfMemoryError,
    RunSpec,
    batch_plan,
    describe_smaller_batch,
    make_run_spec,
    with_smaller_batch,
)
from workers.training.search import advance_search
from workers.training.training import train

logger = logging.getLogger(__name__)


def fine_tune(run_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Train a run, from its last checkpoint if it has any. Return the jobs that its search starts next."""
    # A resumed run gives the same numbers as an uninterrupted one on a CPU. On a GPU they may differ.
    sessions = job_sessions(settings)
    remove_unneeded_folders(settings, sessions)
    folder = RunFolder(settings, run_id)
    slot = slot_name(settings, device)
    update_run = update(Run).where(Run.id == run_id, Run.status.in_(UNFINISHED), Run.worker == slot)
    with folder.locked():
        with folder.log.capture_stderr(), folder.log.send_tail_regularly(partial(_write_log, sessions, update_run)):
            try:
                if (spec := _begin(sessions, run_id, slot, folder)) is not None:
                    _train_with_retry(spec, Progress(sessions, run_id, slot), folder, settings, device)
            except RunStoppedError:  # a user or another worker changed the row, or the run was pruned
                no_other_worker = or_(Run.worker == slot, Run.worker.is_(None))
                _write_log(sessions, update(Run).where(Run.id == run_id, no_other_worker), folder.log.tail())
            except Exception as error:  # noqa: BLE001 - any error of training belongs in the row
                folder.remove_unfinished_checkpoints()  # they may fill the disk
                _fail(error, sessions, update_run, folder)
        folder.remove_unfinished_checkpoints()
        with sessions() as session:
            run = session.get(Run, run_id)
        can_resume = run is not None and (not run.status.final or run.status in RETRIABLE)
        if not can_resume or not folder.checkpoints():
            folder.remove()
    with sessions() as session:
        searches = select(Experiment.id).join(Run).where(Run.id == run_id, Experiment.study.is_not(None))
        experiment_id = session.scalar(searches)
    return () if experiment_id is None else advance_search(sessions, experiment_id)


def _begin(sessions: Sessions, run_id: str, slot: str, folder: RunFolder) -> RunSpec | None:
    """Mark the run as running here and return its spec; None if it was deleted, has ended or runs elsewhere."""
    with sessions.begin() as session:
        run = session.get(Run, run_id, with_for_update=True)
        if run is None or run.status not in UNFINISHED or run.worker not in (None, slot):
            return None
        run.status, run.worker = RunStatus.RUNNING, slot
        run.phase, run.phase_done, run.phase_total = Phase.LOADING, 0, None
        now = utcnow()
        if run.started_at is not None and run.finished_at is not None:
            run.rested_seconds += max(0.0, (now - run.finished_at).total_seconds())
        run.started_at, run.finished_at = run.started_at or now, None
        run.worked_seconds = run.worked_seconds or 0.0
        attempt_number = session.scalar(select(func.max(Attempt.number)).where(Attempt.run_id == run_id))
        folder.log.begin(attempt_number or 1, slot, run.log)
        return make_run_spec(run)


def _train_with_retry(spec: RunSpec, progress: Progress, folder: RunFolder, settings: Settings, device: str) -> None:
    """Train; try once more if saved weights are damaged, and once more with smaller batches if memory ran out."""
    train_run = train if spec.config.processes == 1 else train_in_processes
    try:
        try:
            train_run(spec, progress, folder, settings, device)
        except DamagedError as error:
            logger.warning("%s The run resumes from an earlier step.", error)
            train_run(spec, progress, folder, settings, device)
        return
    except OutOfMemoryError as error:
        with progress.sessions() as session:
            if ran_beside_others(session, session.get_one(Run, progress.run_id)):
                raise
        smaller_config = with_smaller_batch(spec.config)
        if smaller_config is None or spec.config.batch_size != spec.requested_batch_size:
            raise
        logger.warning("Memory ran out. The run continues with a smaller batch.", exc_info=error)
    gc.collect()
    torch.cuda.empty_cache()
    last_saved_step = max(map(step_of, folder.checkpoints()), default=0)
    note = describe_smaller_batch(spec.config, smaller_config, last_saved_step)
    with progress.sessions.begin() as session:
        run = session.get_one(Run, progress.run_id)
        environment = (run.environment or {}) | {"batches": batch_plan(smaller_config)}
        progress.write(session, notes=[*run.notes, note], environment=environment)
    train_run(spec._replace(config=smaller_config), progress, folder, settings, device)


def _fail(error: Exception, sessions: Sessions, update_run: Update, folder: RunFolder) -> None:
    """Write an error into the run's row, or queue the run again if other runs on its device took the memory."""
    raise_if_temporary(error)
    failure = classify_error(error)  # logs unexpected errors
    with sessions.begin() as session:
        run = session.scalar(update_run.values(log=folder.log.tail()).returning(Run))
        if run is None:
            return
        end_attempts(session, Attempt.run_id == run.id, AttemptOutcome.FAILED, failure.sentence)
        if failure.cause is FailureCause.MEMORY and ran_beside_others(session, run):
            queue_for_whole_device(run)
            return
        run.status, run.finished_at = RunStatus.FAILED, utcnow()
        run.error, run.cause, run.error_field = failure.sentence, failure.cause, failure.field
        pause_waiting_runs(session, run)


def _write_log(sessions: Sessions, update_run: Update, tail: str | None) -> None:
    with sessions.begin() as session:
        session.execute(update_run.values(log=tail))
