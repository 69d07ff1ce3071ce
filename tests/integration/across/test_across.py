"""Runs of any experiments read together: page, lists, figures and API."""

import csv
import html
import io
import re

import pytest

from app.db.models import Experiment
from tests.across import made, words
from tests.factories import reported
from tests.tabs import every_tab


@pytest.mark.both_databases
def test_runs_of_several_experiments_are_one_page(client, two):
    page = words(client.get("/compare/runs"))
    assert "12 of 12 runs shown, of 2 experiments." in page
    assert 'name="on"' not in page
    assert "Add an experiment" not in page
    assert '<input type="checkbox" name="group" value="model" >' in page
    assert "If empty, every setting that varies (Model, " in page
    assert '<input type="checkbox" name="group" value="seed" >' in page
    assert "cannot be compared" not in page
    assert 'data-figure="/compare/runs/figures/isotropy.json"' in page
    figure = client.get("/compare/runs/figures/lambda.csv").text
    rows = list(csv.DictReader(io.StringIO(figure)))
    assert [(row["model"], row["lambda"], row["performance_seeds"]) for row in rows] == [
        ("bert_base", "0.0", "3"), ("roberta", "0.0", "3"), ("bert_base", "1.0", "3"), ("roberta", "1.0", "3"),
    ]  # fmt: skip
    assert [float(row["performance_mean"]) for row in rows] == pytest.approx([0.51, 0.61, 0.61, 0.71])


@pytest.mark.both_databases
def test_another_search_groups_anew_and_only_what_was_ticked_stays(client, two):
    """As a browser sends the search form: what is ticked in it, and no more."""
    page = words(client.get("/compare/runs?q=lam>0"))
    form = page.partition('id="run-search"')[2].partition("</form>")[0]
    assert re.findall(r'name="group" value="(\w+)" checked', form) == []
    ticked = words(client.get("/compare/runs?q=lam>0&group=experiment"))
    form = ticked.partition('id="run-search"')[2].partition("</form>")[0]
    assert re.findall(r'name="group" value="(\w+)" checked', form) == ["experiment"]


@pytest.mark.both_databases
def test_a_search_narrows_and_groups_are_chosen(client, two):
    page = words(client.get("/compare/runs?q=lam>0+model:roberta&group=experiment"))
    assert "3 of 3 runs shown, of 1 experiment." in page
    rows = list(csv.DictReader(io.StringIO(client.get("/compare/runs/figures/lambda.csv?group=experiment").text)))
    assert [(row["experiment"], row["lambda"]) for row in rows] == [
        ("<first>", "0.0"), ("second", "0.0"), ("<first>", "1.0"), ("second", "1.0"),
    ]  # fmt: skip
    seeds = client.get("/compare/runs/figures/isotropy.csv?group=model&group=seed").text
    assert len(list(csv.DictReader(io.StringIO(seeds)))) == 12


def test_it_is_said_beside_the_ticks_that_figures_keep_lambdas_apart_and_the_table_does_not(client, two):
    page = words(client.get("/compare/runs?group=model"))
    told = "Figures and tests always separate regularizers, λ and ζ. The table of means does not."
    assert told in page.partition("<fieldset")[2].partition("</fieldset>")[0]
    points = list(csv.DictReader(io.StringIO(client.get("/compare/runs/figures/lambda.csv?group=model").text)))
    assert [row["lambda"] for row in points] == ["0.0", "0.0", "1.0", "1.0"]
    assert "Runs in one mean differ in λ too." in page


@pytest.mark.both_databases
def test_experiments_that_are_ticked_become_a_search_for_them(client, two):
    first, second = two
    answer = client.get(f"/compare/runs?experiment={first}&experiment={second}&group=model")
    assert answer.headers["location"] == f"/compare/runs?q=experiment%3D{first}%2C{second}&group=model"
    assert "12 of 12 runs shown" in words(client.get(answer.headers["location"]))
    one = f"/compare/runs?q=experiment%3D{first}"
    page = words(client.get(one))
    assert "6 of 6 runs shown, of 1 experiment." in page
    assert f'<option value="{second}">second</option>' in page
    assert f'<option value="{first}">' not in page
    added = client.get(f"{one}&experiment={second}")
    assert added.headers["location"] == f"/compare/runs?q=experiment%3D{first}%2C{second}"
    odd = client.get('/compare/runs?experiment=a"b').headers["location"]
    assert odd == "/compare/runs?q=experiment%3D%22a%5C%22b%22"
    assert "No runs match this search." in words(client.get(odd))


def test_the_lists_lead_to_the_comparison(client, two):
    listed = words(client.get("/experiments"))
    assert f'<input type="checkbox" name="experiment" value="{two[0]}" aria-label="Choose <first>">' in listed
    page = words(every_tab(client, f"/experiments/{two[0]}"))
    assert f'href="/compare/runs?q=experiment%3D{two[0]}">Compare with others</a>' in page
    assert f'hx-get="/compare/runs/table.html?q=experiment%3D{two[0]}"' in page
    assert 'aria-current="page">Runs</a>' in words(client.get("/compare/runs"))
    assert '<a href="/compare/runs" >Runs</a>' in words(client.get("/compare"))


def test_tasks_and_metrics_have_figures_of_their_own_and_that_is_said(client, launch, two):
    steered = [made(lam, 0, 0.125 + lam / 8, metric="matthews") for lam in (0.0, 1.0)]
    launch("third", *steered, on="RTE", metric="matthews")
    launch("fourth", made(0.0, 0, 0.875), on="RTE")
    page = words(client.get("/compare/runs"))
    assert (
        "These runs are of 2 data sets and 2 metrics, between which performance cannot be compared. Figures show CoLA, "
        "Accuracy: 12 of 15 runs. The table of means has a column for each." in page
    )
    offered = re.findall(r'<option value="([\w.]*)" (selected)?>([^<]+)', page.partition('name="on"')[2])
    assert offered[0] == ("", "selected", "CoLA, Accuracy")
    chosen = {on: named for on, _, named in offered[:3]}
    assert list(chosen.values()) == ["CoLA, Accuracy", "RTE, Matthews correlation", "RTE, Accuracy"]

    def drawn(on):
        rows = csv.DictReader(io.StringIO(client.get(f"/compare/runs/figures/lambda.csv?group=lam&on={on}").text))
        return [(row["lambda"], row["performance_seeds"], float(row["performance_mean"])) for row in rows]

    assert [drawn(on) for on in chosen] == [
        [("0.0", "3", pytest.approx(0.56)), ("1.0", "3", pytest.approx(0.66))],
        [("0.0", "1", 0.125), ("1.0", "1", 0.25)],
        [("0.0", "1", 0.875)],
    ]
    assert drawn("gone.accuracy") == drawn("")
    wanted = next(reversed(chosen))
    assert f'data-figure="/compare/runs/figures/isotropy.json?on={wanted}"' in words(
        client.get(f"/compare/runs?on={wanted}")
    )
    methods = list(csv.DictReader(io.StringIO(client.get("/compare/runs/figures/methods.csv").text)))
    assert max(float(row["performance_mean"]) for row in methods) < 0.875


def test_isotropy_at_different_zeta_and_what_is_averaged_over_is_told(client, launch):
    launch("a", made(0.0, 0, 0.5, batch_size=8), made(0.0, 0, 0.5, batch_size=32, evaluation_zeta=0.5))
    page = words(client.get("/compare/runs?group=lam"))
    assert "IsoScore★ was taken at different ζ, between which it cannot be compared. No mean is over several." in page
    assert "Some points are means over runs that differ in" not in page
    launch("b", made(0.0, 1, 0.5, batch_size=32))
    assert "Some points are means over runs that differ in batch size too." in words(
        client.get("/compare/runs?group=lam")
    )


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("q=lam<<1", "Expected"),
        ("q=colour:red", "There is no field 'colour'"),
        ("group=colour", "Expected fields to group runs by, got 'colour'; known are accumulation, "),
    ],
)
def test_what_cannot_be_read_comes_back_in_its_form_with_why(client, two, query, told):
    answer = client.get(f"/compare/runs?{query}")
    assert answer.status_code == 422
    assert told in html.unescape(answer.text)
    assert '<input type="search" name="q"' in answer.text
    assert told in client.get(f"/api/compare/runs/table?{query}").json()["detail"]
    assert client.get(f"/compare/runs/figures/lambda.csv?{query}").status_code == 422


def test_the_runs_are_listed_one_by_one(client, two):
    assert 'href="/compare/runs/list?q=lam%3E0">List them one by one</a>' in words(client.get("/compare/runs?q=lam>0"))
    page = words(client.get("/compare/runs/list?q=lam>0&sort=-performance"))
    assert re.findall(r'data-label="Accuracy" >(0\.\d+)</td> <td class="n" data-label="IsoScore★" >0\.250', page) == [
        "0.720", "0.710", "0.700", "0.620", "0.610", "0.600",
    ]  # fmt: skip
    assert 'href="/compare/runs?q=lam%3E0">Compare runs</a>' in page
    assert client.get("/compare/runs/list?q=colour:red").status_code == 422


def test_where_there_is_no_run_there_is_one_action(client):
    assert "No runs yet." in words(client.get("/compare/runs"))
    assert (
        client.get("/compare/runs/figures/lambda.json").json()["detail"] == "There is no figure 'lambda' of these runs."
    )


@pytest.mark.both_databases
def test_of_too_many_runs_the_newest_are_shown_and_that_is_said(client, launch):
    launch("many", *(made(0.0, seed, 0.5) for seed in range(1001)))
    assert "1,000 of 1,001 runs shown, those of the newest experiments, of 1 experiment." in words(
        client.get("/compare/runs")
    )
    table = client.get("/api/compare/runs/table").json()
    assert (table["runs"], table["total"]) == (1000, 1001)
    assert table["notes"] == ["1,000 of 1,001 runs shown, those of the newest experiments."]


@pytest.mark.both_databases
def test_figures_over_the_api_are_those_of_the_page(client, two):
    slugs = client.get("/api/compare/runs/figures").json()
    assert {"isotropy", "lambda", "parallel", "learning", "watched", "activation"} <= {*slugs}
    figure = client.get("/api/compare/runs/figures/isotropy?q=model:roberta&seeds=1").json()
    assert [row[figure["columns"].index("seed")] for row in figure["rows"]] == [0, 1, 2, 0, 1, 2]
    assert client.get("/api/compare/runs/figures/pareto").status_code == 404


def test_both_scatters_stand_with_their_controls_and_what_the_runs_say(client, two):
    page = words(client.get("/compare/runs?error=se"))
    assert page.count('data-figure="/compare/runs/figures/') == 2
    assert '<option value="se" selected>standard error</option>' in page
    assert "What the runs say" in page
    assert "standard errors of the mean" in page


def test_the_api_concludes_and_cautions_as_the_page_does(client, launch, two):
    launch("third", *(made(lam, seed, 0.5 + lam / 4, batch_size=8) for lam in (0.0, 1.0) for seed in (0, 1)), on="RTE")
    answer = client.get("/api/compare/runs/conclusion?group=lam").json()
    assert (answer["runs"], answer["total"], answer["groups"]) == (16, 16, ["lam"])
    assert answer["measured"][answer["on"]] == "CoLA, Accuracy"
    assert [(one["label"], one["seeds"]) for one in answer["conclusion"]["differences"]] == [("λ = 1", [0, 1, 2])]
    assert answer["conclusion"]["differences"][0]["estimate"] == pytest.approx(0.1)
    assert answer["cautions"][-1] == "Some points are means over runs that differ in model too."
    page = words(client.get("/compare/runs?group=lam"))
    for sentence in (*answer["cautions"], *answer["conclusion"]["notes"], answer["conclusion"]["sentences"][0]):
        assert sentence in page
    other = next(on for on, named in answer["measured"].items() if named == "RTE, Accuracy")
    there = client.get(f"/api/compare/runs/conclusion?on={other}").json()
    assert (there["on"], there["conclusion"]["differences"][0]["estimate"]) == (other, 0.25)
    none = client.get("/api/compare/runs/conclusion?q=lam>9").json()
    assert (none["runs"], none["on"], none["measured"], none["conclusion"]["differences"]) == (0, "", {}, [])


def test_a_study_s_caution_stands_across_experiments_too(client, context, launch):
    one = launch("search", *(made(lam, seed, 0.5 + lam / 4) for lam in (0.0, 1.0) for seed in (0, 1)))
    with context.sessions.begin() as session:
        session.get(Experiment, one).study = {"over": True}
    told = "A study chose λ by the results before it, so the runs are not independent and no p is exact."
    assert told in client.get("/api/compare/runs/conclusion").json()["conclusion"]["cautions"]
    assert told in words(client.get("/compare/runs"))


def test_a_search_for_runs_shows_their_tab(client, two):
    page = words(client.get(f"/experiments/{two[0]}?q=lam:1&sort=-performance"))
    assert f'<a href="/experiments/{two[0]}?tab=runs" aria-current="page">Runs</a>' in page
    assert 'name="q" value="lam:1"' in page


def test_a_run_that_a_script_logged_is_not_said_to_be_of_validation_tokens(client, launch):
    run = made(1.0, 0, 0.5)
    run.config = reported(run)
    one = launch("script", run)
    caption = client.get(f"/api/experiments/{one}/figures/isotropy").json()["caption"]
    assert caption.startswith("IsoScore★ is as a script logged it. ")


def test_an_experiment_without_a_run_has_empty_figures(client, launch):
    one = launch("nothing yet")
    for slug in ("lambda", "isotropy", "layers", "parallel", "methods"):
        assert client.get(f"/experiments/{one}/figures/{slug}.json").json()["data"] == []


def test_experiments_are_compared_only_when_some_are_ticked(client, two):
    answer = client.get("/experiments/compare", params={"experiment": two, "q": "", "page": "1"})
    to = f"/compare/runs?experiment={two[0]}&experiment={two[1]}"
    assert (answer.status_code, answer.headers["location"]) == (303, to)
    none = client.get("/experiments/compare", params={"q": f"experiment={two[1]}", "page": "1"})
    assert none.status_code == 422
    assert "No experiment is selected. Select two or more to compare, or one to read it alone." in none.text
    assert [f'value="{one}" aria-label' in none.text for one in two] == [False, True], "the list is as it was"
    assert "Select two or more" not in client.get("/experiments").text
