from app.db.models import Experiment, RunStatus, Step
from app.results.run_table import MeasuredValue, RunTable
from isotropy.catalog import Regularizer
from tests.factories import SHARED, run_row

# t quantile for 95% with one degree of freedom.
T95 = 12.7062


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
        lam, seed, regularizer=regularizer, zeta=zeta, config=options, status=status, performance=performance,
        performance_reason=performance_reason, isoscore_star=isoscore_star, steps=list(steps),
        experiment=Experiment(name="sweep", config=SHARED, grid={}, study=study),
    )  # fmt: skip
    row.id = "-".join(map(str, (row.regularizer, lam, zeta, seed, *options.values())))
    return row


def sweep(*runs, **grid):
    return RunTable(runs, grid)


def measured(table, name, read):
    """Return the table with a quantity read from each run; None leaves the run out."""
    copy = RunTable(table.runs, table.grid)
    values = {row.id: read(row) for row in table.runs}
    copy.add_readings(name, {row_id: MeasuredValue(value) for row_id, value in values.items() if value is not None})
    return copy


def step(number, task_loss=None, penalty=None, layers=None):
    return Step(step=number, task_loss=task_loss, penalty=penalty, layers=layers)
