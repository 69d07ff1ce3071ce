"""Searches for the best lambda and zeta: an experiment whose runs a worker asks for, one trial after another."""

from typing import Annotated

from pydantic import Field

from app.context import Context
from app.db.config import Seed, TrainingOptions, applies
from app.db.models import Experiment, Run
from app.db.options.measuring import Checkpoint
from app.db.options.option import Option, options_of
from app.db.regularizer_options import Regularizer
from app.db.study import HOW_LONG, SEARCHED, Search
from app.db.types import RowId
from app.services.experiments import get_experiment
from app.services.names import clean_name
from app.services.sweeps import MAX_RUNS, SweepPlan, SweepRequest, plan_sweep
from isoscope.core.errors import InvalidError

OF_A_SWEEP = options_of(SweepRequest)


class StudyRequest(TrainingOptions):
    """A configuration, and what is searched."""

    name: Annotated[str | None, Field(max_length=200), OF_A_SWEEP["name"]] = None
    dataset_id: Annotated[RowId, OF_A_SWEEP["dataset_id"]]
    seeds: Annotated[
        list[Seed],
        Field(min_length=1, max_length=20),
        Option("Seeds", "Of every trial, and of the baseline.", HOW_LONG, more=OF_A_SWEEP["seeds"].more),
    ] = Field([0])
    search: Annotated[Search, Option("Search", "Ranges in which the best λ and ζ are searched.", SEARCHED)] = Field(
        default_factory=Search
    )


def plan_study(context: Context, request: StudyRequest, *, ask_hub: bool = True) -> SweepPlan:
    """Check a request as a sweep over the ends of its ranges would be.

    Raises InvalidError at the field that is wrong.
    """
    search = request.search
    seeds = list(dict.fromkeys(request.seeds))
    if (total := (search.trials + 1) * len(seeds)) > MAX_RUNS:
        raise InvalidError(
            f"Expected at most {MAX_RUNS} runs in one experiment, got {total}: {search.trials} trials and the "
            f"baseline, with {len(seeds)} seeds each. Take fewer.",
            "trials",
        )
    if search.prune and request.checkpoint is Checkpoint.LAST and request.patience is None:
        raise InvalidError(
            "Pruning needs evaluations on the selection rows. Choose the best checkpoint or a patience.",
            "prune",
        )
    if search.zeta_low < search.zeta_high and not applies("zeta", [search.regularizer], None):
        raise InvalidError(
            f"Expected one zeta for {search.regularizer}, which reads none, got a range. Make both ends the same.",
            "zeta_high",
        )
    options = request.model_dump(include=set(TrainingOptions.model_fields))
    sweep = SweepRequest.model_validate(
        options
        | {
            "dataset_id": request.dataset_id,
            "regularizers": [search.regularizer],
            "lambdas": [search.lam_low, search.lam_high],
            "zetas": [search.zeta_low],
            "seeds": seeds,
        }
    )
    return plan_sweep(context, sweep, ask_hub=ask_hub)


def create_study(context: Context, request: StudyRequest) -> Experiment:
    """Write the experiment with its baseline, and hand that to the workers, who ask for everything else."""
    plan = plan_study(context, request)
    context.require_room()
    baseline = [run for run in plan.runs if run.regularizer is Regularizer.NONE]
    with context.sessions.begin() as session:
        experiment = Experiment(
            name=clean_name(request.name, f"Search with {plan.config.model} on {plan.dataset.name}"),
            dataset_id=plan.dataset.id,
            config=plan.config,
            grid={},
            study=request.search.model_copy(update={"paused": False, "over": False, "why": None}),
            runs=[
                Run(
                    position=position,
                    config=config,
                    regularizer=config.regularizer,
                    lam=config.lam,
                    zeta=config.zeta,
                    seed=config.seed,
                )
                for position, config in enumerate(baseline)
            ],
        )
        session.add(experiment)
    return get_experiment(context, experiment.id)
