import csv
import html
import io
import re

import pytest

from app.results.labels import SENTENCE_MEASURES, TRAINING_MEASURES
from tests.across import ended, words
from tests.factories import add_experiment

LAYERS = {"values": [0.1, 0.4], "reasons": [None, None]}
RESULTS = {
    "metrics": {"accuracy": 0.6, "f1": 0.5},
    "metric_reasons": {},
    "n_validation": 40,
    "by_layer": dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES), LAYERS),
}


@pytest.fixture
def sweep(context):
    runs = [ended(lam, seed, 0.5 + lam / 8, batch_size=rows)
            for lam in (0.0, 1.0) for rows in (8, 16) for seed in (0, 1)]  # fmt: skip
    for run in runs:
        run.results = RESULTS
    return add_experiment(context, *runs, grid={"lam": [0, 1], "batch_size": [8, 16]})


def csv_rows(client, address):
    return list(csv.DictReader(io.StringIO(client.get(address).text)))


def find_form(page):
    return page.partition('id="scatters-form"')[2].partition("</form>")[0]


def test_default_page_has_both_scatters_and_all_quantities(client, sweep):
    page = words(client.get(f"/experiments/{sweep}"))
    assert re.findall(r'data-figure="[^"]*/figures/(\w+)\.json', page) == ["isotropy", "lambda"]
    form = find_form(page)
    options = re.findall(r'<option value="(\w*)"', form.partition('name="x"')[2].partition("</select>")[0])
    assert options[:3] == ["", "performance", "isoscore_star"]
    assert {"f1", "mean_cosine", "twonn", "silhouette", "seconds", "lam", "batch_size"} <= {*options}
    assert '<option value="performance" selected>' in form.partition('name="y"')[2]
    assert "<noscript><button" in form
    assert '<details class="further" id="scatters-further">' in form


def test_form_becomes_address_of_figure(client, sweep):
    path = f"/experiments/{sweep}"
    query = "x=batch_size&y=mean_cosine&facet=lam&x_scale=log&y_scale=&color=f1&error=ci95"
    page = words(client.get(f"{path}?{query}"))
    figure = html.unescape(re.findall(r'data-figure="([^"]*)"', page)[0])
    assert figure.startswith(f"{path}/figures/scatter.json?x=batch_size&y=mean_cosine&facet=lam&x_scale=log&color=f1")
    assert "Mean cosine similarity by batch size" in page
    form = find_form(page)
    for chosen in ("batch_size", "mean_cosine", "lam", "log", "f1"):
        assert f'<option value="{chosen}" selected>' in form
    assert '<details class="further" id="scatters-further" open>' in form
    drawn = client.get(figure).json()
    assert drawn["layout"]["xaxis"]["type"] == "log"
    panels, bar = ["λ = 0", "λ = 1"], "F1"
    annotations = [note["text"] for note in drawn["layout"]["annotations"]]
    assert (annotations[:2], annotations[-1]) == (panels, bar)
    (row, *_), rows = csv_rows(client, figure.replace(".json", ".csv")), 4
    assert len(csv_rows(client, figure.replace(".json", ".csv"))) == rows
    assert (row["mean_cosine_mean"], row["f1_mean"], row["batch_size"], row["mean_cosine_seeds"]) == (
        "0.4", "0.5", "8", "2",
    )  # fmt: skip
    answer = client.get(f"/api{figure.replace('.json', '')}").json()
    assert answer["title"] == "Mean cosine similarity by batch size"


def test_aliases_select_scatter(client, sweep):
    for query, slug in (("x=iso", "isotropy"), ("x=λ", "lambda")):
        page = words(client.get(f"/experiments/{sweep}?{query}"))
        assert re.findall(r'data-figure="[^"]*/figures/(\w+)\.json', page) == [slug]
    for path in (f"/experiments/{sweep}", "/compare/runs"):
        for field, noun in (("x", "quantity"), ("y", "quantity"), ("color", "quantity"), ("facet", "setting")):
            page = client.get(f"{path}?{field}=luck")
            assert page.status_code == 422
            assert f"No {noun} named `luck`. Choose one of: " in html.unescape(page.text)
            answer = client.get(f"/api{path}/figures/scatter?{field}=luck")
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["field"] == field


def test_data_sets_have_panels_and_axes_separate_groups(client, pair, launch):
    rows = csv_rows(client, "/compare/runs/figures/scatter.csv?group=lam&x=model")
    assert {row["model"] for row in rows} == {"bert_base", "roberta"}
    assert "model" not in csv_rows(client, "/compare/runs/figures/lambda.csv?group=lam")[0]
    launch("third", *(ended(lam, 0, 0.5 + lam / 4) for lam in (0.0, 1.0)), on="RTE")
    page = words(client.get("/compare/runs?facet=task"))
    assert '<option value="task" selected>data set</option>' in page
    drawn = client.get("/compare/runs/figures/isotropy.json?facet=task").json()
    assert [note["text"] for note in drawn["layout"]["annotations"]][-2:] == ["CoLA", "RTE"]
    assert {row["task"] for row in csv_rows(client, "/compare/runs/figures/isotropy.csv?facet=task")} == {"CoLA", "RTE"}
    assert {*drawn["layout"]["xaxis"]["range"]} == {*drawn["layout"]["xaxis2"]["range"]}
