"""Rows as the services return them, never stored."""

from app.db.models import Experiment, RunStatus, Step
from app.results.figures.scatter import USUAL, scatter
from app.results.run_table import RunTable
from isotropy.catalog import Regularizer
from tests.factories import SHARED, run_row


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
    row = run_row(
        lam,
        seed,
        regularizer=regularizer,
        zeta=zeta,
        config=options,
        status=status,
        performance=performance,
        performance_reason=performance_reason,
        isoscore_star=isoscore_star,
        steps=list(steps),
        experiment=Experiment(name="sweep", config=SHARED, grid={}, study=study),
    )
    row.id = "-".join(map(str, (row.regularizer, lam, zeta, seed, *options.values())))
    return row


def sweep(*runs, **grid):
    return RunTable(runs, grid)


def step(number, task_loss=None, penalty=None, layers=None):
    return Step(step=number, task_loss=task_loss, penalty=penalty, layers=layers)


def isotropy_performance(runs, metric, look=USUAL):
    return scatter(runs, metric, look._replace(x="isoscore_star"))


def lambda_performance(runs, metric, look=USUAL):
    return scatter(runs, metric, look._replace(x="lam"))
