"""What is tried next: the study is made anew of the rows each time, so that nothing is lost with a process."""

from collections.abc import Sequence

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import select
from sqlalchemy.orm import Session, defer

from app.db import job_kinds
from app.db.config import RunConfig, applies
from app.db.models import Experiment, Run, RunStatus
from app.db.session import Sessions, hold
from app.db.study import Objective, Search, Trial, trials_of
from app.queue import Job

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
        config = RunConfig.model_validate(experiment.config.told() | coordinates)
        runs.append(
            Run(
                experiment_id=experiment.id,
                position=len(trials) * len(first) + place,
                config=config,
                regularizer=config.regularizer,
                lam=config.lam,
                zeta=config.zeta,
                seed=config.seed,
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
