"""Sweeps over HTTP. What training itself does is shown in tests/integration/workers."""

import json

import pytest
from sqlalchemy import Engine, event

from app.db.models import Run, RunStatus, Worker
from app.db.types import utcnow
from app.db.work import waiting_jobs
from app.training.queue_status import LOST_AFTER
from app.training.sweeps import SweepRequest, plan_sweep
from tests.texts import tsv


@pytest.fixture
def request_body(dataset):
    return {
        "model": "all-MiniLM-L6-v2",
        "dataset_id": dataset["id"],
        "text_columns": ["sentence"],
        "label_column": "label",
        "regularizers": ["istar"],
        "lambdas": [-1, 1],
        "seeds": [0, 1],
    }


def test_a_sweep_has_a_run_for_each_lambda_and_seed_and_a_baseline_for_each_seed(client, context, request_body):
    answer = client.post("/api/experiments", json=request_body)
    assert answer.status_code == 201
    runs = answer.json()["runs"]
    assert [(run["seed"], run["lam"]) for run in runs] == [(s, lam) for s in (0, 1) for lam in (0, -1, 1)]
    assert [run["regularizer"] for run in runs] == ["none", "istar", "istar"] * 2
    assert {run["status"] for run in runs} == {"queued"}
    assert [job.row_id for job in waiting_jobs(context.sessions)] == [run["id"] for run in runs]


def test_without_a_regularizer_there_is_one_run_for_each_seed(client, request_body):
    for nothing in ([], ["none"]):
        runs = client.post("/api/experiments", json=request_body | {"regularizers": nothing}).json()["runs"]
        assert [(run["seed"], run["lam"]) for run in runs] == [(0, 0), (1, 0)]


def test_each_method_is_swept_beside_one_baseline_and_zeta_is_of_i_star_alone(client, request_body):
    change = {"regularizers": ["istar", "cosreg"], "lambdas": [1, 1, -1], "zetas": [0.2, 0.4], "seeds": [3, 3]}
    runs = client.post("/api/experiments", json=request_body | change).json()["runs"]
    assert [(run["regularizer"], run["lam"], run["zeta"]) for run in runs] == [
        ("none", 0, 0.2),
        *[("istar", lam, zeta) for zeta in (0.2, 0.4) for lam in (-1, 1)],
        ("cosreg", -1, 0.2),
        ("cosreg", 1, 0.2),
    ]


def test_a_grid_multiplies_what_it_makes_a_difference_to_and_each_run_has_its_own_values(client, request_body):
    grid = {"learning_rate": [1e-5, 3e-5, 1e-5], "entropy_bars": ["prominent", "all"], "layers": [None, [2, 1]]}
    change = {"regularizers": ["cosreg", "entropy"], "lambdas": [1], "seeds": [0], "grid": grid}
    created = client.post("/api/experiments", json=request_body | change).json()
    assert created["grid"] == {
        "learning_rate": [1e-5, 3e-5],
        "entropy_bars": ["prominent", "all"],
        "layers": [None, [1, 2]],
    }
    assert created["config"]["learning_rate"] == 1e-5
    configs = [client.get(f"/api/runs/{run['id']}").json()["config"] for run in created["runs"]]
    varied = ("learning_rate", "regularizer", "entropy_bars", "layers")
    of_a_rate = [
        ("none", "prominent", None),
        ("cosreg", "prominent", None),
        ("cosreg", "prominent", [1, 2]),
        *[("entropy", bars, layers) for layers in (None, [1, 2]) for bars in ("prominent", "all")],
    ]
    expected = [(rate, *rest) for rate in (1e-5, 3e-5) for rest in of_a_rate]
    assert [tuple(config[name] for name in varied) for config in configs] == expected
    told = [{name: config[name] for name in grid} for config in configs]
    shown = client.get(f"/api/experiments/{created['id']}").json()
    assert [run["setting"] for run in shown["runs"]] == [run["setting"] for run in created["runs"]] == told


@pytest.mark.both_databases
def test_many_runs_are_launched_with_as_many_transactions_as_few(client, context, request_body):
    began = []
    note = began.append
    event.listen(Engine, "begin", note)
    try:
        counts = []
        for seeds in (range(1), range(20)):
            began.clear()
            assert client.post("/api/experiments", json=request_body | {"seeds": list(seeds)}).status_code == 201
            counts.append(len(began))
    finally:
        event.remove(Engine, "begin", note)
    assert counts[0] == counts[1]


def test_what_stands_beside_every_run_is_in_the_baseline_too(client, request_body):
    change = {"fixed_regularizers": {"entropy": 0.5}, "grid": {"entropy_bars": ["prominent", "all"]}, "seeds": [0]}
    runs = client.post("/api/experiments", json=request_body | change).json()["runs"]
    configs = [client.get(f"/api/runs/{run['id']}").json()["config"] for run in runs]
    assert [(config["entropy_bars"], config["lam"]) for config in configs] == [
        (bars, lam) for bars in ("prominent", "all") for lam in (0, -1, 1)
    ]
    assert {config["fixed_regularizers"]["entropy"] for config in configs} == {0.5}


def test_no_run_is_made_twice_where_only_some_sets_of_further_regularizers_read_a_setting(
    client, context, request_body
):
    change = {
        "regularizers": ["cosreg"],
        "lambdas": [1],
        "zetas": [0.2, 0.4],
        "seeds": [0],
        "grid": {"fixed_regularizers": [{}, {"istar": 0.5}]},
    }
    assert plan_sweep(context, SweepRequest.model_validate(request_body | change)).notes[:2] == [
        "The λ = 0 baseline was added, one run for each seed and setting.",
        "2 would repeat another, because nothing in them reads what they differ in, and are left out.",
    ]
    runs = client.post("/api/experiments", json=request_body | change).json()["runs"]
    configs = [client.get(f"/api/runs/{run['id']}").json()["config"] for run in runs]
    assert [(config["fixed_regularizers"], config["zeta"], config["lam"]) for config in configs] == [
        *[({}, 0.2, lam) for lam in (0, 1)],
        *[({"istar": 0.5}, zeta, lam) for zeta in (0.2, 0.4) for lam in (0, 1)],
    ]


def test_padding_is_varied_where_points_are_tokens(client, request_body):
    grid = {"points": ["tokens", "mean"], "include_padding": [False, True]}
    change = {"regularizers": ["cosreg"], "lambdas": [1], "seeds": [0], "grid": grid}
    runs = client.post("/api/experiments", json=request_body | change).json()["runs"]
    configs = [client.get(f"/api/runs/{run['id']}").json()["config"] for run in runs]
    assert [(config["lam"], config["points"], config["include_padding"]) for config in configs] == [
        (0, "tokens", False),
        (1, "tokens", False),
        (1, "tokens", True),
        (1, "mean", False),
    ]


@pytest.mark.parametrize(("field", "value"), [("layers", "last"), ("points", "tokens")])
def test_what_one_regularizer_of_a_sweep_reads_can_be_chosen_beside_one_that_does_not(
    client, request_body, field, value
):
    change = {"regularizers": ["cosreg", "spectrum"], "lambdas": [1], "seeds": [0], field: value}
    created = client.post("/api/experiments", json=request_body | change)
    assert created.status_code == 201
    assert [run["regularizer"] for run in created.json()["runs"]] == ["none", "cosreg", "spectrum"]


def test_float16_is_refused_where_all_workers_that_live_lack_a_gpu(client, context, request_body):
    half = request_body | {"precision": "fp16"}

    def beat(slot, device, at):
        with context.sessions.begin() as session:
            session.merge(Worker(slot=slot, device=device, pid=1, heartbeat_at=at))

    assert client.post("/api/experiments", json=half).status_code == 201
    beat("a", "cuda:0", utcnow() - 2 * LOST_AFTER)
    assert client.post("/api/experiments", json=half).status_code == 201
    beat("b", "cpu", utcnow())
    refused = client.post("/api/experiments", json=half)
    assert (refused.status_code, refused.json()["field"]) == (422, "precision")
    assert "a GPU to train in fp16, got cpu alone. Choose bf16 or fp32." in refused.json()["detail"]
    varied = request_body | {"grid": {"precision": ["bf16", "fp16"]}}
    assert client.post("/api/experiments", json=varied).json()["field"] == "grid"
    assert client.post("/api/experiments", json=request_body | {"precision": "bf16"}).status_code == 201
    beat("a", "cuda:0", utcnow())
    assert client.post("/api/experiments", json=half).status_code == 201


def test_an_experiment_over_models_is_not_named_after_one_of_them(client, context, request_body):
    folder = context.settings.models / "another"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    names = {"all-MiniLM-L6-v2 on": ["all-MiniLM-L6-v2"], "2 models on": ["all-MiniLM-L6-v2", "another"]}
    for name, models in names.items():
        created = client.post("/api/experiments", json=request_body | {"grid": {"model": models}}).json()
        assert created["name"].startswith(name)


def test_a_grid_over_steps_stands_in_for_epochs(client, request_body):
    change = {"regularizers": [], "seeds": [0], "grid": {"max_steps": [5, 10]}}
    runs = client.post("/api/experiments", json=request_body | change).json()["runs"]
    configs = [client.get(f"/api/runs/{run['id']}").json()["config"] for run in runs]
    assert [(config["epochs"], config["max_steps"]) for config in configs] == [(None, 5), (None, 10)]


def test_a_row_holds_all_that_is_needed_to_repeat_the_run(client, request_body):
    created = client.post("/api/experiments", json=request_body).json()
    config = client.get(f"/api/runs/{created['runs'][0]['id']}").json()["config"]
    assert (config["lam"], config["zeta"], config["seed"]) == (0, 0.2, 0)
    assert (config["epochs"], config["batch_size"], config["learning_rate"]) == (3, 16, 3e-5)
    assert config["label_names"] == ["0", "1"]


@pytest.mark.both_databases
def test_cancelling_one_and_all(client, context, request_body):
    created = client.post("/api/experiments", json=request_body).json()
    first = created["runs"][0]["id"]
    assert client.post(f"/api/runs/{first}/cancel").json()["status"] == "cancelled"
    again = client.post(f"/api/runs/{first}/cancel")
    assert again.status_code == 409
    assert "this one is cancelled" in again.json()["detail"]
    answer = client.post(f"/api/experiments/{created['id']}/cancel").json()
    assert {run["status"] for run in answer["runs"]} == {"cancelled"}
    assert answer["status"] == "cancelled"
    assert context.queue.active() == set()


@pytest.mark.both_databases
def test_deleting_waits_for_the_runs_and_takes_the_data_set_last(client, context, request_body, dataset):
    created = client.post("/api/experiments", json=request_body).json()
    path = f"/api/experiments/{created['id']}"
    assert "6 of its runs have not ended" in client.delete(path).json()["detail"]
    in_use = client.delete(f"/api/datasets/{dataset['id']}")
    assert (in_use.status_code, "is used by an experiment" in in_use.json()["detail"]) == (409, True)
    page = client.get(f"/datasets/{dataset['id']}/delete").text
    assert f'href="/experiments/{created["id"]}"' in page
    assert "Delete permanently" not in page
    client.post(f"{path}/cancel")
    assert client.delete(path).status_code == 204
    assert "Delete permanently" in client.get(f"/datasets/{dataset['id']}/delete").text
    with context.sessions() as session:
        assert session.query(Run).count() == 0
    assert client.delete(f"/api/datasets/{dataset['id']}").status_code == 204
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("change", "field", "sentence"),
    [
        ({"lambdas": ["abc"]}, "lambdas", "as a number"),
        ({"lambdas": [float("nan")]}, "lambdas", "finite"),
        ({"lambdas": []}, "lambdas", "with 1 or more values, got 0"),
        ({"lambdas": [1e308]}, "lambdas", "Expected lambdas.0 up to 1e+06, got 1e+308."),
        ({"lambdas": [True]}, "lambdas", "Expected lambdas.0 as a number, got 'true'."),
        ({"seeds": [True]}, "seeds", "Expected seeds.0 as a whole number, got 'true'."),
        ({"epochs": True}, "epochs", "Expected epochs as a whole number, got 'true'."),
        ({"fixed_regularizers": {"cosreg": False}}, "fixed_regularizers", "as a number, got 'false'."),
        ({"grid": {"epochs": [True]}}, "grid", "Expected grid.epochs.0 as a whole number, got 'true'."),
        ({"zetas": [1.5]}, "zetas", "up to 1"),
        ({"regularizers": ["l2"]}, "regularizers", "Expected regularizers.0 as none, istar, istar_unbiased"),
        ({"grid": {"batch_size": [16, 0]}}, "grid", "Expected grid.batch_size.1 of at least 1, got 0."),
        ({"grid": {"batch_size": []}}, "grid", "with 1 or more values, got 0"),
        ({"grid": {"nonsense": [1]}}, "grid", "There is no field"),
        ({"grid": {"metric": ["f1"]}}, "grid", "`metric` is the same for all of them"),
        ({"grid": {"layers": ["first"]}}, "grid", "as a list of whole numbers, all or last, got 'first'"),
        ({"grid": {"layers": [None, [7]]}}, "grid", "Expected layers from 1 to 6"),
        ({"grid": {"entropy_bars": ["all"]}}, "grid", "`entropy_bars`, an option of persistent entropy"),
        ({"grid": {"epochs": [3, None]}}, "grid", "each value of `epochs` in the grid, got null"),
        ({"grid": {"epochs": [None]}}, "grid", "each value of `epochs` in the grid, got null"),
        ({"grid": {"max_steps": [10, None]}}, "grid", "each value of `max_steps` in the grid, got null"),
        ({"grid": {"epochs": [1], "max_steps": [5]}}, "grid", "either `epochs` or `max_steps`, got both"),
        ({"grid": {"model": ["all-MiniLM-L6-v2", "no such model!"]}}, "model", "got 'no such model!'"),
        ({"grid": {"batch_size": list(range(1, 51))}, "seeds": list(range(9))}, "grid", "50 batch sizes × (1 baseline"),
        ({"fixed_regularizers": {"istar": 1}}, "fixed_regularizers", "would have two λ in one run"),
        ({"regularizers": ["istar_unbiased"], "points": "tokens"}, "points", "the tokens of one text do"),
        ({"regularizers": ["spectrum"], "layers": "last"}, "layers", "sees the input embedding matrix"),
        ({"regularizers": ["spectrum"], "points": "mean"}, "points", "sees the input embedding matrix"),
        (
            {"regularizers": ["istar_unbiased", "cosreg"], "points": "tokens"},
            "points",
            "Sweep it apart from regularizers",
        ),
        (
            {"regularizers": ["cosreg"], "points": "mean", "grid": {"include_padding": [True, False]}},
            "grid",
            "an option of I-STAR or CosReg or persistent entropy, where it sees tokens",
        ),
        ({"task": "regression", "metric": "accuracy"}, "metric", "Expected a metric of regression, one of pearson"),
        ({"task": "regression"}, "metric", "got accuracy."),
        ({"seeds": [-1]}, "seeds", "of at least 0"),
        ({"model": "no such model!"}, "model", "got 'no such model!'"),
        ({"model": "../../etc"}, "model", "got '../../etc'"),
        ({"text_columns": ["nope"]}, "text_columns", "nope"),
        ({"label_column": "nope"}, "label_column", "nope"),
        ({"label_column": "sentence"}, "label_column", "the model would read the answer"),
        ({"dataset_id": "nope"}, "dataset_id", "There is no data set 'nope'"),
        ({"layers": [7]}, "layers", "Expected layers from 1 to 6"),
        ({"layers": [0]}, "layers", "of at least 1"),
        ({"layers": []}, "layers", "with 1 or more values, got 0"),
        ({"layers": "first"}, "layers", "Expected layers as a list of whole numbers, all or last, got 'first'."),
        ({"token_fraction": 0}, "token_fraction", "above 0"),
        ({"token_fraction": 1.5}, "token_fraction", "up to 1"),
        ({"label_names": ["a", "b"]}, "label_names", "There is no field"),
        ({"model": "foo--bar"}, "model", "got 'foo--bar'"),
        ({"model": "a/b.git"}, "model", "got 'a/b.git'"),
        ({"epochs": 1, "max_steps": 5}, "max_steps", "Expected either `epochs` or `max_steps`"),
        ({"unknown": 1}, "unknown", "There is no field"),
        ({"lambdas": list(range(1, 100)), "seeds": list(range(9))}, "lambdas", "at most 500 runs"),
    ],
)
def test_a_wrong_request_is_refused_at_its_field_and_nothing_is_written(client, request_body, change, field, sentence):
    # json.dumps, because NaN must reach the server as a careless client would send it.
    body = json.dumps(request_body | change)
    answer = client.post("/api/experiments", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {404, 422}
    assert sentence in answer.json()["detail"]
    assert answer.json()["field"] == field
    assert client.get("/api/experiments").json() == []


@pytest.fixture
def scored(client):
    rows = "premise\thypothesis\tscore\n" + "".join(f"text {i}\tmore {i}\t{i / 8}\n" for i in range(20))
    return client.post("/api/datasets", files={"train": tsv(rows), "validation": tsv(rows, "v.tsv")}).json()["id"]


def test_the_papers_settings_are_listed_and_launch_as_they_are(client, request_body):
    presets = {preset["slug"]: preset for preset in client.get("/api/presets").json()}
    assert list(presets)[:3] == ["istar-1-search", "istar-2-tuning", "istar-3-seeds"]
    body = {name: request_body[name] for name in ("model", "dataset_id", "text_columns", "label_column")}
    created = client.post("/api/experiments", json=body | presets["shrink-mrpc"]["settings"])
    assert (created.status_code, len(created.json()["runs"])) == (201, 15)
    assert created.json()["grid"] == {"entropy_bars": ["prominent", "all"]}


def test_persistent_entropy_by_label_needs_labels(client, request_body, scored):
    columns = {"dataset_id": scored, "text_columns": ["premise", "hypothesis"], "label_column": "score"}
    task = columns | {"task": "regression", "metric": "pearson", "regularizers": ["entropy"]}
    refused = client.post("/api/experiments", json=request_body | task).json()
    assert refused["field"] == "entropy_by_label"
    assert "regression has no classes: set `entropy_by_label` to false" in refused["detail"]
    created = client.post("/api/experiments", json=request_body | task | {"entropy_by_label": False})
    assert (created.status_code, created.json()["config"]["label_names"]) == (201, [])


def test_an_unknown_model_is_refused_naming_what_there_is(client, request_body, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    answer = client.post("/api/experiments", json=request_body | {"model": "someone/some-model"})
    assert (answer.status_code, answer.json()["field"]) == (422, "model")
    assert "all-MiniLM-L6-v2" in answer.json()["detail"]


def test_a_label_column_of_5000_values_is_refused(client, request_body):
    rows = "sentence\tlabel\n" + "".join(f"text {i}\t{i}\n" for i in range(5000))
    many = client.post("/api/datasets", files={"train": tsv(rows), "validation": tsv(rows, "v.tsv")}).json()
    answer = client.post("/api/experiments", json=request_body | {"dataset_id": many["id"]})
    assert (answer.status_code, answer.json()["field"]) == (422, "label_column")


def test_a_run_that_finished_cannot_be_cancelled(client, context, request_body):
    run_id = client.post("/api/experiments", json=request_body).json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.get(Run, run_id).status = RunStatus.FINISHED
    assert client.post(f"/api/runs/{run_id}/cancel").status_code == 409
