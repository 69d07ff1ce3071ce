"""Remove what an import wrote that failed or was cancelled, in transactions as short as those that wrote it."""

from sqlalchemy import delete, exists, select

from app.db.arriving import SEEING_ARRIVING
from app.db.models import Dataset, Experiment, Opening, Run, Step
from app.db.session import Sessions
from workers.importing.progress import let_others_write

STEPS_AT_ONCE = 20_000
RUNS_AT_ONCE = 50
SEEING = {SEEING_ARRIVING: True}


def remove_experiment(sessions: Sessions, experiment_id: str) -> None:
    """Remove a hidden experiment: the steps of its runs, then its runs with all that belongs to them, then itself."""
    with sessions() as session:
        ids = session.scalars(select(Run.id).where(Run.experiment_id == experiment_id), execution_options=SEEING).all()
    for run_id in ids:
        while _remove_steps(sessions, run_id) == STEPS_AT_ONCE:
            let_others_write(sessions)
    for start in range(0, len(ids), RUNS_AT_ONCE):
        with sessions.begin() as session:
            session.execute(delete(Run).where(Run.id.in_(ids[start : start + RUNS_AT_ONCE])))
        let_others_write(sessions)
    with sessions.begin() as session:
        session.execute(delete(Opening).where(Opening.experiment_id == experiment_id))
        session.execute(delete(Experiment).where(Experiment.id == experiment_id))


def remove_dataset(sessions: Sessions, dataset_id: str) -> None:
    """Remove a data set that was made for an import, unless another experiment has it by now."""
    used = exists().where(Experiment.dataset_id == dataset_id)
    with sessions.begin() as session:
        session.execute(delete(Dataset).where(Dataset.id == dataset_id, ~used))


def _remove_steps(sessions: Sessions, run_id: str) -> int:
    some = select(Step.step).where(Step.run_id == run_id).limit(STEPS_AT_ONCE)
    with sessions.begin() as session:
        removed = session.execute(
            delete(Step).where(Step.run_id == run_id, Step.step.in_(some)).execution_options(synchronize_session=False)
        )
        return int(removed.rowcount)  # type: ignore[attr-defined]
