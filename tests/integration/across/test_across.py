import csv
import html
import io
import re

import pytest

from app.db.models import Experiment
from tests.across import ended, words
from tests.factories import reported
from tests.tabs import every_tab


def read_rows(client, address):
    return list(csv.DictReader(io.StringIO(client.get(f"/compare/runs/figures/{address}").text)))


def test_runs_of_several_experiments_share_page(client, pair):
    page = words(client.get("/compare/runs?error=se"))
    assert "12 of 12 runs shown, of 2 experiments." in page
    assert 'name="on"' not in page
    assert "Add an experiment" not in page
    assert '<input type="checkbox" name="group" value="model" >' in page
    assert "If empty, every setting that varies (Model, " in page
    assert '<input type="checkbox" name="group" value="seed" >' in page
    assert "cannot be compared" not in page
    assert 'data-figure="/compare/runs/figures/isotropy.json' in page
    assert page.count('data-figure="/compare/runs/figures/') == 2
    assert '<option value="se" selected>standard error</option>' in page
    assert "What the runs say" in page
    assert "standard errors of the mean" in page
    assert 'aria-current="page">Runs</a>' in page
    assert '<a href="/compare/runs" >Runs</a>' in words(client.get("/compare"))
    rows = read_rows(client, "lambda.csv")
    models = ("bert_base", "roberta")
    assert [(row["lambda"], row["model"], row["performance_seeds"]) for row in rows] == [
        (lam, model, "3") for lam in ("0.0", "1.0") for model in models
    ]
    assert [float(row["performance_mean"]) for row in rows] == pytest.approx([0.51, 0.61, 0.61, 0.71])
    slugs = client.get("/api/compare/runs/figures").json()
    assert {"isotropy", "lambda", "parallel", "learning", "watched", "activation"} <= {*slugs}
    figure = client.get("/api/compare/runs/figures/isotropy?q=model:roberta&seeds=1").json()
    assert [row[figure["columns"].index("seed")] for row in figure["rows"]] == [0, 1, 2, 0, 1, 2]
    assert client.get("/api/compare/runs/figures/pareto").status_code == 404


@pytest.mark.both_databases
def test_search_and_groups_select_rows(client, pair):
    for query, ticked in (("", []), ("&group=experiment", ["experiment"])):  # as a browser sends the form
        page = words(client.get(f"/compare/runs?q=lam>0{query}"))
        form = page.partition('id="run-search"')[2].partition("</form>")[0]
        assert re.findall(r'name="group" value="(\w+)" checked', form) == ticked
    page = words(client.get("/compare/runs?q=lam>0+model:roberta&group=experiment"))
    assert "3 of 3 runs shown, of 1 experiment." in page
    assert [(row["experiment"], row["lambda"]) for row in read_rows(client, "lambda.csv?group=experiment")] == [
        ("<first>", "0.0"), ("second", "0.0"), ("<first>", "1.0"), ("second", "1.0"),
    ]  # fmt: skip
    assert len(read_rows(client, "isotropy.csv?group=model&group=seed")) == 12
    page = words(client.get("/compare/runs?group=model"))
    sentence = "Figures and tests always separate regularizers, λ and ζ. The table of means does not."
    assert sentence in page.partition("<fieldset")[2].partition("</fieldset>")[0]
    assert [row["lambda"] for row in read_rows(client, "lambda.csv?group=model")] == ["0.0", "0.0", "1.0", "1.0"]
    assert "Runs in one mean differ in λ too." in page


def test_checked_experiments_become_search(client, pair):
    first, second = pair
    listed = words(client.get("/experiments"))
    assert f'<input type="checkbox" name="experiment" value="{first}" aria-label="Choose <first>">' in listed
    assert re.sub(r"<svg.*?</svg>", "", listed).count("<small>λ: 0 1 </small>") == 2
    page = words(every_tab(client, f"/experiments/{first}"))
    assert f'href="/compare/runs?q=experiment%3D{first}">Compare with others</a>' in page
    assert f'hx-get="/compare/runs/table.html?q=experiment%3D{first}"' in page
    answer = client.get(f"/compare/runs?experiment={first}&experiment={second}&group=model")
    assert answer.headers["location"] == f"/compare/runs?q=experiment%3D{first}%2C{second}&group=model"
    assert "12 of 12 runs shown" in words(client.get(answer.headers["location"]))
    single = f"/compare/runs?q=experiment%3D{first}"
    page = words(client.get(single))
    assert "6 of 6 runs shown, of 1 experiment." in page
    assert f'<option value="{second}">second</option>' in page
    assert f'<option value="{first}">' not in page
    added = client.get(f"{single}&experiment={second}")
    assert added.headers["location"] == f"/compare/runs?q=experiment%3D{first}%2C{second}"
    odd = client.get('/compare/runs?experiment=a"b').headers["location"]
    assert odd == "/compare/runs?q=experiment%3D%22a%5C%22b%22"
    assert "No runs match this search." in words(client.get(odd))
    answer = client.get("/experiments/compare", params={"experiment": pair, "q": "", "page": "1"})
    to = f"/compare/runs?experiment={first}&experiment={second}"
    assert (answer.status_code, answer.headers["location"]) == (303, to)
    refusal = client.get("/experiments/compare", params={"q": f"experiment={second}", "page": "1"})
    assert refusal.status_code == 422
    assert "No experiment is selected. Select two or more to compare, or one to read it alone." in refusal.text
    listed = [f'value="{experiment_id}" aria-label' in refusal.text for experiment_id in pair]
    assert listed == [False, True], "the list is as it was"
    assert "Select two or more" not in client.get("/experiments").text


def test_each_data_set_and_metric_has_its_own_figures(client, launch, pair):
    steered = [ended(lam, 0, 0.125 + lam / 8, metric="matthews") for lam in (0.0, 1.0)]
    launch("third", *steered, on="RTE", metric="matthews")
    launch("fourth", ended(0.0, 0, 0.875), on="RTE")
    page = words(client.get("/compare/runs"))
    sentence = "These runs use 2 data sets and 2 metrics, so their performance cannot be compared. Figures show "
    assert f"{sentence}CoLA, Accuracy: 12 of 15 runs. The table of means has a column for each." in page
    options = re.findall(r'<option value="([\w.]*)" (selected)?>([^<]+)', page.partition('name="on"')[2])
    assert options[0] == ("", "selected", "CoLA, Accuracy")
    titles = {on: title for on, _, title in options[:3]}
    assert list(titles.values()) == ["CoLA, Accuracy", "RTE, Matthews correlation", "RTE, Accuracy"]

    def drawn(on):
        rows = read_rows(client, f"lambda.csv?group=lam&on={on}")
        return [(row["lambda"], row["performance_seeds"], float(row["performance_mean"])) for row in rows]

    assert [drawn(on) for on in titles] == [
        [("0.0", "3", pytest.approx(0.56)), ("1.0", "3", pytest.approx(0.66))],
        [("0.0", "1", 0.125), ("1.0", "1", 0.25)],
        [("0.0", "1", 0.875)],
    ]
    assert drawn("gone.accuracy") == drawn("")
    last_key = next(reversed(titles))
    page = words(client.get(f"/compare/runs?on={last_key}"))
    assert f'data-figure="/compare/runs/figures/isotropy.json?on={last_key}"' in page
    assert max(float(row["performance_mean"]) for row in read_rows(client, "methods.csv")) < 0.875


def test_cautions_name_zeta_averaged_fields_and_studies(client, context, launch):
    launch("a", ended(0.0, 0, 0.5, batch_size=8), ended(0.0, 0, 0.5, batch_size=32, evaluation_zeta=0.5))
    page = words(client.get("/compare/runs?group=lam"))
    assert "IsoScore★ was measured at different ζ, so it cannot be compared. Each ζ has its own mean." in page
    assert "Some points are means over runs that differ in" not in page
    experiment_id = launch(
        "b", *(ended(lam, seed, 0.5 + lam / 4, batch_size=32) for lam in (0.0, 1.0) for seed in (1, 2))
    )
    with context.sessions.begin() as session:
        session.get(Experiment, experiment_id).study = {"over": True}
    page = words(client.get("/compare/runs?group=lam"))
    assert "Some points are means over runs that differ in batch size too." in page
    caution = "A study chose λ by the results before it, so the runs are not independent and no p is exact."
    assert caution in client.get("/api/compare/runs/conclusion").json()["conclusion"]["cautions"]
    assert caution in words(client.get("/compare/runs"))


def test_invalid_query_returns_form_with_reason(client, pair):
    for query, reason in (
        ("q=lam<<1", "Expected"),
        ("q=color:red", "There is no field 'color'"),
        ("group=color", "Expected fields to group runs by, got 'color'; fields are accumulation, "),
    ):
        answer = client.get(f"/compare/runs?{query}")
        assert answer.status_code == 422
        assert reason in html.unescape(answer.text)
        assert '<input type="search" name="q"' in answer.text
        assert reason in client.get(f"/api/compare/runs/table?{query}").json()["detail"]
        assert client.get(f"/compare/runs/figures/lambda.csv?{query}").status_code == 422
    assert client.get("/compare/runs/list?q=color:red").status_code == 422


def test_list_has_row_per_run(client, pair):
    assert 'href="/compare/runs/list?q=lam%3E0">List them one by one</a>' in words(client.get("/compare/runs?q=lam>0"))
    page = words(client.get("/compare/runs/list?q=lam>0&sort=-performance"))
    cells = re.findall(r'data-label="Accuracy" >(0\.\d+)</td> <td class="n" data-label="IsoScore★" >0\.250', page)
    assert cells == ["0.720", "0.710", "0.700", "0.620", "0.610", "0.600"]
    assert 'href="/compare/runs?q=lam%3E0">Compare runs</a>' in page
    page = words(client.get(f"/experiments/{pair[0]}?q=lam:1&sort=-performance"))
    assert f'<a href="/experiments/{pair[0]}?tab=runs" aria-current="page">Runs</a>' in page
    assert 'name="q" value="lam:1"' in page


def test_pages_and_figures_without_runs_are_empty(client, launch):
    assert "No runs yet." in words(client.get("/compare/runs"))
    missing = client.get("/compare/runs/figures/lambda.json").json()
    assert missing["detail"] == "There is no figure 'lambda' of these runs."
    experiment_id = launch("nothing yet")
    for slug in ("lambda", "isotropy", "layers", "parallel", "methods"):
        assert client.get(f"/experiments/{experiment_id}/figures/{slug}.json").json()["data"] == []
    run = ended(1.0, 0, 0.5)
    run.config = reported(run)
    caption = client.get(f"/api/experiments/{launch('script', run)}/figures/isotropy").json()["caption"]
    assert caption.startswith("IsoScore★ is as a script logged it. ")


@pytest.mark.both_databases
def test_run_limit_keeps_newest(client, launch):
    launch("many", *(ended(0.0, seed, 0.5) for seed in range(1001)))
    sentence = "1,000 of 1,001 runs shown, those of the newest experiments, of 1 experiment."
    assert sentence in words(client.get("/compare/runs"))
    table = client.get("/api/compare/runs/table").json()
    assert (table["runs"], table["total"]) == (1000, 1001)
    assert table["notes"] == ["1,000 of 1,001 runs shown, those of the newest experiments."]


def test_api_has_conclusion_and_cautions_of_page(client, launch, pair):
    launch("third", *(ended(lam, seed, 0.5 + lam / 4, batch_size=8) for lam in (0.0, 1.0) for seed in (0, 1)), on="RTE")
    answer = client.get("/api/compare/runs/conclusion?group=lam").json()
    assert (answer["runs"], answer["total"], answer["groups"]) == (16, 16, ["lam"])
    assert answer["measured"][answer["on"]] == "CoLA, Accuracy"
    (difference,) = answer["conclusion"]["differences"]
    assert (difference["label"], difference["seeds"]) == ("λ = 1", [0, 1, 2])
    assert difference["estimate"] == pytest.approx(0.1)
    assert answer["cautions"][-1] == "Some points are means over runs that differ in model too."
    page = words(client.get("/compare/runs?group=lam"))
    for sentence in (*answer["cautions"], *answer["conclusion"]["notes"], answer["conclusion"]["sentences"][0]):
        assert sentence in page
    rte = next(on for on, title in answer["measured"].items() if title == "RTE, Accuracy")
    conclusion = client.get(f"/api/compare/runs/conclusion?on={rte}").json()
    assert (conclusion["on"], conclusion["conclusion"]["differences"][0]["estimate"]) == (rte, 0.25)
    empty = client.get("/api/compare/runs/conclusion?q=lam>9").json()
    assert (empty["runs"], empty["on"], empty["measured"], empty["conclusion"]["differences"]) == (0, "", {}, [])
