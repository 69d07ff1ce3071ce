"""Remove experiments in transactions of less than a second, so that others can write in between.

An experiment stays hidden until it is removed. The janitor of a worker resumes interrupted removals.
"""

import time
from datetime import timedelta

from sqlalchemy import delete, exists, or_, select, update

from app.db.models import Activity, Dataset, Experiment, Import, ImportStatus, Opening, Run, Step
from app.db.models.access import IS_LAUNCH
from app.db.session import INCLUDE_HIDDEN, Sessions
from app.db.types import utcnow

STEPS_AT_ONCE = 20_000
RUNS_AT_ONCE = 50
# Pause between two transactions on SQLite, so that other writers get a turn.
PAUSE_SECONDS = 0.1
HIDDEN_ROWS_TOO = {INCLUDE_HIDDEN: True}
# States of an ended import whose rows must all be removed.
UNSUCCESSFUL = (ImportStatus.FAILED, ImportStatus.CANCELLED)
ACTIVITY_RETENTION = timedelta(days=365)


def remove_experiment(sessions: Sessions, experiment_id: str) -> None:
    """Remove a hidden experiment: the steps of its runs, then the runs with all that belongs to them, then its row."""
    with sessions() as session:
        run_ids = session.scalars(
            select(Run.id).where(Run.experiment_id == experiment_id), execution_options=HIDDEN_ROWS_TOO
        ).all()
    for run_id in run_ids:
        batch = select(Step.step).where(Step.run_id == run_id).limit(STEPS_AT_ONCE)
        delete_steps = delete(Step).where(Step.run_id == run_id, Step.step.in_(batch))
        while True:
            with sessions.begin() as session:
                result = session.execute(delete_steps.execution_options(synchronize_session=False))
            if result.rowcount != STEPS_AT_ONCE:  # type: ignore[attr-defined]
                break
            let_others_write(sessions)
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        with sessions.begin() as session:
            session.execute(delete(Run).where(Run.id.in_(run_ids[start : start + RUNS_AT_ONCE])))
        let_others_write(sessions)
    with sessions.begin() as session:
        session.execute(delete(Experiment).where(Experiment.id == experiment_id))


def remove_imported(sessions: Sessions, row: Import) -> None:
    """Remove an import's experiment with its openings, and its data set unless another experiment uses it."""
    if row.experiment_id is not None:
        with sessions.begin() as session:
            session.execute(delete(Opening).where(Opening.experiment_id == row.experiment_id))
        remove_experiment(sessions, row.experiment_id)
    if row.dataset_id is not None:
        in_use = exists().where(Experiment.dataset_id == row.dataset_id)
        with sessions.begin() as session:
            session.execute(delete(Dataset).where(Dataset.id == row.dataset_id, ~in_use))


def resume_removals(sessions: Sessions) -> int:
    """Remove deleted experiments that still exist, and what unsuccessful imports left behind; return their number."""
    with sessions() as session:
        experiment_ids = session.scalars(
            select(Experiment.id).where(Experiment.removed_at.is_not(None)), execution_options=HIDDEN_ROWS_TOO
        ).all()
        has_leftovers = or_(
            Import.experiment_id.is_not(None), Import.dataset_id.is_not(None), Import.file_sha256.is_not(None)
        )
        imports = session.scalars(select(Import).where(Import.status.in_(UNSUCCESSFUL), has_leftovers)).all()
    for experiment_id in experiment_ids:
        remove_experiment(sessions, experiment_id)
    for row in imports:
        remove_imported(sessions, row)
        with sessions.begin() as session:
            session.execute(update(Import).where(Import.id == row.id).values(file_sha256=None, written={}))
    return len(experiment_ids) + len(imports)


def prune_activity(sessions: Sessions) -> int:
    """Delete activity older than a year; return the number of deleted rows. Launches stay, because pages show them."""
    is_launch = IS_LAUNCH & Activity.subject.startswith("/experiments/")
    delete_old = delete(Activity).where(Activity.at < utcnow() - ACTIVITY_RETENTION, ~is_launch)
    with sessions.begin() as session:
        return int(session.execute(delete_old).rowcount)  # type: ignore[attr-defined]


def let_others_write(sessions: Sessions) -> None:
    """Pause between two transactions if the database allows only one writer."""
    if sessions.kw["bind"].dialect.name == "sqlite":
        time.sleep(PAUSE_SECONDS)
