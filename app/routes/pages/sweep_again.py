"""The sweep form filled in with what was launched before: one run, or a whole experiment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from app.context import Context
from app.db.config import RunConfig
from app.db.models import Experiment, ExperimentOrigin, Run, RunStatus
from app.db.penalty import Regularizer
from app.errors import ConflictError, InvalidError
from app.routes.pages.failing import changed_for, problem_of
from app.routes.pages.sweep_form import BESIDE, FLAGS, TEXTS, Values, grid_text, text_of
from app.services.experiments import get_experiment
from app.services.runs import get_run

TO_CHOOSE = ("name", "dataset_id")
UNOFFERED = "beside"
"""What only the API has a grid over."""


class Again(NamedTuple):
    """The form's values, and the sentence at the field that has to be changed."""

    values: Values
    problem: InvalidError | None = None


def again(context: Context, run_id: str | None, experiment_id: str | None) -> Again:
    """What the form starts with where a run or an experiment is to be launched again; else nothing."""
    if run_id:
        run = get_run(context, run_id)
        _require_launchable(run.experiment)
        before = values_of_run(run)
        if run.status is not RunStatus.FAILED:
            return Again(before)
        after = changed_for(run, before)
        return Again(after, problem_of(run, before, after))
    if experiment_id:
        experiment = get_experiment(context, experiment_id)
        _require_launchable(experiment)
        return Again(values_of_experiment(experiment), _unsaid(experiment))
    return Again({})


def values_of_run(run: Run) -> Values:
    """The form that means this run, beside its baseline."""
    config = run.config
    swept = [] if run.regularizer is Regularizer.NONE or run.lam == 0 else [run.regularizer]
    return _values(run.experiment, config, swept, [run.lam], [run.zeta], [run.seed], {})


def values_of_experiment(experiment: Experiment) -> Values:
    """The form that means all runs of an experiment; sets of regularizers beside them it cannot say."""
    runs = experiment.runs
    return _values(
        experiment,
        experiment.config,
        [name for name in Regularizer if name in {run.regularizer for run in runs} - {Regularizer.NONE}],
        _each(run.lam for run in runs),
        _each(run.zeta for run in runs if RunConfig.model_validate(run.config).reads("zeta"))
        or _each(run.zeta for run in runs),
        _each(run.seed for run in runs),
        {name: values for name, values in experiment.grid.items() if name != UNOFFERED},
    )


def _require_launchable(experiment: Experiment) -> None:
    if experiment.origin is ExperimentOrigin.LOGGED:
        raise ConflictError(
            "What a script of yours logged cannot be launched from here: its settings are in the script, so run that "
            "again."
        )


def _unsaid(experiment: Experiment) -> InvalidError | None:
    if UNOFFERED not in experiment.grid:
        return None
    return InvalidError(
        "The experiment also tries several sets of regularizers beside every run, which this form cannot say and "
        "leaves out: POST /api/experiments takes them.",
        "grid",
    )


def _values(
    experiment: Experiment,
    config: Mapping[str, Any],
    regularizers: Sequence[Regularizer],
    lambdas: Sequence[float],
    zetas: Sequence[float],
    seeds: Sequence[int],
    grid: Mapping[str, Sequence[Any]],
) -> Values:
    values: Values = {name: text_of(config.get(name)) for name in TEXTS if name not in TO_CHOOSE}
    values |= {name: "true" if config.get(name) else "" for name in FLAGS}
    values |= {name: text_of(config.get("beside", {}).get(one)) for name, one in BESIDE.items()}
    return values | {
        "name": "",
        "preset": "",
        "dataset_id": experiment.dataset_id,
        "text_columns": list(config["text_columns"]),
        "regularizers": [one.value for one in regularizers],
        "lambdas": text_of(sorted(lambdas)),
        "zetas": text_of(list(zetas)),
        "seeds": text_of(list(seeds)),
        "grid": [(name, ", ".join(map(grid_text, some))) for name, some in grid.items()],
    }


def _each(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
