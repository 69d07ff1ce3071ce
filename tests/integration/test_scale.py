import pytest
from sqlalchemy import func, select

from app.db.models import Run, RunStatus, Step
from benchmarks._many_runs import fill
from tests.queries import queries_of

FEW_RUNS, MANY_RUNS, STEPS = 20, 200, 12

PAGES = {
    "list of experiments": "/experiments", "list searched": "/experiments?q=lam>0", "experiment": "/experiments/{id}",
    "table of its runs": "/experiments/{id}/runs",
    "its runs searched and sorted": "/experiments/{id}/runs?q=lam>0 iso>0.2&sort=-performance",
    "its runs over the API": "/api/experiments/{id}/runs?q=lam>0&limit=50",
    "all experiments over the API": "/api/experiments", "all runs over the API": "/api/runs?q=lam>0&sort=-iso&limit=50",
    "scatter": "/experiments/{id}/figures/isotropy.json",
    "scatter over the API": "/api/experiments/{id}/figures/isotropy", "runs across experiments": "/compare/runs",
    "queue": "/queue", "home": "/", "a run": "/runs/{run}",
}  # fmt: skip


def test_ten_times_the_runs_take_the_same_statements(client, context):
    def statements(path):
        return [sql for sql, _ in queries_of(context, lambda: client.get(path).raise_for_status())]

    counts = []
    for runs in (FEW_RUNS, MANY_RUNS):
        experiment = fill(context, runs, 1, STEPS, waiting=2)[0]
        with context.sessions() as session:
            finished = (Run.experiment_id == experiment, Run.status == RunStatus.FINISHED)
            run = session.scalar(select(Run.id).where(*finished))
        # Predictions are read in batches, once for runs that have ended: see app/results/conclusion/conclusion.py.
        client.get(PAGES["experiment"].format(id=experiment, run=run))
        calls = {name: statements(path.format(id=experiment, run=run)) for name, path in PAGES.items()}
        counts.append({name: len(sql) for name, sql in calls.items()})
        with_steps = {name for name, sql in calls.items() if any("FROM steps" in text for text in sql)}
        assert with_steps <= {"experiment", "a run"}
    assert counts[0] == counts[1]
    assert all(0 < count <= 15 for count in counts[0].values()), counts[0]


@pytest.mark.both_databases
def test_benchmark_database_has_requested_rows(context):
    experiments = fill(context, 50, 3, STEPS, waiting=5)
    with context.sessions() as session:
        of_each = session.execute(select(Run.experiment_id, func.count()).group_by(Run.experiment_id)).all()
        assert sorted(of_each) == sorted(zip(experiments, (17, 17, 16), strict=True))
        assert session.scalar(select(func.count()).select_from(Step)) == 45 * STEPS
        assert session.scalar(select(func.count()).where(Run.status == RunStatus.QUEUED)) == 5
