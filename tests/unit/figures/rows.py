"""Rows as the services return them, never stored."""

from app.db.config import RunConfig
from app.db.models import Experiment, Run, RunStatus, Step
from app.db.regularizer_options import Regularizer
from app.results.sweep import Sweep
from tests.run_rows import SHARED

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}


def run(
    lam=0.0,
    seed=0,
    performance=0.8,
    isoscore_star=0.2,
    status=RunStatus.FINISHED,
    steps=(),
    *,
    regularizer=Regularizer.ISTAR,
    zeta=0.2,
    performance_reason=None,
    study=None,
    **options,
):
    chosen = regularizer if lam else Regularizer.NONE
    config = RunConfig(**OPTIONS | options, regularizer=chosen, lam=lam, zeta=zeta, seed=seed)
    return Run(
        id="-".join(map(str, (chosen, lam, zeta, seed, *options.values()))),
        config=config.model_dump(mode="json"),
        regularizer=chosen,
        lam=lam,
        zeta=zeta,
        seed=seed,
        status=status,
        performance=performance,
        performance_reason=performance_reason,
        isoscore_star=isoscore_star,
        steps=list(steps),
        experiment=Experiment(name="sweep", config=SHARED, grid={}, study=study),
    )


def sweep(*runs, **grid):
    return Sweep(runs, grid)


def step(number, task_loss=None, penalty=None, layers=None):
    return Step(step=number, task_loss=task_loss, penalty=penalty, layers=layers)
