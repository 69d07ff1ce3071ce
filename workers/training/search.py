"""Choose the next trials of a search and prune its runs. All state is in the database."""

from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import select
from sqlalchemy.orm import defer

from app.db import job_kinds
from app.db.config import RunConfig, option_applies
from app.db.job_kinds import Job
from app.db.models import Experiment, Run, RunStatus
from app.db.run_results import RunResults, WeightSelection
from app.db.session import Sessions, acquire_locks, study_lock
from app.db.study import Objective, Search, Trial, group_trials
from app.db.types import utcnow
from isotropy.catalog import Regularizer
from workers.training.progress import Progress, RunStoppedError

optuna.logging.set_verbosity(optuna.logging.WARNING)

MAX_RANDOM_TRIALS = 10
"""Trials drawn at random before the sampler fits its model; in a search of under 40, a quarter, but at least two."""
MAX_FAILED_TRIALS = 3
"""The search ends after this many failed trials if none has succeeded."""
MIN_FINISHED_RUNS = 4
"""Minimum number of finished runs whose median may prune another."""

MetricHistory = Sequence[tuple[int, float | None]]
"""Step and metric of each evaluation on the selection rows; None where the metric is undefined."""


def advance_search(sessions: Sessions, experiment_id: str) -> list[Job]:
    """Add as many trials to a search as may run now and return their jobs, or end the search, in one transaction."""
    with sessions.begin() as session:
        acquire_locks(session.connection(), study_lock(experiment_id))
        experiment = session.get(Experiment, experiment_id)
        search = experiment.study if experiment is not None else None
        if experiment is None or search is None or search.over:
            return []
        query = select(Run).where(Run.experiment_id == experiment_id).order_by(Run.position)
        runs = session.scalars(query.options(defer(Run.log), defer(Run.environment))).all()
        if search.paused or any(run.status is RunStatus.PAUSED for run in runs):
            return []
        trials = group_trials(runs)  # the first is the baseline, which ``search.trials`` does not count
        if not any(trial.is_unfinished for trial in trials):
            sampled_trials = trials[1:]
            is_over = len(sampled_trials) >= search.trials
            reason = None
            n_failed = sum(trial.failed for trial in sampled_trials)
            has_success = any(trial.performance is not None or trial.pruned for trial in sampled_trials)
            if not is_over and not has_success:
                is_over = n_failed >= MAX_FAILED_TRIALS
                reason = f"All {n_failed} trials that were not cancelled failed, so no more were started."
            if is_over:
                experiment.study = search.model_copy(update={"over": True, "why": reason})
                return []
        added_runs = []
        n_free = search.at_once - sum(trial.is_unfinished for trial in trials)
        n_left = search.trials + 1 - len(trials)
        for _ in range(min(n_free, n_left)):
            trial_runs = _next_runs(search, experiment, trials)
            session.add_all(trial_runs)
            trials.append(Trial(len(trials), trial_runs))
            added_runs += trial_runs
        session.flush()
        return [Job(job_kinds.FINETUNE, run.id, run.priority) for run in added_runs]


def make_study(search: Search, trials: Sequence[Trial]) -> optuna.Study:
    """Return Optuna's study of the trials without the baseline."""
    seed = int(np.random.SeedSequence((search.seed, len(trials))).generate_state(1)[0])
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=min(MAX_RANDOM_TRIALS, max(2, search.trials // 4)))
    has_two_objectives = search.objective is Objective.PERFORMANCE_AND_ISOTROPY
    study = optuna.create_study(directions=["maximize"] * (2 if has_two_objectives else 1), sampler=sampler)
    study.add_trials([_to_frozen_trial(search, trial) for trial in trials[1:]])
    return study


def _next_runs(search: Search, experiment: Experiment, trials: Sequence[Trial]) -> list[Run]:
    """Return the runs of the trial after ``trials``, one for each seed of the baseline."""
    suggestion = make_study(search, trials).ask(_search_space(search))
    lam = search.lambda_at(suggestion.params["lam"])
    zeta = search.round_zeta(suggestion.params.get("zeta", search.zeta_low))
    baseline_runs = trials[0].runs
    runs = []
    for offset, baseline in enumerate(baseline_runs):
        trial_settings = {"regularizer": search.regularizer, "lam": lam, "zeta": zeta, "seed": baseline.seed}
        config = RunConfig.model_validate(experiment.config.dump() | trial_settings)
        runs.append(
            Run.from_config(
                len(trials) * len(baseline_runs) + offset,
                config,
                experiment_id=experiment.id,
                status=RunStatus.QUEUED,
                priority=trials[-1].runs[0].priority,
            )
        )
    return runs


def _search_space(search: Search) -> dict[str, BaseDistribution]:
    low, high = search.axis
    space: dict[str, BaseDistribution] = {"lam": FloatDistribution(low, high)}
    if search.zeta_low < search.zeta_high and option_applies("zeta", [search.regularizer], None):
        space["zeta"] = FloatDistribution(search.zeta_low, search.zeta_high)
    return space


def _to_frozen_trial(search: Search, trial: Trial) -> FrozenTrial:
    """Return Optuna's record of a trial. With two objectives Optuna has no pruned trials, so these count as failed."""
    space = _search_space(search)
    first_run = trial.runs[0]
    low, high = search.axis
    # Rounding may have moved lambda just outside the range.
    lam_position = min(max(search.axis_position(first_run.lam), low), high)
    coordinates = {"lam": lam_position, "zeta": first_run.zeta}
    params = {name: coordinates[name] for name in space}
    has_two_objectives = search.objective is Objective.PERFORMANCE_AND_ISOTROPY
    objectives = [trial.performance, trial.isotropy] if has_two_objectives else [trial.performance]
    make_trial = partial(create_trial, params=params, distributions=space)
    if trial.is_unfinished:
        return make_trial(state=TrialState.RUNNING)
    if trial.pruned and not has_two_objectives:
        selections = [run.results.selection for run in trial.runs if run.results and run.results.selection]
        intermediate_values = {
            step: value for selection in selections for step, value in selection.history if value is not None
        }
        return make_trial(state=TrialState.PRUNED, intermediate_values=dict(sorted(intermediate_values.items())))
    defined_objectives = [value for value in objectives if value is not None]
    if trial.pruned or len(defined_objectives) < len(objectives):
        return make_trial(state=TrialState.FAIL)
    return make_trial(state=TrialState.COMPLETE, values=defined_objectives)


def should_prune(finished_histories: Sequence[MetricHistory], history: MetricHistory) -> bool:
    """Return whether a run's best metric is below the median of finished runs at the step of its last evaluation."""
    n_min = MIN_FINISHED_RUNS
    pruner = optuna.pruners.MedianPruner(n_startup_trials=n_min, n_warmup_steps=0, n_min_trials=n_min)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for finished_history in finished_histories:
        values_by_step = {step: value for step, value in finished_history if value is not None}
        if values_by_step:
            finished_trial = create_trial(
                state=TrialState.COMPLETE, value=max(values_by_step.values()), intermediate_values=values_by_step
            )
            study.add_trial(finished_trial)
    trial = study.ask()
    for step, value in history:
        if value is not None:
            trial.report(value, step)
    return trial.should_prune()


def prune_if_below_median(progress: Progress, history: MetricHistory, selection: WeightSelection) -> None:
    """If the run's search prunes it, end it and waiting runs of its lambda and zeta, and raise RunStoppedError."""
    with progress.sessions() as session:
        run = session.get(Run, progress.run_id)
        experiment = None if run is None else session.get(Experiment, run.experiment_id)
        search = None if experiment is None else experiment.study
        if run is None or search is None or run.regularizer is Regularizer.NONE or not search.prune:
            return
        is_finished = (Run.experiment_id == run.experiment_id) & (Run.status == RunStatus.FINISHED)
        stored_histories = session.scalars(select(Run.results[("selection", "history")]).where(is_finished))
        finished_histories = [
            [(int(step), value) for step, value in stored_history]
            for stored_history in stored_histories
            if stored_history
        ]
    if not should_prune(finished_histories, history):
        return
    step, last_value = [(step, value) for step, value in history if value is not None][-1]
    values_at_step = [dict(finished_history).get(step) for finished_history in finished_histories]
    finished_values = [value for value in values_at_step if value is not None]
    note = (
        f"Pruned at step {step:,}: {selection.metric} on the selection rows was {last_value:.4g}, and its best "
        f"so far was below {median(finished_values):.4g}, the median of {len(finished_values)} finished runs of "
        "this search at that step."
    )
    with progress.sessions.begin() as session:
        run = session.get_one(Run, progress.run_id)
        progress.write(
            session,
            status=RunStatus.PRUNED,
            phase=None,
            finished_at=utcnow(),
            notes=[*run.notes, note],
            results=RunResults(metrics={}, selection=selection),
        )
        same_trial = (Run.experiment_id == run.experiment_id) & (Run.lam == run.lam) & (Run.zeta == run.zeta)
        siblings = select(Run).where(same_trial, Run.regularizer == run.regularizer, Run.status == RunStatus.QUEUED)
        for sibling in session.scalars(siblings.with_for_update()):
            sibling.status, sibling.finished_at = RunStatus.PRUNED, sibling.finished_at or utcnow()
            sibling.notes = [*sibling.notes, f"Pruned with seed {run.seed} of the same λ and ζ. {note}"]
    raise RunStoppedError
