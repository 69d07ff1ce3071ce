"""What figures read of steps: all of them, or where they are many some at equal distances."""

import pytest

from app.db.models import Step
from app.results import run_data
from app.results.run_data import list_logged, list_looks
from tests.factories import add_experiment, run_row

pytestmark = pytest.mark.both_databases


@pytest.fixture
def written(context):
    """Write an experiment whose runs have logged these steps, and say its id and theirs."""

    def write(*logged):
        runs = [
            run_row(0.0, seed, steps=[Step(step=step, **values) for step, values in steps.items()])
            for seed, steps in enumerate(logged)
        ]
        return add_experiment(context, *runs), [run.id for run in runs]

    return write


def test_all_values_are_read_where_they_are_few(context, written):
    experiment, (run,) = written({0: {}, 10: {"task_loss": 0.5, "penalty": -0.25}, 20: {"task_loss": 0.25}})
    found = list_logged(context, experiment, "task_loss")
    assert (found.by_run, found.n_loaded, found.total) == ({run: [(10, 0.5), (20, 0.25)]}, 2, 2)
    assert list_logged(context, experiment, "penalty").by_run == {run: [(10, -0.25)]}


def test_of_many_values_the_last_of_every_so_many_steps_is_read(context, written, monkeypatch):
    monkeypatch.setattr(run_data, "MAX_VALUES", 20)
    long = {step: {"task_loss": float(step)} for step in range(1, 101)}
    sparse = {step: {"task_loss": float(step)} for step in (3, 9, 51, 52)} | {10: {"penalty": 1.0}}
    experiment, (first, second) = written(long, sparse)
    found = list_logged(context, experiment, "task_loss")
    assert (found.total, found.n_loaded, found.stride) == (104, 12, 10)
    assert found.by_run[first] == [(step, float(step)) for step in range(10, 101, 10)]
    assert found.by_run[second] == [(9, 9.0), (52, 52.0)]


def test_the_same_is_read_where_a_query_would_have_to_name_too_many_steps(context, written, monkeypatch):
    monkeypatch.setattr(run_data, "MAX_VALUES", 20)
    every = {seed: {step: {"task_loss": float(step)} for step in range(seed, 101, seed)} for seed in (2, 3, 7)}
    experiment, runs = written(*every.values())
    found = list_logged(context, experiment, "task_loss")
    monkeypatch.setattr(run_data, "MAX_NAMED_STEPS", 0)
    assert list_logged(context, experiment, "task_loss") == found
    assert found.by_run[runs[2]] == [(step, float(step)) for step in (7, 14, 28, 35, 49, 56, 70, 77, 84, 98)]


def test_looks_are_read_in_the_same_way(context, written, monkeypatch):
    steps = {step: {"layers": {"mean_cosine": [0.5, step / 100]}} if step % 4 == 0 else {} for step in range(101)}
    experiment, (run,) = written(steps)
    everything = list_looks(context, experiment, ["mean_cosine"])
    assert (everything.total, everything.stride, everything.by_run[run][1]) == (
        26,
        1,
        (4, {"mean_cosine": [0.5, 0.04]}),
    )
    monkeypatch.setattr(run_data, "MAX_VALUES", 10)
    found = list_looks(context, experiment, ["mean_cosine", "unheard_of"])
    assert (found.total, found.n_loaded) == (26, 11)
    assert [step for step, _ in found.by_run[run]] == [0, 8, 20, 28, 40, 48, 60, 68, 80, 88, 100]
    assert found.by_run[run][-1] == (100, {"mean_cosine": [0.5, 1.0], "unheard_of": None})


def test_an_experiment_without_runs_has_nothing(context, written):
    experiment, _ = written()
    assert (list_logged(context, experiment, "task_loss").by_run, list_looks(context, experiment, []).total) == ({}, 0)
