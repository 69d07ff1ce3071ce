import io
import json
import statistics
from pathlib import Path

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import app.playground
from app.db.models import RunStatus
from app.db.run_results import RunResults, WeightSelection
from app.db.study import Objective, Search, group_trials, pareto_front
from tests.factories import run_row
from workers.files import make_jsonl, make_npy
from workers.playground import gaussian_example
from workers.training.search import MIN_FINISHED_RUNS, make_study, should_prune

VALUES = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5])


def run(position, lam, *, seed=0, performance=None, isotropy=None, status=RunStatus.FINISHED, zeta=0.2):
    return run_row(
        lam, seed, zeta=zeta, position=position, status=status, performance=performance, isoscore_star=isotropy
    )


@given(st.lists(st.tuples(VALUES, VALUES), max_size=12))
def test_pareto_front_matches_optuna_and_brute_force(points):
    study = optuna.create_study(directions=["maximize", "maximize"])
    for point in points:
        study.add_trial(optuna.trial.create_trial(values=list(point)))
    assert pareto_front(points) == sorted(trial.number for trial in study.best_trials)
    brute = [
        i
        for i, candidate in enumerate(points)
        if not any(rival[0] >= candidate[0] and rival[1] >= candidate[1] and rival != candidate for rival in points)
    ]
    assert pareto_front(points) == brute


def test_trials_group_runs_with_seeds_of_baseline():
    runs = [run(0, 0, performance=0.5), run(1, 0, seed=1, performance=0.7), run(2, 1.0, performance=0.9)]
    runs.append(run(3, 1.0, seed=1, status=RunStatus.RUNNING))
    baseline, first = group_trials(runs)
    assert (baseline.number, baseline.performance, baseline.is_unfinished) == (0, pytest.approx(0.6), False)
    assert (first.number, first.performance, first.is_unfinished) == (1, None, True)


@pytest.mark.parametrize("least_size", [None, 0.01])
def test_lambda_axis_is_invertible(least_size):
    search = Search(lam_low=-5, lam_high=0.5, least_size=least_size)
    for lam in (-5.0, -1.234, -0.02, 0.02, 0.5):
        assert search.lambda_at(search.axis_position(lam)) == pytest.approx(lam)
    low, high = search.axis
    assert low < 0 < high
    assert (search.lambda_at(low), search.lambda_at(high)) == (-5, 0.5)


def test_logarithmic_axis_is_uniform_in_decades():
    search = Search(lam_low=0.01, lam_high=1, least_size=0.01)
    low, high = search.axis
    assert search.lambda_at((low + high) / 2) == pytest.approx(0.1)
    with pytest.raises(ValidationError, match="expected `lam_low` and `lam_high` to be at least"):
        Search(lam_low=-1, lam_high=1, least_size=2)


def test_study_holds_trial_results():
    search = Search(lam_low=-2, lam_high=2, zeta_low=0, zeta_high=1)
    pruned = run(2, -1.0, status=RunStatus.PRUNED)
    pruned.results = RunResults(metrics={}, selection=WeightSelection(history=[(4, 0.25), (8, None)]))
    rows = [
        run(0, 0, performance=0.5),
        run(1, 1.5, performance=0.75, zeta=0.5),
        pruned,
        run(3, 0.5, status=RunStatus.FAILED),
        run(4, 2.0, status=RunStatus.QUEUED),
    ]
    trials = make_study(search, group_trials(rows)).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert (trials[0].params, trials[0].value) == ({"lam": 1.5, "zeta": 0.5}, 0.75)
    assert trials[1].intermediate_values == {4: 0.25}


def test_two_objectives_give_two_values_or_failure():
    search = Search(lam_low=-2, lam_high=2, objective=Objective.PERFORMANCE_AND_ISOTROPY)
    rows = [run(0, 0, performance=0.5, isotropy=0.1), run(1, 1.5, performance=0.75, isotropy=0.5)]
    rows += [run(2, 1.0, performance=0.5), run(3, -1.0, status=RunStatus.PRUNED)]
    trials = make_study(search, group_trials(rows)).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "FAIL", "FAIL"]
    assert trials[0].values == [0.75, 0.5]


@given(
    st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=0, max_size=8), st.lists(VALUES, min_size=1, max_size=3)
)
def test_run_is_pruned_below_median_of_other_runs(other_values, own_values):
    steps = (2, 4, 6)
    histories = [list(zip(steps, values, strict=True)) for values in other_values]
    expected = False
    if len(other_values) >= MIN_FINISHED_RUNS:
        at_step = [values[len(own_values) - 1] for values in other_values]
        assert statistics.median(at_step) == pytest.approx(float(np.percentile(at_step, 50)))
        expected = max(own_values) < statistics.median(at_step)
    assert should_prune(histories, list(zip(steps, own_values, strict=False))) == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_npy_stream_reads_back_at_any_read_size(dtype, size):
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(dtype)
    stream = make_npy(10, 3, x.dtype, iter([x[:4], x[4:9], x[9:]]))
    content = b"".join(iter(lambda: stream.read(size), b""))
    read = np.load(io.BytesIO(content), allow_pickle=False)
    assert (read.dtype, read.flags.c_contiguous) == (x.dtype, True)
    assert np.array_equal(read, x)


def test_npy_blocks_are_row_major_and_lazy():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert np.load(io.BytesIO(make_npy(2, 3, x.dtype, [x]).read())).tolist() == x.tolist()
    received = []

    def blocks():
        for i in range(1000):
            received.append(i)
            yield np.zeros((1000, 10), np.float32)

    make_npy(10**6, 10, np.dtype(np.float32), blocks()).read(100_000)
    assert len(received) < 10


def test_jsonl_holds_every_row_and_refuses_unequal_columns():
    rows = [("a", "1"), ('"b"', ""), ("ü\n", "3")] * 3000
    stream = make_jsonl({"name": (row[0] for row in rows), "label": (row[1] for row in rows)})
    assert [tuple(json.loads(line).values()) for line in stream.read().splitlines()] == rows
    with pytest.raises(ValueError, match="shorter"):
        make_jsonl({"name": ["a", "b"], "label": ["c"]}).read()


STORED = Path(app.playground.__file__).parent / "gaussian_example.json"


@pytest.fixture(scope="module")
def example():
    return json.loads(STORED.read_text())


@pytest.mark.long
@pytest.mark.slow
def test_stored_example_matches_code(example):
    document = gaussian_example()
    assert document.keys() == example.keys()
    for key in ("n", "draws", "drawn", "rows", "zetas", "reason"):
        assert document[key] == example[key], key
    assert document["full"] == pytest.approx(example["full"], abs=1e-4)
    for name in ("isoscore", "isoscore_unbiased"):
        assert document[name]["mean"] == pytest.approx(example[name]["mean"], abs=1e-4)
    for again, curve in zip(document["isoscore_star"], example["isoscore_star"], strict=True):
        assert again["mean"] == pytest.approx(curve["mean"], abs=1e-4)


def test_only_bias_corrected_score_finds_truth_in_few_rows(example):
    # The variances average 2 and their squares 14 / 3, so PR = 768 * 4 / (14 / 3).
    truth = (768 * 12 / 14 - 1) / 767
    assert example["truth"] == pytest.approx(truth, abs=1e-5)
    assert example["rows"][:-1] == [8 * 2**power for power in range(12)]
    at = example["rows"].index(64)
    assert example["isoscore"]["mean"][at] < 0.1
    assert example["isoscore_unbiased"]["mean"][at] == pytest.approx(truth, abs=0.05)
    assert example["full"]["isoscore_unbiased"] == pytest.approx(truth, abs=1e-3)
    # By the convention of the poster, 700 rows score 0.53 to 0.81 at zeta 0.2 to 0.8.
    below, above = (example["rows"].index(m) for m in (512, 1024))
    for curve, expected in zip(example["isoscore_star"], (0.53, 0.64, 0.74, 0.81), strict=True):
        assert curve["mean"][below] < expected + 0.02
        assert curve["mean"][above] > expected - 0.02
