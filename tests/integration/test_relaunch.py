import re
from urllib.parse import parse_qs

import pytest
from sqlalchemy import select, update

from app.db.models import Dataset, Experiment, FailureCause, Run, RunStatus
from app.db.reported_config import ReportedConfig
from app.db.study import Search
from app.training.experiments import get_experiment
from app.training.failure_advice import prefill_form
from app.training.sweep_form import default_values, parse_sweep
from app.training.sweeps import SweepRequest, plan_sweep
from isoscope.files.yaml_document import read_yaml
from tests.cached_rows import make_once
from tests.tabs import every_tab
from tests.tiny import upload_once

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
REQUIRED = {"model": "all-MiniLM-L6-v2", "text_columns": ["sentence"], "label_column": "label"}
SWEEP_YAML = "model: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\nseeds: [41, 42]\n"
pytestmark = pytest.mark.usefixtures("models_dir")
SOURCE = {"content": "x", "isoscope": "0.1", "exported_at": "2026-01-01T00:00:00+00:00", "dataset": {}}


@pytest.fixture
def dataset(client, context, module_cache):
    def upload():
        files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
        return client.post("/api/datasets", files=files).json()["id"]

    return make_once(context, module_cache, "rows", upload)


def launch_experiment(client, dataset, **change):
    answer = client.post("/api/experiments", json={"dataset_id": dataset, **REQUIRED, **change})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def read_runs(context, experiment):
    with context.sessions() as session:
        configs = select(Run.config).where(Run.experiment_id == experiment).order_by(Run.position)
        return session.scalars(configs).all(), session.get(Experiment, experiment).grid


def test_request_of_experiment_relaunches_same_runs(client, context, dataset):
    reported = ReportedConfig(logged=True, model="m", task="classification", metric="accuracy")
    cases = [
        {}, {"regularizers": []}, {"regularizers": ["istar"], "lambdas": [0]},
        {"regularizers": ["cosreg"], "zetas": [0.4, 0.2], "lambdas": [3, 3, -1, 0]},
        {"regularizers": ["istar", "entropy"], "zetas": [0.4, 0.2], "seeds": [5, 1], "evaluation_zeta": 0.3},
        {"fixed_regularizers": {"istar": 0.5}, "regularizers": ["cosreg"], "zetas": [0.2, 0.1]},
        {"regularizers": ["cosreg"], "zetas": [0.2, 0.4], "lambdas": [1],
         "grid": {"fixed_regularizers": [{}, {"istar": 0.5}], "max_steps": [3, 5]}},
        {"grid": {"layers": ["last", [2, 1], None], "epochs": [2, 1]}, "checkpoint": "best", "patience": 2},
        {"lambdas": list(range(1, 101))},
    ]  # fmt: skip
    for change in cases:
        first = launch_experiment(client, dataset, **change)
        request = client.get(f"/api/experiments/{first}/request")
        assert request.status_code == 200
        second = client.post("/api/experiments", json=request.json()).json()["id"]
        yaml = client.get(f"/experiments/{first}/request.yaml")
        third = client.post("/api/experiments", json=read_yaml(yaml.text)).json()["id"]
        assert read_runs(context, first) == read_runs(context, second) == read_runs(context, third)
        assert yaml.headers["content-disposition"].startswith("attachment; filename=")
    experiment = launch_experiment(client, dataset)
    run = client.get(f"/api/experiments/{experiment}").json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.execute(update(Experiment).values(config=reported))
    for address in (f"/api/experiments/{experiment}/request", f"/api/runs/{run}/request"):
        refused = client.get(address)
        assert refused.status_code == 409
        assert refused.json()["detail"].startswith(
            "A script logged these runs, and only the script knows all their settings."
        )


def fill(client, text, **upload):
    answer = client.post("/experiments/new/yaml", data={"yaml": text}, headers={"accept": "text/html"}, **upload)
    address = answer.headers.get("location", "")
    return client.get(address) if address.startswith("/experiments/new/yaml") else answer


def test_yaml_fills_form_even_for_unknown_dataset(client, dataset):
    text = (
        f"dataset_id: {dataset}\nmodel: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\n"
        "regularizers: []\nfixed_regularizers: {cosreg: 0.123456789}\nexport: true\nepochs: null\nmax_steps: 7\n"
        "grid: {layers: [[1, 2], null]}\n"
    )
    as_file = client.post("/experiments/new/yaml", files={"file": ("sweep.yaml", text)})
    answer = fill(client, text)
    assert (answer.status_code, as_file.headers["location"]) == (303, answer.headers["location"])
    values = parse_qs(answer.headers["location"].partition("?")[2])
    assert (values["regularizers"], values["fixed_cosreg"]) == (["none"], ["0.123456789"])
    assert (values["export"], values["max_steps"], "epochs" in values) == (["true"], ["7"], False)
    assert (values["grid_field"], values["grid_values"]) == (["layers"], ["1 2, default"])
    form_page = client.get(answer.headers["location"]).text
    assert "2 runs" in form_page
    for line, description in [("dataset_id: 0b5f\n", "a data set that is not here (0b5f)"), ("", "no data set")]:
        for text, message in (
            (line + SWEEP_YAML, 'id="dataset_id-error">{}'),
            (f"{line}{SWEEP_YAML}search: {{}}\n", "<p>{}"),
        ):
            form_page = fill(client, text)
            assert form_page.status_code == 200
            assert message.format(f"The file names {description}; train is chosen instead.") in form_page.text
            assert f'value="{dataset}"' in form_page.text
            assert 'value="41, 42"' in form_page.text
            assert "Not ready" not in form_page.text
            assert "seeds: [41, 42]" in form_page.text
        wrong = fill(client, f"{line}{SWEEP_YAML}batch_size: 0\n")
        assert (wrong.status_code, "got 0." in wrong.text) == (422, True)
        assert f"The file names {description}; train is chosen instead." in wrong.text


def test_yaml_errors_are_shown_at_their_field(client, dataset):
    cases = [
        ("lambdas: [much]", "lambdas", "Expected lambdas.0 as a number, got &#39;much&#39;."),
        ("batch_size: 0", "batch_size", "Expected batch_size of at least 1, got 0."),
        ("text_columns: [poem]", "text_columns", "poem"),
        ("grid: {batch_size: [0]}", "grid", "Expected grid.batch_size.0 of at least 1, got 0."),
        ("grid: {fixed_regularizers: [{}, {istar: 1}]}", "grid", "The form has no row for a grid over sets of extra"),
        ("model: *x", "yaml", "Expected plain values in YAML, got an anchor, alias or tag in line 1."),
    ]  # fmt: skip
    for text, field, sentence in cases:
        sweep_request = {
            "dataset_id": f"dataset_id: {dataset}", "model": "model: all-MiniLM-L6-v2",
            "text_columns": "text_columns: [sentence]", "label_column": "label_column: label",
            "seeds": "seeds: [41, 42]",
        }  # fmt: skip
        sweep_request.pop(text.partition(":")[0], None)
        refused = fill(client, "\n".join([text, *sweep_request.values()]))
        assert refused.status_code in {404, 422}
        assert f'id="{field}-error">' in refused.text
        assert sentence in refused.text
        assert field == "yaml" or 'value="41, 42"' in refused.text
        assert '<details class="fold" open>\n  <summary>Fill in from a file</summary>' in refused.text
    refused = fill(client, f"dataset_id: {dataset}\nweather: fine\n")
    assert refused.status_code == 422
    assert any("weather" in alert[:300] for alert in refused.text.split('role="alert"')[1:])
    sweep_request = f"dataset_id: {dataset}\nmodel: all-MiniLM-L6-v2\nlabel_column: label\n"
    for fault in ("batch_size: 0\n", "weather: fine\n"):
        refused = fill(client, f"{sweep_request}text_columns: [poem]\n{fault}").text
        assert "<strong>Not ready</strong>" in refused
        assert "poem" in refused.partition('id="text_columns-error">')[2].partition("</small>")[0]
        assert '<option value="poem" selected>poem (not in this data set)</option>' in refused
    refused = fill(client, f"dataset_id: {dataset}\nlambda: 3\n")
    assert "There is no field lambda; did you mean lambdas?" in refused.text
    assert "There is no field weather; leave it out." in fill(client, "weather: fine\n").text
    refused = client.post("/experiments/new/yaml", files={"file": ("x.npy", b"\x93NUMPY\xff")})
    assert refused.status_code == 422
    assert "Expected a file of text in UTF-8, got other bytes in x.npy." in refused.text


@pytest.fixture
def launch(client, context, module_cache):
    dataset = upload_once(client, context, module_cache, 60, 40)

    def launch(**changes):
        needed = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label"}
        answer = client.post("/api/experiments", json=needed | {"dataset_id": dataset} | changes)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return launch


@pytest.mark.long
def test_form_and_api_requests_plan_same_runs(context, launch, client):
    sweeps = {
        "one regularizer": {"lambdas": [-1, 0.5, 1 / 3], "seeds": [0, 7], "learning_rate": 1.2345678e-5},
        "several with a grid": {
            "regularizers": ["istar", "cosreg"],
            "zetas": [0.2, 0.4],
            "grid": {"batch_size": [8, 16], "layers": ["last", [1, 2], None], "token_fraction": [0.5, 1.0]},
        },
        "steps, and another beside": {
            "epochs": None, "max_steps": 20, "fixed_regularizers": {"entropy": -0.5}, "regularizers": ["istar"],
            "entropy_by_label": False, "export": True, "patience": 2, "checkpoint": "best", "selection": "validation",
        },
        "a grid of steps": {"grid": {"max_steps": [10, 20]}, "regularizers": []},
        "baselines alone": {"regularizers": [], "seeds": [3]},
    }  # fmt: skip
    for name, sweep in sweeps.items():
        experiment = get_experiment(context, launch(**sweep))
        plan = plan_sweep(
            context, parse_sweep(default_values(None, "") | prefill_form(context, None, experiment.id).values)
        )
        assert plan.runs == [run.config for run in experiment.runs], name
    experiment = get_experiment(context, launch(**sweeps["several with a grid"], lambdas=[-1, 1], seeds=[0, 1]))
    for run in experiment.runs:
        plan = plan_sweep(context, parse_sweep(default_values(None, "") | prefill_form(context, run.id, None).values))
        assert plan.runs[-1] == run.config
        assert len(plan.runs) == (1 if run.lam == 0 else 2)
        run_request = client.get(f"/api/runs/{run.id}/request").json()
        assert plan_sweep(context, SweepRequest.model_validate(run_request)).runs == plan.runs


def read_input(page, field):
    return re.search(rf'<input type="text" id="{field}"[^>]*? value="([^"]*)"', page)[1]


def fail(context, **columns):
    with context.sessions.begin() as session:
        session.execute(update(Run).values(status=RunStatus.FAILED, **columns))


def test_form_halves_batch_of_run_that_ran_out_of_memory(client, context, launch):
    experiment = client.get(f"/api/experiments/{launch(batch_size=16, accumulation=2)}").json()
    run_id = experiment["runs"][1]["id"]
    fail(context, error="There was not enough memory.", cause=FailureCause.MEMORY, error_field="batch_size")
    run_page = client.get(f"/runs/{run_id}").text
    assert "<strong>Memory ran out.</strong> There was not enough memory." in run_page
    link = f'href="/experiments/new?run={run_id}#batch_size">Change batch size and launch a new experiment</a>'
    assert link in run_page
    assert run_page.count(f"/experiments/new?run={run_id}") == 1
    answer = client.get(f"/experiments/new?run={run_id}")
    assert answer.status_code == 200
    assert read_input(answer.text, "name") == experiment["name"]
    assert (read_input(answer.text, "batch_size"), read_input(answer.text, "accumulation")) == ("8", "4")
    assert re.search(r'id="batch_size"[^>]* aria-invalid="true"', answer.text)
    assert (
        '<small class="error" id="batch_size-error">The run failed: There was not enough memory. '
        "The form starts with a batch of 8 instead of 16.</small>"
    ) in answer.text


def test_failure_is_shown_at_its_field_or_above_form(client, context, launch):
    failures = [
        (FailureCause.MODEL, "model", "The model could not be loaded", "model"),
        (FailureCause.COLUMN, "label_column", "The data do not fit", "label_column"),
        (FailureCause.NOT_A_NUMBER, "learning_rate", "The loss is not a number", "learning_rate"),
        (FailureCause.NOT_A_NUMBER, "lambdas", "The loss is not a number", "lambdas"),
        (FailureCause.KILLED, None, "Its process was killed repeatedly", "batch_size"),
        (FailureCause.SETTING, "processes", "A setting cannot be used", "processes"),
    ]
    run_id = client.get(f"/api/experiments/{launch()}").json()["runs"][0]["id"]
    for cause, field, title, field_id in failures:
        fail(context, error="Why.", cause=cause, error_field=field)
        assert f"<strong>{title}.</strong> Why." in client.get(f"/runs/{run_id}").text
        form = client.get(f"/experiments/new?run={run_id}").text
        assert f'id="{field_id}-error">The run failed: Why.</small>' in form
    for cause in (FailureCause.DATABASE, FailureCause.UNSPECIFIED, None):
        fail(context, error="Why.", cause=cause, error_field=None)
        form = client.get(f"/experiments/new?run={run_id}").text
        assert re.search(r'<div class="notice bad" role="alert"[^>]*>\s*<p>The run failed: Why.</p>', form)
        assert "-error" not in form


def test_run_and_experiment_link_to_form(client, launch):
    experiment_id = launch(name="mine", epochs=4, lambdas=[-1, 1])
    runs = client.get(f"/api/experiments/{experiment_id}").json()["runs"]
    (baseline,) = [run["id"] for run in runs if run["regularizer"] == "none"]
    for page, query in (
        (f"/runs/{baseline}", f"run={baseline}"),
        (f"/experiments/{experiment_id}", f"experiment={experiment_id}"),
    ):
        assert f'href="/experiments/new?{query}">Launch again</a>' in client.get(page).text
        form = client.get(f"/experiments/new?{query}").text
        assert read_input(form, "epochs") == "4"
        assert 'role="alert"' not in form
    form = client.get(f"/experiments/new?run={baseline}").text
    assert read_input(form, "lambdas") == "0"
    assert "1 run</strong>" in form
    assert client.get("/experiments/new?run=none").status_code == 404


def test_form_explains_unsupported_and_logged_settings(client, context, launch):
    experiment_id = launch(grid={"fixed_regularizers": [{"cosreg": 1}, {}]})
    form = client.get(f"/experiments/new?experiment={experiment_id}").text
    assert "The form has no row for a grid over sets of extra penalties." in form
    with context.sessions.begin() as session:
        config = {"logged": True, "task": "classification", "metric": "accuracy", "model": "mine"}
        session.execute(update(Experiment).values(config=config))
    for address in (f"/experiments/new?experiment={experiment_id}", f"/experiments/{experiment_id}/request.yaml"):
        refused = client.get(address, headers={"accept": "text/html"})
        assert refused.status_code == 409
        assert "only the script knows all their settings. Run the script again." in refused.text
    page = every_tab(client, f"/experiments/{experiment_id}").text
    assert ">Launch again<" not in page
    assert "request.yaml" not in page


def test_form_of_import_without_rows_asks_for_data_set(client, context, launch):
    experiment_id = launch(epochs=4)
    dataset_id = client.get(f"/api/experiments/{experiment_id}").json()["dataset_id"]
    with context.sessions.begin() as session:
        dataset = Dataset(name="CoLA", origin="named", columns=[])
        session.add(dataset)
        session.flush()
        session.execute(update(Experiment).values(origin="imported", dataset_id=dataset.id, source=SOURCE))
    page = every_tab(client, f"/experiments/{experiment_id}").text
    assert f'href="/experiments/new?experiment={experiment_id}"' in page
    form = client.get(f"/experiments/new?experiment={experiment_id}").text
    assert "The rows of CoLA are not on this dashboard. Choose a data set whose rows are.</small>" in form
    assert re.search(rf'<option value="{dataset_id}" selected', form)
    assert read_input(form, "epochs") == "4"


def test_search_is_launched_again_from_form_and_yaml(client, context, launch):
    experiment_id = launch(checkpoint="best", patience=3, seeds=[4, 5])
    with context.sessions.begin() as session:
        study = Search(regularizer="cosreg", lam_high=3, least_size=0.1, prune=True, over=True, why="Enough.")
        session.execute(update(Experiment).values(study=study.model_dump(mode="json")))
    page = every_tab(client, f"/experiments/{experiment_id}").text
    assert f'href="/experiments/search?experiment={experiment_id}">Search again</a>' in page
    form = client.get(f"/experiments/search?experiment={experiment_id}").text
    form_values = {name: read_input(form, f"search_{name}") for name in ("lam_low", "lam_high", "least_size", "trials")}
    assert form_values == {"lam_low": "-1", "lam_high": "3", "least_size": "0.1", "trials": "20"}
    assert '<option value="cosreg" selected' in form
    assert read_input(form, "seeds") == "4, 5"
    document = read_yaml(client.get(f"/experiments/{experiment_id}/request.yaml").text)
    assert document["search"] == {"regularizer": "cosreg", "lam_high": 3.0, "least_size": 0.1, "prune": True}
    second = client.post("/api/studies", json=document)
    assert second.status_code == 201, second.text
    assert second.json()["name"] == get_experiment(context, experiment_id).name
    docs = [client.get(f"/api/experiments/{row}/request").json() for row in (experiment_id, second.json()["id"])]
    assert docs[0] == docs[1]
