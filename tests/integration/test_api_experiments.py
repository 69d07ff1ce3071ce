import json

import pytest
from sqlalchemy import Engine, event

from app.core.process import machine_cores
from app.db.models import Run, RunStatus, Worker
from app.db.models.runs import LOST_AFTER
from app.db.types import utcnow
from app.db.work import list_waiting_jobs
from app.training.sweeps import SweepRequest, plan_sweep
from tests.cached_rows import make_once
from tests.texts import tsv


@pytest.fixture
def dataset(client, context, module_cache):
    def upload():
        files = {"train": tsv(), "validation": tsv(name="validation.tsv")}
        return client.post("/api/datasets", files=files).json()["id"]

    return client.get(f"/api/datasets/{make_once(context, module_cache, 'dataset', upload)}").json()


@pytest.fixture
def request_body(dataset):
    columns = {"text_columns": ["sentence"], "label_column": "label"}
    swept = {"regularizers": ["istar"], "lambdas": [-1, 1], "seeds": [0, 1]}
    return {"model": "all-MiniLM-L6-v2", "dataset_id": dataset["id"], **columns, **swept}


@pytest.fixture
def launch(client, request_body):
    """Launch a changed sweep; return its record and the configurations of its runs."""

    def launch(**changes):
        answer = client.post("/api/experiments", json=request_body | changes)
        assert answer.status_code == 201, answer.text
        created = answer.json()
        return created, [client.get(f"/api/runs/{run['id']}").json()["config"] for run in created["runs"]]

    return launch


def pick(configs, *names):
    return [tuple(config[name] for name in names) for config in configs]


def test_sweep_has_runs_for_each_lambda_and_seed_and_baselines(client, context, launch):
    created, configs = launch()
    runs = created["runs"]
    assert [(run["seed"], run["lam"]) for run in runs] == [(s, lam) for s in (0, 1) for lam in (0, -1, 1)]
    assert [run["regularizer"] for run in runs] == ["none", "istar", "istar"] * 2
    assert {run["status"] for run in runs} == {"queued"}
    assert [job.row_id for job in list_waiting_jobs(context.sessions)] == [run["id"] for run in runs]
    needed = ("lam", "zeta", "seed", "epochs", "batch_size", "learning_rate", "label_names")
    assert pick(configs, *needed)[0] == (0, 0.2, 0, 3, 16, 3e-5, ["0", "1"])
    with context.sessions.begin() as session:
        session.get(Run, runs[0]["id"]).status = RunStatus.FINISHED
    assert client.post(f"/api/runs/{runs[0]['id']}/cancel").status_code == 409


def test_runs_are_products_of_swept_options(launch):
    for no_regularizers in ([], ["none"]):
        runs = launch(regularizers=no_regularizers)[0]["runs"]
        assert [(run["seed"], run["lam"]) for run in runs] == [(0, 0), (1, 0)]
    for field, value in (("layers", "last"), ("points", "tokens")):  # one of the two does not read it
        changes = {"regularizers": ["cosreg", "spectrum"], "lambdas": [1], "seeds": [0], field: value}
        assert [run["regularizer"] for run in launch(**changes)[0]["runs"]] == ["none", "cosreg", "spectrum"]
    configs = launch(regularizers=["istar", "cosreg"], lambdas=[1, 1, -1], zetas=[0.2, 0.4], seeds=[3, 3])[1]
    assert pick(configs, "regularizer", "lam", "zeta") == [
        ("none", 0, 0.2),
        *[("istar", lam, zeta) for zeta in (0.2, 0.4) for lam in (-1, 1)],
        ("cosreg", -1, 0.2),
        ("cosreg", 1, 0.2),
    ], "only I-STAR reads zeta"
    bars = ["prominent", "all"]
    configs = launch(fixed_regularizers={"entropy": 0.5}, grid={"entropy_bars": bars}, seeds=[0])[1]
    assert pick(configs, "entropy_bars", "lam") == [(bar, lam) for bar in bars for lam in (0, -1, 1)]
    assert {config["fixed_regularizers"]["entropy"] for config in configs} == {0.5}, "the baseline has it too"
    grid = {"points": ["tokens", "mean"], "include_padding": [False, True]}
    configs = launch(regularizers=["cosreg"], lambdas=[1], seeds=[0], grid=grid)[1]
    assert pick(configs, "lam", "points", "include_padding") == [
        (0, "tokens", False),
        (1, "tokens", False),
        (1, "tokens", True),
        (1, "mean", False),
    ], "only token points read padding"
    configs = launch(regularizers=[], seeds=[0], grid={"max_steps": [5, 10]})[1]
    assert pick(configs, "epochs", "max_steps") == [(None, 5), (None, 10)]


def test_grid_varies_only_options_that_a_run_reads(client, launch):
    grid = {"learning_rate": [1e-5, 3e-5, 1e-5], "entropy_bars": ["prominent", "all"], "layers": [None, [2, 1]]}
    created, configs = launch(regularizers=["cosreg", "entropy"], lambdas=[1], seeds=[0], grid=grid)
    assert created["grid"] == grid | {"learning_rate": [1e-5, 3e-5], "layers": [None, [1, 2]]}
    assert created["config"]["learning_rate"] == 1e-5
    options_by_run = [
        ("none", "prominent", None),
        ("cosreg", "prominent", None),
        ("cosreg", "prominent", [1, 2]),
        *[("entropy", bars, layers) for layers in (None, [1, 2]) for bars in ("prominent", "all")],
    ]
    expected = [(rate, *options) for rate in (1e-5, 3e-5) for options in options_by_run]
    assert pick(configs, "learning_rate", "regularizer", "entropy_bars", "layers") == expected
    grid_values = [{name: config[name] for name in grid} for config in configs]
    experiment = client.get(f"/api/experiments/{created['id']}").json()
    assert [run["setting"] for run in experiment["runs"]] == [run["setting"] for run in created["runs"]] == grid_values


@pytest.mark.both_databases
def test_number_of_transactions_does_not_grow_with_runs(client, context, request_body):
    began, counts = [], []
    note = began.append
    event.listen(Engine, "begin", note)
    try:
        for seeds in (range(1), range(20)):
            began.clear()
            assert client.post("/api/experiments", json=request_body | {"seeds": list(seeds)}).status_code == 201
            counts.append(len(began))
    finally:
        event.remove(Engine, "begin", note)
    assert counts[0] == counts[1]


def test_runs_that_differ_only_in_unread_options_are_dropped(context, request_body, launch):
    grid = {"fixed_regularizers": [{}, {"istar": 0.5}]}
    change = {"regularizers": ["cosreg"], "lambdas": [1], "zetas": [0.2, 0.4], "seeds": [0], "grid": grid}
    assert plan_sweep(context, SweepRequest.model_validate(request_body | change)).notes[:2] == [
        "The λ = 0 baseline was added, one run for each seed and setting.",
        "2 runs are left out, because the values in which they differ have no effect on them.",
    ]
    assert pick(launch(**change)[1], "fixed_regularizers", "zeta", "lam") == [
        *[({}, 0.2, lam) for lam in (0, 1)],
        *[({"istar": 0.5}, zeta, lam) for zeta in (0.2, 0.4) for lam in (0, 1)],
    ]


def test_processes_beyond_cores_need_another_machine(client, context, request_body):
    cores = machine_cores()
    excessive = request_body | {"processes": cores + 1}
    refused = client.post("/api/experiments", json=excessive)
    assert (refused.status_code, refused.json()["field"]) == (422, "processes")
    assert refused.json()["detail"].endswith(
        f"got {cores + 1}. Choose fewer, or start a worker on a machine with more."
    )
    assert client.post("/api/experiments", json=request_body | {"processes": cores}).status_code == 201
    with context.sessions.begin() as session:
        session.add(Worker(slot="other/cuda:0", device="cuda:0", pid=1))
    assert client.post("/api/experiments", json=excessive).status_code == 201


def test_float16_is_refused_if_no_live_worker_has_a_gpu(client, context, request_body):
    half = request_body | {"precision": "fp16"}

    def add_worker(slot, device, at):
        with context.sessions.begin() as session:
            session.merge(Worker(slot=slot, device=device, pid=1, heartbeat_at=at))

    assert client.post("/api/experiments", json=half).status_code == 201
    add_worker("a", "cuda:0", utcnow() - 2 * LOST_AFTER)
    assert client.post("/api/experiments", json=half).status_code == 201
    add_worker("b", "cpu", utcnow())
    refused = client.post("/api/experiments", json=half)
    assert (refused.status_code, refused.json()["field"]) == (422, "precision")
    assert "fp16 needs a worker with a GPU, and workers have only cpu. Choose bf16 or fp32." in refused.json()["detail"]
    varied = request_body | {"grid": {"precision": ["bf16", "fp16"]}}
    assert client.post("/api/experiments", json=varied).json()["field"] == "grid"
    assert client.post("/api/experiments", json=request_body | {"precision": "bf16"}).status_code == 201
    add_worker("a", "cuda:0", utcnow())
    assert client.post("/api/experiments", json=half).status_code == 201


@pytest.mark.both_databases
def test_runs_are_cancelled_then_deleted_and_dataset_last(client, context, request_body, dataset):
    created = client.post("/api/experiments", json=request_body).json()
    path, first = f"/api/experiments/{created['id']}", created["runs"][0]["id"]
    assert client.post(f"/api/runs/{first}/cancel").json()["status"] == "cancelled"
    again = client.post(f"/api/runs/{first}/cancel")
    assert (again.status_code, "this one is cancelled" in again.json()["detail"]) == (409, True)
    assert "5 of its runs have not ended" in client.delete(path).json()["detail"]
    in_use = client.delete(f"/api/datasets/{dataset['id']}")
    assert (in_use.status_code, "is used by an experiment" in in_use.json()["detail"]) == (409, True)
    page = client.get(f"/datasets/{dataset['id']}/delete").text
    assert f'href="/experiments/{created["id"]}"' in page
    assert "Delete permanently" not in page
    answer = client.post(f"{path}/cancel").json()
    assert {answer["status"], *(run["status"] for run in answer["runs"])} == {"cancelled"}
    assert context.queue.list_active() == set()
    assert client.delete(path).status_code == 204
    assert "Delete permanently" in client.get(f"/datasets/{dataset['id']}/delete").text
    with context.sessions() as session:
        assert session.query(Run).count() == 0
    assert client.delete(f"/api/datasets/{dataset['id']}").status_code == 204
    assert [path for path in (context.settings.root / "files").rglob("*") if path.is_file()] == []


def test_invalid_request_names_its_field_and_writes_nothing(client, request_body, monkeypatch):
    refused = [
        ({"lambdas": ["abc"]}, "lambdas", "as a number"),
        ({"lambdas": [float("nan")]}, "lambdas", "finite"),
        ({"lambdas": []}, "lambdas", "with 1 or more values, got 0"),
        ({"lambdas": [True]}, "lambdas", "Expected lambdas.0 as a number, got 'true'."),
        ({"fixed_regularizers": {"cosreg": False}}, "fixed_regularizers", "as a number, got 'false'."),
        ({"grid": {"epochs": [True]}}, "grid", "Expected grid.epochs.0 as a whole number, got 'true'."),
        ({"zetas": [1.5]}, "zetas", "up to 1"),
        ({"regularizers": ["l2"]}, "regularizers", "Expected regularizers.0 as none, istar, istar_unbiased"),
        ({"grid": {"batch_size": [16, 0]}}, "grid", "Expected grid.batch_size.1 of at least 1, got 0."),
        ({"grid": {"batch_size": []}}, "grid", "with 1 or more values, got 0"),
        ({"grid": {"nonsense": [1]}}, "grid", "There is no field"),
        ({"grid": {"metric": ["f1"]}}, "grid", "`metric` is the same for all of them"),
        ({"grid": {"layers": ["first"]}}, "grid", "as a list of whole numbers, all or last, got 'first'"),
        ({"grid": {"layers": [None, [7]]}}, "grid", "has layers 1 to 6, got 7."),
        ({"grid": {"entropy_bars": ["all"]}}, "grid", "`entropy_bars`, an option of persistent entropy"),
        ({"grid": {"epochs": [3, None]}}, "grid", "each value of `epochs` in the grid, got null"),
        ({"grid": {"epochs": [None]}}, "grid", "each value of `epochs` in the grid, got null"),
        ({"grid": {"max_steps": [10, None]}}, "grid", "each value of `max_steps` in the grid, got null"),
        ({"grid": {"epochs": [1], "max_steps": [5]}}, "grid", "either `epochs` or `max_steps`, got both"),
        ({"grid": {"model": ["all-MiniLM-L6-v2", "no such model!"]}}, "model", "got 'no such model!'"),
        ({"grid": {"batch_size": list(range(1, 51))}, "seeds": list(range(9))}, "grid", "50 batch sizes × (1 baseline"),
        ({"fixed_regularizers": {"istar": 1}}, "fixed_regularizers", "would have two λ in one run"),
        ({"regularizers": ["istar_unbiased"], "points": "tokens"}, "points", "tokens of one text depend on each other"),
        ({"regularizers": ["spectrum"], "layers": "last"}, "layers", "sees the input embedding matrix"),
        ({"regularizers": ["spectrum"], "points": "mean"}, "points", "sees the input embedding matrix"),
        (
            {"regularizers": ["istar_unbiased", "cosreg"], "points": "tokens"},
            "points",
            "Sweep it separately from regularizers",
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
        ({"model": "someone/some-model"}, "model", "all-MiniLM-L6-v2"),
        ({"model": "../../etc"}, "model", "got '../../etc'"),
        ({"text_columns": ["nope"]}, "text_columns", "nope"),
        ({"label_column": "nope"}, "label_column", "nope"),
        ({"label_column": "sentence"}, "label_column", "the model would read the answer"),
        ({"dataset_id": "nope"}, "dataset_id", "There is no data set 'nope'"),
        ({"layers": [7]}, "layers", "has layers 1 to 6, got 7."),
        ({"token_fraction": 0}, "token_fraction", "above 0"),
        ({"token_fraction": 1.5}, "token_fraction", "up to 1"),
        ({"label_names": ["a", "b"]}, "label_names", "There is no field"),
        ({"model": "foo--bar"}, "model", "got 'foo--bar'"),
        ({"model": "a/b.git"}, "model", "got 'a/b.git'"),
        ({"epochs": 1, "max_steps": 5}, "max_steps", "Expected either `epochs` or `max_steps`"),
        ({"unknown": 1}, "unknown", "There is no field"),
        ({"lambdas": list(range(1, 100)), "seeds": list(range(9))}, "lambdas", "at most 500 runs"),
    ]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = "sentence\tlabel\n" + "".join(f"text {i}\t{i}\n" for i in range(5000))
    dataset_id = client.post("/api/datasets", files={"train": tsv(rows), "validation": tsv(rows, "v.tsv")}).json()["id"]
    for change, field, sentence in [*refused, ({"dataset_id": dataset_id}, "label_column", "")]:
        # json.dumps writes NaN, as a careless client would.
        body = json.dumps(request_body | change)
        answer = client.post("/api/experiments", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in {404, 422}, change
        assert answer.json()["field"] == field, change
        assert sentence in answer.json()["detail"]
    assert client.get("/api/experiments").json() == []


def test_presets_of_papers_are_listed_and_launched(client, request_body, context, launch):
    presets = {preset["slug"]: preset for preset in client.get("/api/presets").json()}
    assert list(presets)[:3] == ["istar-1-search", "istar-2-tuning", "istar-3-seeds"]
    body = {name: request_body[name] for name in ("model", "dataset_id", "text_columns", "label_column")}
    created = client.post("/api/experiments", json=body | presets["shrink-mrpc"]["settings"])
    assert (created.status_code, len(created.json()["runs"])) == (201, 15)
    assert created.json()["grid"] == {"entropy_bars": ["prominent", "all"]}
    folder = context.settings.models / "another"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    for name, models in (
        ("all-MiniLM-L6-v2 on", ["all-MiniLM-L6-v2"]),
        ("2 models on", ["all-MiniLM-L6-v2", "another"]),
    ):
        assert launch(grid={"model": models})[0]["name"].startswith(name)


def test_persistent_entropy_by_label_needs_labels(client, request_body):
    rows = "premise\thypothesis\tscore\n" + "".join(f"text {i}\tmore {i}\t{i / 8}\n" for i in range(20))
    scored = client.post("/api/datasets", files={"train": tsv(rows), "validation": tsv(rows, "v.tsv")}).json()["id"]
    columns = {"dataset_id": scored, "text_columns": ["premise", "hypothesis"], "label_column": "score"}
    task = columns | {"task": "regression", "metric": "pearson", "regularizers": ["entropy"]}
    refused = client.post("/api/experiments", json=request_body | task).json()
    assert refused["field"] == "entropy_by_label"
    assert "regression has no classes: set `entropy_by_label` to false" in refused["detail"]
    created = client.post("/api/experiments", json=request_body | task | {"entropy_by_label": False})
    assert (created.status_code, created.json()["config"]["label_names"]) == (201, [])
