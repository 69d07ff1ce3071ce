from urllib.parse import parse_qs

import pytest
from sqlalchemy import select, update

from app.db.models import Experiment, Run
from app.db.reported_config import ReportedConfig
from isoscope.files.yaml_document import read_yaml
from tests.cached_rows import make_once

ROWS = "sentence\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(20))
REQUIRED = {"model": "all-MiniLM-L6-v2", "text_columns": ["sentence"], "label_column": "label"}


@pytest.fixture
def dataset(client, context, module_cache):
    def upload():
        files = {"train": ("train.tsv", ROWS), "validation": ("validation.tsv", ROWS)}
        return client.post("/api/datasets", files=files).json()["id"]

    return make_once(context, module_cache, "dataset", upload)


def launch(client, dataset, **change):
    answer = client.post("/api/experiments", json={"dataset_id": dataset, **REQUIRED, **change})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def read_runs(context, experiment):
    with context.sessions() as session:
        configs = select(Run.config).where(Run.experiment_id == experiment).order_by(Run.position)
        return session.scalars(configs).all(), session.get(Experiment, experiment).grid


def test_request_of_experiment_relaunches_same_runs(client, context, dataset):
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
        first = launch(client, dataset, **change)
        request = client.get(f"/api/experiments/{first}/request")
        assert request.status_code == 200
        second = client.post("/api/experiments", json=request.json()).json()["id"]
        yaml = client.get(f"/experiments/{first}/request.yaml")
        third = client.post("/api/experiments", json=read_yaml(yaml.text)).json()["id"]
        assert read_runs(context, first) == read_runs(context, second) == read_runs(context, third)
        assert yaml.headers["content-disposition"].startswith("attachment; filename=")
    experiment = launch(client, dataset)
    run = client.get(f"/api/experiments/{experiment}").json()["runs"][0]["id"]
    with context.sessions.begin() as session:
        session.execute(update(Experiment).values(config=REPORTED))
    for address in (f"/api/experiments/{experiment}/request", f"/api/runs/{run}/request"):
        refused = client.get(address)
        assert refused.status_code == 409
        assert refused.json()["detail"].startswith(
            "A script logged these runs, and only the script knows all their settings."
        )


REPORTED = ReportedConfig(logged=True, model="m", task="classification", metric="accuracy")


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
        plan = refused.partition('id="plan"')[2].partition("</div>")[0]
        for words in ('data-wrong="text_columns"', "<strong>Not ready</strong>", "poem"):
            assert words in plan
        assert '<option value="poem" selected>poem (not in this data set)</option>' in refused
    refused = fill(client, f"dataset_id: {dataset}\nlambda: 3\n")
    assert "There is no field lambda; did you mean lambdas?" in refused.text
    assert "There is no field weather; leave it out." in fill(client, "weather: fine\n").text
    refused = client.post("/experiments/new/yaml", files={"file": ("x.npy", b"\x93NUMPY\xff")})
    assert refused.status_code == 422
    assert "Expected a file of text in UTF-8, got other bytes in x.npy." in refused.text


SWEEP_YAML = "model: all-MiniLM-L6-v2\ntext_columns: [sentence]\nlabel_column: label\nseeds: [41, 42]\n"
