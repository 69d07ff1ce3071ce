"""Rounds of added seeds for undecided settings and their baselines."""

from itertools import count, islice
from typing import Annotated

from pydantic import Field

from app.context import Context
from app.core.evidence import MAX_LOOKS
from app.db.models import Experiment
from app.results.conclusion.conclusion import read_evidence
from app.results.conclusion.proposal import propose_seeds
from app.results.run_table import RunTable
from app.training.experiments import add_runs, get_experiment
from isoscope.core.errors import ConflictError
from isoscope.files.strict import Strict

SeedCount = Annotated[int, Field(ge=1, le=100)]


class SeedRequest(Strict):
    """How many seeds to add."""

    seeds: SeedCount | None = Field(
        None, description="New seeds of each undecided setting and its baseline; null for as many as are proposed."
    )


def add_seeds(context: Context, experiment_id: str, request: SeedRequest) -> Experiment:
    """Queue new seeds of the undecided settings and their baselines. Testing them is one more look.

    Raises:
        ConflictError: runs have not ended, there is nothing to add, or the experiment is no sweep launched here.

    """
    experiment = get_experiment(context, experiment_id)
    if not experiment.accepts_seeds:
        origin = experiment.origin if experiment.study is None else "chosen by a search"
        raise ConflictError(f"Seeds can be added to sweeps launched here; these runs were {origin}.")
    if not experiment.ended:
        raise ConflictError("The experiment has not ended. Add seeds when all its runs have.")
    sweep = RunTable.from_experiment(experiment)
    proposal = propose_seeds(read_evidence(context, sweep), sweep)
    if proposal is None:
        raise ConflictError(f"Nothing to add: no setting is undecided, or all were tested {MAX_LOOKS} times.")
    config_by_setting = {sweep.setting(run): run.launched_config for run in reversed(experiment.runs)}
    used_seeds = {run.seed for run in experiment.runs}
    seeds = islice((seed for seed in count() if seed not in used_seeds), request.seeds or proposal.seeds)
    configs = [
        config_by_setting[setting].model_copy(update={"seed": seed}) for seed in seeds for setting in proposal.settings
    ]
    return add_runs(context, experiment_id, configs)
