"""Whether a run of a search goes on: by the median of what finished runs had come to at the same step."""

from collections.abc import Sequence
from statistics import median

import optuna
from optuna.trial import TrialState, create_trial
from sqlalchemy import select

from app.db.models import Experiment, Run, RunStatus
from app.db.regularizer_options import Regularizer
from app.db.run_results import RunResults, Selected
from app.db.session import Sessions
from app.db.types import utcnow
from workers.finetune.progress import Progress, RunStoppedError

LEAST_RUNS = 4
"""Finished runs that a median is taken of at least."""

History = Sequence[tuple[int, float | None]]
"""The metric on the selection rows, by step."""


def median_says_stop(others: Sequence[History], own: History) -> bool:
    """Whether the best of a run so far is below the median of others at its last step, as Optuna has it."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=LEAST_RUNS, n_warmup_steps=0, n_min_trials=LEAST_RUNS)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for other in others:
        seen = {step: value for step, value in other if value is not None}
        if seen:
            done = create_trial(state=TrialState.COMPLETE, value=max(seen.values()), intermediate_values=seen)
            study.add_trial(done)
    trial = study.ask()
    for step, value in own:
        if value is not None:
            trial.report(value, step)
    return trial.should_prune()


def prune(progress: Progress, history: History, told: Selected) -> None:
    """Give a run of a search up, and those of the same lambda and zeta that wait, if the median of others says so.

    ``told`` is what is kept of its evaluations. Raises RunStoppedError where it is given up.
    """
    others = _others(progress.sessions, progress.run_id)
    if others is None or not median_says_stop(others, history):
        return
    step, own = [(step, value) for step, value in history if value is not None][-1]
    seen = [value for other in others if (value := dict(other).get(step)) is not None]
    note = (
        f"Given up at step {step:,}: {told.metric} on the selection rows was {own:.4g}, and what it had come to "
        f"at best was below {median(seen):.4g}, the median of {len(seen)} finished runs of this search at that step."
    )
    with progress.sessions.begin() as session:
        run = session.get_one(Run, progress.run_id)
        progress.write(
            session,
            status=RunStatus.PRUNED,
            phase=None,
            finished_at=utcnow(),
            notes=[*run.notes, note],
            results=RunResults(metrics={}, selection=told),
        )
        alike = (Run.experiment_id == run.experiment_id) & (Run.lam == run.lam) & (Run.zeta == run.zeta)
        waiting = select(Run).where(alike, Run.regularizer == run.regularizer, Run.status == RunStatus.QUEUED)
        for sibling in session.scalars(waiting.with_for_update()):
            sibling.status, sibling.finished_at = RunStatus.PRUNED, sibling.finished_at or utcnow()
            sibling.notes = [*sibling.notes, f"Given up with seed {run.seed} of the same λ and ζ. {note}"]
    raise RunStoppedError


def _others(sessions: Sessions, run_id: str) -> list[History] | None:
    """The histories of the finished runs of its search; None where a run is never given up.

    That is a run of no search, of one that prunes nothing, and a baseline.
    """
    with sessions() as session:
        run = session.get(Run, run_id)
        experiment = None if run is None else session.get(Experiment, run.experiment_id)
        if run is None or experiment is None or experiment.study is None or run.regularizer is Regularizer.NONE:
            return None
        if not experiment.study.prune:
            return None
        history = Run.results[("selection", "history")]
        finished = select(history).where(Run.experiment_id == experiment.id, Run.status == RunStatus.FINISHED)
        return [[(int(step), value) for step, value in one] for one in session.scalars(finished) if one]
