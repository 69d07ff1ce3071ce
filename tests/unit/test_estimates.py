"""What a sweep would take is counted from the steps, passes, looks and rows that its runs have."""

import pytest

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DryRun
from app.training.dry_runs import estimate
from app.training.grid_expansion import Product
from app.training.sweeps import SweepPlan

KIND = {
    "seconds_to_load": 0.0,
    "seconds_per_step": 0.0,
    "seconds_per_row": 0.0,
    "seconds_per_look": 0.0,
    "seconds_per_measured_row": 0.0,
    "seconds_per_test_row": 0.0,
    "seconds_per_measuring": 0.0,
    "seconds_of_pairs": 0.0,
    "pair_rows": 100,
    "most_pair_rows": 2000,
    "reference_rows": 40,
    "inputs_per_row": 1.0,
    "least_steps_apart": 0.1,
    "shrinkage_rows": 0,
    "parameters": 10,
    "regularizers": [],
    "probe_rows": 40,
    "layers": 2,
    "width": 16,
    "device": "the CPU",
}
SHOWN = {"rows": [], "label_names": ["a", "b"], "loss": 0.7, "loss_of_guessing": 0.7, "max_length": 64, "longest": 9}


def told(times, *, n_validation=100, n_test=None, **changes):
    """The estimate of one run on 1,000 train and 100 validation rows, of which some seconds are 1 and all others 0."""
    values = {"model": "m", "text_columns": ["t"], "label_column": "l", "label_names": ["a", "b"], "seed": 0}
    run = RunConfig.model_validate({**values, "regularizer": "istar", "lam": 1, "batch_size": 10, **changes})
    shared = TrainingConfig.model_validate(run.model_dump(include=set(TrainingConfig.model_fields)))
    rows = Dataset(n_train=1000, n_validation=n_validation, n_test=n_test)
    plan = SweepPlan(rows, shared, {}, Product({}, {}, [], [0]), [run], [])
    results = SHOWN | {"n_cut": 0, "n_timed": 32, "kinds": [KIND | times]}
    return estimate(plan, DryRun(configs=[run.model_dump(mode="json")], results=results))


def test_before_there_are_results_nothing_is_told():
    assert estimate(None, DryRun(results=None)) is None


@pytest.mark.parametrize(
    ("changes", "rows_per_input", "steps"),
    [
        ({"epochs": 3}, 1.0, 300),
        ({"epochs": 3, "train_rows": 45}, 1.0, 15),
        ({"epochs": 3, "train_rows": 9999, "accumulation": 2, "processes": 2}, 1.0, 75),
        ({"epochs": 3}, 2.5, 750),
        ({"epochs": None, "max_steps": 7}, 2.5, 7),
    ],
)
def test_steps_are_of_what_the_model_reads(changes, rows_per_input, steps):
    found = told({"seconds_per_step": 1, "inputs_per_row": rows_per_input}, **changes)
    assert (found.steps, found.seconds) == (steps, steps)


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"epochs": 3}, 3),
        ({"epochs": None, "max_steps": 250}, 3),
        ({"epochs": None, "max_steps": 5}, 1),
        ({"epochs": 3, "shrinkage_refresh": "steps", "shrinkage_every": 120}, 3),
        ({"epochs": 3, "shrinkage_refresh": "steps", "shrinkage_every": 500}, 1),
        ({"epochs": 3, "shrinkage_refresh": "average"}, 1),
    ],
)
def test_the_shrinkage_covariance_is_estimated_as_often_as_it_is_refreshed(changes, passes):
    found = told({"seconds_per_row": 1, "shrinkage_rows": 200}, validation_rows=2, **changes)
    assert found.seconds == passes * 200


def test_a_pass_looks_at_no_more_rows_than_there_are():
    assert told({"seconds_per_row": 1, "shrinkage_rows": 5000}, epochs=1).seconds == 1000
    some = told({"seconds_per_row": 1, "shrinkage_rows": 5000, "inputs_per_row": 2}, epochs=1, train_rows=30)
    assert some.seconds == 60


@pytest.mark.parametrize(
    ("times", "changes", "seconds"),
    [
        ({"seconds_per_measured_row": 1}, {}, 100),
        ({"seconds_per_measured_row": 1}, {"validation_rows": 9999}, 100),
        ({"seconds_per_measured_row": 1, "inputs_per_row": 1.5}, {"validation_rows": 30}, 45),
        ({"seconds_per_test_row": 1}, {}, 0),
        ({"seconds_per_test_row": 1, "inputs_per_row": 1.5}, {"n_test": 60}, 90),
        ({"seconds_per_measuring": 7}, {"n_test": 60}, 7),
        ({"seconds_of_pairs": 4}, {}, 4),
        ({"seconds_of_pairs": 4}, {"validation_rows": 50}, 1),
        ({"seconds_of_pairs": 4}, {"n_validation": 9999}, 1600),
        ({"seconds_per_row": 1}, {"evaluation_zeta": 0.0}, 0),
        ({"seconds_per_row": 1}, {"evaluation_zeta": 0.2}, 40),
        ({"seconds_per_row": 1}, {"evaluation_zeta": 0.2, "train_rows": 30}, 30),
    ],
)
def test_the_trained_model_is_measured_once_on_its_validation_rows_and_scored_on_its_test_rows(times, changes, seconds):
    assert told(times, epochs=1, **changes).seconds == pytest.approx(seconds)


def test_the_range_is_that_of_the_fastest_and_the_slowest_pass():
    passes = {"fastest": {"seconds_per_step": 1}, "slowest": {"seconds_per_step": 3}}
    found = told({"seconds_per_step": 2, **passes}, epochs=1)
    assert (found.low_seconds, found.seconds, found.high_seconds) == (100, 200, 300)
    assert (found.longest_low_seconds, found.longest_seconds, found.longest_high_seconds) == (100, 200, 300)


@pytest.mark.parametrize(
    ("changes", "least", "looks"),
    [
        ({"max_steps": 1200}, 0.1, 13),
        ({"max_steps": 12}, 0.1, 13),
        ({"max_steps": 1}, 0.1, 2),
        ({"max_steps": 1200}, 400, 4),
        ({"max_steps": 1200, "probe_every": 500}, 400, 4),
        ({"max_steps": 1200, "probe_every": 5000}, 400, 2),
    ],
)
def test_the_layers_are_looked_at_about_twelve_times_or_as_often_as_asked(changes, least, looks):
    assert told({"seconds_per_look": 1, "least_steps_apart": least}, epochs=None, **changes).seconds == looks
