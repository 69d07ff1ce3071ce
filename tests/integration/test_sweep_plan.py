import math

import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sqlalchemy import select

from app.core.training_cost import MachineSpeed
from app.db.models import Run, RunStatus, Worker
from app.training.collapse_warnings import KNOWN_COLLAPSE
from tests.factories import add_experiment, run_row
from tests.tiny import upload_once

pytestmark = pytest.mark.usefixtures("models_dir")

SPEED = MachineSpeed(device_name="x", products={"fp32": 1e9, "bf16": 1e9}, element_seconds=1e-9, layer_seconds=0.01)


@pytest.fixture
def sweep(client, context, module_cache):
    dataset_id = upload_once(client, context, module_cache, 60, 40)
    read = {"model": "tiny-bert", "dataset_id": dataset_id, "text_columns": ["sentence"], "label_column": "label"}
    swept = {"regularizers": ["istar", "cosreg"], "lambdas": [-1, 1], "seeds": [0, 1]}
    return read | swept | {"epochs": 2, "batch_size": 8, "precision": "fp32"}


@pytest.fixture
def worker(context):
    with context.sessions.begin() as session:
        session.add(Worker(slot="there/cpu", device="cpu", pid=1, speed=SPEED))


def plan(client, sweep):
    answer = client.post("/api/experiments/plan", json=sweep)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.sandbox
def test_plan_and_form_estimate_runs_steps_time_and_tokens(client, sweep, worker):
    document = plan(client, sweep)
    assert (document["runs"], document["steps"]) == (10, 10 * 2 * math.ceil(60 / 8))
    assert document["words"] == "(1 baseline + 2 methods × 2 λ) × 2 seeds = 10 runs"
    estimate, tokens = document["estimate"], document["tokens"]
    assert (estimate["device"], estimate["from_earlier_runs"]) == ("the CPU of there", False)
    steps = document["steps"] * 2 * SPEED.layer_seconds  # layer calls bound the time of a model this small
    assert 80 + steps < estimate["seconds"] < 80 + 2.5 * steps
    assert estimate["longest_seconds"] < estimate["seconds"] / 9
    assert len(tokens["rows"]) == 8
    assert {row["label"] for row in tokens["rows"]} == {"0", "1"}
    assert tokens["rows"][0]["tokens"][0] == {"text": "[CLS]", "special": True}
    assert (tokens["n_sampled"], tokens["n_cut"], tokens["max_length"]) == (60, 0, 64)
    assert document["passing_bytes"] > 10_000
    assert document["kept_bytes"] == 0
    assert client.get("/api/experiments").json() == []
    assert [note for note in document["notes"] if "Caution" in note] == [KNOWN_COLLAPSE]
    cut = plan(client, sweep | {"max_length": 8, "export": True})
    assert 0 < cut["tokens"]["n_cut"] < 60
    assert cut["kept_bytes"] == 10 * cut["passing_bytes"] / 6
    form = sweep | {"lambdas": "-1, 1", "seeds": "0, 1", "zetas": "0.2", "task": "classification", "metric": "accuracy"}
    form_page = client.get("/experiments/new", params=form).text
    assert "160 steps, about <strong>" in form_page
    assert "on the CPU of there" in form_page
    assert "None of 60 rows is longer than 64 tokens" in form_page
    assert '<span class="token special">[CLS]</span>' in form_page
    assert "Not included: early stops" in form_page
    answer = client.post("/api/experiments/plan", json=sweep | {"label_column": "nope"})
    assert (answer.status_code, answer.json()["field"]) == (422, "label_column")


def test_plan_estimates_detectable_difference_from_earlier_seeds(client, context, sweep):
    design = sweep | {"regularizers": ["istar"], "seeds": [0, 1, 2]}
    experiment = client.post("/api/experiments", json=design).json()
    assert not any("is called" in note for note in plan(client, design)["notes"])
    with context.sessions.begin() as session:
        for run in session.scalars(select(Run).where(Run.experiment_id == experiment["id"])):
            run.status, run.performance = RunStatus.FINISHED, 0.7 + 0.1 * run.lam + 0.02 * (run.seed - 1)
    reach = student.isf(0.04 / 2 / 2, 4) + norm.ppf(0.6)
    difference = f"{reach * 0.02 * math.sqrt(2 / 3):.2g}".lstrip("0")
    assert difference in plan(client, design)["notes"][-1]
    assert plan(client, design)["notes"][-1].endswith(" gets a verdict in about 6 of 10 sweeps like your last ones.")
    assert not any("is called" in note for note in plan(client, design | {"seeds": [0, 1]})["notes"])


def test_earlier_runs_on_same_device_refine_time(client, context, sweep, worker):
    experiment = client.post("/api/experiments", json=sweep | {"regularizers": []}).json()
    rough = plan(client, sweep)["estimate"]
    for device_name, refined in (("another", False), ("x", True)):
        with context.sessions.begin() as session:
            run = session.get(Run, experiment["runs"][0]["id"])
            run.status = RunStatus.FINISHED
            speed = {"tokens_per_step": 8 * 15, "seconds_per_step": 100}
            run.environment = {"device_name": device_name, "speed": speed}
        estimate = plan(client, sweep)["estimate"]
        assert estimate["from_earlier_runs"] is refined
        assert (estimate["seconds"] > 100 * rough["seconds"]) is refined


def test_plan_says_what_is_unknown(client, context, sweep, worker):
    with context.sessions.begin() as session:
        session.query(Worker).one().speed = SPEED.model_copy(update={"products": {"bf16": 1e9}})
    assert "timed in this precision" in plan(client, sweep)["no_estimate"]
    with context.sessions.begin() as session:
        session.query(Worker).delete()
    assert plan(client, sweep)["no_estimate"] == "No worker is running, so the time is unknown."
    hub = client.post("/api/datasets/hub", json={"name": "cola"}).json()
    document = plan(client, sweep | {"dataset_id": hub["id"], "metric": "matthews"})
    assert (document["estimate"], document["tokens"]) == (None, None)
    assert "The Hub's rows are fetched" in document["no_tokens"]
    assert document["steps"] == 10 * 2 * math.ceil(hub["n_train"] / 8)


def test_plan_warns_if_earlier_runs_of_model_learned_nothing(client, context, sweep):
    learning = {"constant_prediction": "“0”"}
    runs = [run_row(lam, seed, learning=learning if lam < 0 else None) for lam in (-1.0, 1.0) for seed in (0, 1)]
    add_experiment(context, *runs, run_row(-2.0, 0, learning=learning))
    add_experiment(context, *(run_row(lam, seed, learning=learning) for lam in (0.0, 1.0) for seed in range(6)))
    cautions = [note for note in plan(client, sweep | {"lambdas": [-2, -1, 0, 1]})["notes"] if "Caution" in note]
    warning = "Caution: I-STAR at λ = −1 learned nothing or diverged in 2 of 2 earlier runs."
    assert cautions == [f"{warning} Choose a value nearer to 0."]
    assert plan(client, sweep | {"lambdas": [0, 1], "seeds": [0, 1, 2]})["notes"] != cautions
    add_experiment(context, *(run_row(-1.0, seed) for seed in (2, 3)))
    notes = plan(client, sweep | {"lambdas": [-1, 0, 1]})["notes"]
    assert not any("Caution" in note for note in notes), "half of the runs learned"
