import pytest
from sqlalchemy import update

from app.db.models import Run, RunStatus, Step
from app.db.types import utcnow
from app.results import run_data
from app.results.run_data import list_layer_measurements, list_logged
from tests.factories import add_experiment, run_row


def write_runs(context, *logged):
    runs = [
        run_row(0.0, seed, steps=[Step(step=step, **values) for step, values in steps.items()])
        for seed, steps in enumerate(logged)
    ]
    return add_experiment(context, *runs), [run.id for run in runs]


def test_few_values_are_read_completely(context, monkeypatch):
    experiment, (run,) = write_runs(context, {0: {}, 10: {"task_loss": 0.5, "penalty": -0.25}, 20: {"task_loss": 0.25}})
    logged = list_logged(context, experiment, "task_loss")
    assert (logged.points_by_run, logged.total) == ({run: [(10, 0.5), (20, 0.25)]}, 2)
    assert list_logged(context, experiment, "penalty").points_by_run == {run: [(10, -0.25)]}
    experiment, _ = write_runs(context)
    assert (
        list_logged(context, experiment, "task_loss").points_by_run,
        list_layer_measurements(context, experiment, []).total,
    ) == ({}, 0)
    monkeypatch.setattr(run_data, "MAX_VALUES", 20)
    steps_by_stride = {
        seed: {step: {"task_loss": float(step)} for step in range(seed, 101, seed)} for seed in (2, 3, 7)
    }
    experiment, runs = write_runs(context, *steps_by_stride.values())
    logged = list_logged(context, experiment, "task_loss")
    monkeypatch.setattr(run_data, "MAX_NAMED_STEPS", 0)
    assert list_logged(context, experiment, "task_loss") == logged
    assert logged.points_by_run[runs[2]] == [(step, float(step)) for step in (7, 14, 28, 35, 49, 56, 70, 77, 84, 98)]


@pytest.mark.both_databases
def test_many_values_are_read_at_equal_strides(context, monkeypatch):
    monkeypatch.setattr(run_data, "MAX_VALUES", 20)
    long = {step: {"task_loss": float(step)} for step in range(1, 101)}
    sparse = {step: {"task_loss": float(step)} for step in (3, 9, 51, 52)} | {10: {"penalty": 1.0}}
    experiment, (first, second) = write_runs(context, long, sparse)
    logged = list_logged(context, experiment, "task_loss")
    assert (logged.total, sum(map(len, logged.points_by_run.values())), logged.stride) == (104, 12, 10)
    assert logged.points_by_run[first] == [(step, float(step)) for step in range(10, 101, 10)]
    assert logged.points_by_run[second] == [(9, 9.0), (52, 52.0)]


@pytest.mark.both_databases
def test_layers_are_sampled_like_values(context, monkeypatch):
    steps = {step: {"layers": {"mean_cosine": [0.5, step / 100]}} if step % 4 == 0 else {} for step in range(101)}
    experiment, (run,) = write_runs(context, steps)
    all_layers = list_layer_measurements(context, experiment, ["mean_cosine"])
    assert (all_layers.total, all_layers.stride) == (26, 1)
    assert all_layers.points_by_run[run][1] == (4, {"mean_cosine": [0.5, 0.04]})
    monkeypatch.setattr(run_data, "MAX_VALUES", 10)
    sampled = list_layer_measurements(context, experiment, ["mean_cosine", "unheard_of"])
    assert (sampled.total, sum(map(len, sampled.points_by_run.values()))) == (26, 11)
    assert [step for step, _ in sampled.points_by_run[run]] == [0, 8, 20, 28, 40, 48, 60, 68, 80, 88, 100]
    assert sampled.points_by_run[run][-1] == (100, {"mean_cosine": [0.5, 1.0], "unheard_of": None})


@pytest.mark.parametrize(
    ("state", "is_read_again"),
    [
        ({"status": RunStatus.FINISHED}, False),
        ({"status": RunStatus.QUEUED}, False),
        ({"status": RunStatus.QUEUED, "worked_seconds": 1.0}, True),
        ({"status": RunStatus.RUNNING}, True),
        ({"status": RunStatus.STREAMING}, True),
    ],
)
@pytest.mark.parametrize("figure", ["learning", "watched"])
def test_curves_are_read_again_only_if_runs_may_have_logged(client, context, state, is_read_again, figure):
    def make_values(value):
        return {"task_loss": value, "layers": {"mean_cosine": [value]}}

    experiment, (first, second) = write_runs(context, {10: make_values(0.5)}, {})
    with context.sessions.begin() as session:
        session.execute(update(Run).where(Run.id == second).values(**state))

    def read_curve():
        (trace, *_) = client.get(f"/experiments/{experiment}/figures/{figure}.json?measure=mean_cosine").json()["data"]
        return trace["y"]

    assert read_curve() == [0.5]
    with context.sessions.begin() as session:
        session.execute(update(Step).where(Step.run_id == first).values(**make_values(0.25)))
    assert read_curve() == [0.25 if is_read_again else 0.5]
    with context.sessions.begin() as session:
        session.execute(update(Run).where(Run.id == first).values(finished_at=utcnow()))
    assert read_curve() == [0.25]
