"""What a search tries next, and which of its runs go on: made anew of the rows each time."""

from collections.abc import Sequence
from statistics import median

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from app.db import job_kinds
from app.db.config import RunConfig, applies
from app.db.job_kinds import Job
from app.db.models import Experiment, Run, RunStatus
from app.db.run_results import RunResults, Selected
from app.db.session import Sessions, hold
from app.db.study import Objective, Search, Trial, trials_of
from app.db.types import utcnow
from isotropy.catalog import Regularizer
from workers.training.progress import Progress, RunStoppedError

optuna.logging.set_verbosity(optuna.logging.WARNING)

MOST_RANDOM = 10
"""Of the trials those that are drawn before the sampler models anything, a quarter of all at most."""
MOST_FAILED = 3
"""So many trials that failed before any succeeded, and nothing more is tried."""


def advance(sessions: Sessions, experiment_id: str) -> list[Job]:
    """Ask for as many trials as may wait or run beside those that do, write their runs, and return their jobs.

    They have the turn of the trial before them. One process at a time asks; what it writes is in the same transaction
    as what it has read. A search that has no trial left is over.
    """
    with sessions.begin() as session:
        hold(session.connection(), f"study {experiment_id}")
        experiment = session.get(Experiment, experiment_id)
        search = experiment.study if experiment is not None else None
        if experiment is None or search is None or search.over:
            return []
        runs = _runs(session, experiment_id)
        if search.paused or any(run.status is RunStatus.PAUSED for run in runs):
            return []
        trials = trials_of(runs)
        over = _why_over(search, trials)
        if over is not None:
            experiment.study = search.model_copy(update={"over": True, "why": over or None})
            return []
        new = []
        room = min(search.at_once - sum(trial.unended for trial in trials), search.trials + 1 - len(trials))
        for _ in range(room):
            asked = _next_runs(search, experiment, trials)
            session.add_all(asked)
            trials.append(Trial(len(trials), asked))
            new += asked
        session.flush()
        return [Job(job_kinds.FINETUNE, run.id, run.priority) for run in new]


def study_of(search: Search, trials: Sequence[Trial]) -> optuna.Study:
    """Optuna's study of the trials but the baseline, with a sampler that draws the next one."""
    seed = int(np.random.SeedSequence((search.seed, len(trials))).generate_state(1)[0])
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=min(MOST_RANDOM, max(2, search.trials // 4)))
    both = search.objective is Objective.BOTH
    study = optuna.create_study(directions=["maximize"] * (2 if both else 1), sampler=sampler)
    study.add_trials([frozen for trial in trials[1:] if (frozen := _frozen(search, trial)) is not None])
    return study


def _next_runs(search: Search, experiment: Experiment, trials: Sequence[Trial]) -> list[Run]:
    asked = study_of(search, trials).ask(_space(search))
    lam = search.lam(asked.params["lam"])
    zeta = search.zeta(asked.params.get("zeta", search.zeta_low))
    first = trials[0].runs
    runs = []
    for place, baseline in enumerate(first):
        coordinates = {"regularizer": search.regularizer, "lam": lam, "zeta": zeta, "seed": baseline.seed}
        config = RunConfig.model_validate(experiment.config.dump() | coordinates)
        runs.append(
            Run.launched(
                len(trials) * len(first) + place,
                config,
                experiment_id=experiment.id,
                status=RunStatus.QUEUED,
                priority=trials[-1].runs[0].priority,
            )
        )
    return runs


def _space(search: Search) -> dict[str, BaseDistribution]:
    low, high = search.axis
    space: dict[str, BaseDistribution] = {"lam": FloatDistribution(low, high)}
    if search.zeta_low < search.zeta_high and applies("zeta", [search.regularizer], None):
        space["zeta"] = FloatDistribution(search.zeta_low, search.zeta_high)
    return space


def _frozen(search: Search, trial: Trial) -> FrozenTrial | None:
    """A trial as Optuna has it; None for one that several objectives have no place for."""
    space = _space(search)
    first = trial.runs[0]
    found = {"lam": min(max(search.place(first.lam), search.axis[0]), search.axis[1]), "zeta": first.zeta}
    params = {name: found[name] for name in space}
    both = search.objective is Objective.BOTH
    values = [trial.performance, trial.isotropy] if both else [trial.performance]
    if trial.unended:
        return create_trial(state=TrialState.RUNNING, params=params, distributions=space)
    if trial.pruned and not both:
        seen = {step: value for run in trial.runs for step, value in _history(run) if value is not None}
        return create_trial(
            state=TrialState.PRUNED, params=params, distributions=space, intermediate_values=dict(sorted(seen.items()))
        )
    known = [value for value in values if value is not None]
    if trial.pruned or len(known) < len(values):
        return create_trial(state=TrialState.FAIL, params=params, distributions=space)
    return create_trial(state=TrialState.COMPLETE, params=params, distributions=space, values=known)


def _why_over(search: Search, trials: Sequence[Trial]) -> str | None:
    """Why nothing more is asked: empty where all is done, None where it goes on."""
    if any(trial.unended for trial in trials):
        return None
    if len(trials) > search.trials:
        return ""
    tried = trials[1:]
    failed = sum(trial.failed for trial in tried)
    if failed >= MOST_FAILED and not any(trial.performance is not None or trial.pruned for trial in tried):
        return f"The first {failed} trials that were not cancelled failed, so no more were tried."
    return None


def _history(run: Run) -> list[tuple[int, float | None]]:
    selection = run.results.selection if run.results else None
    return selection.history if selection else []


def _runs(session: Session, experiment_id: str) -> list[Run]:
    wanted = select(Run).where(Run.experiment_id == experiment_id).order_by(Run.position)
    return list(session.scalars(wanted.options(defer(Run.log), defer(Run.environment))))


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
