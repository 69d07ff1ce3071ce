"""Runs of any experiments read together: page, files and API."""

import csv
import html
import io
import json
import re
from collections import Counter

import pytest
from sqlalchemy import event

from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunStatus
from app.db.regularizer_options import Regularizer

OPTIONS = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}


def made(lam, seed, performance, isoscore_star=0.25, status=RunStatus.FINISHED, **options):
    chosen = Regularizer.ISTAR if lam else Regularizer.NONE
    config = RunConfig(**OPTIONS | options, regularizer=chosen, lam=lam, seed=seed)
    by_layer = {one: {"values": [0.25, 0.5], "reasons": [None, None]} for one in ("silhouette", "twonn")}
    return Run(
        position=0, config=config.model_dump(mode="json"), regularizer=chosen, lam=lam, zeta=config.zeta, seed=seed,
        status=status, performance=performance, isoscore_star=isoscore_star,
        results={"metrics": {"accuracy": performance, "f1": 0.5}, "by_layer": by_layer,
                 "by_layer_n": {"silhouette": 40, "twonn": 40}},
    )  # fmt: skip


@pytest.fixture
def launch(context):
    """Write an experiment of runs on a data set, and say its id."""
    datasets = {}

    def write(name, *runs, on="CoLA", **options):
        config = TrainingConfig(**OPTIONS | options).model_dump(mode="json")
        with context.sessions.begin() as session:
            if on not in datasets:
                datasets[on] = Dataset(name=on, origin=DatasetOrigin.UPLOAD, n_train=9, n_validation=9, columns=[])
            for place, run in enumerate(runs):
                run.position = place
            one = Experiment(name=name, dataset=datasets[on], config=config, grid={}, runs=list(runs))
            session.add(one)
            session.flush()
            return one.id

    return write


@pytest.fixture
def two(launch):
    """Two models on one task, three seeds of two λ each."""
    coordinates = [(lam, seed) for lam in (0.0, 1.0) for seed in range(3)]
    return [
        launch(name, *(made(lam, seed, mean + lam / 10 + seed / 100, model=model) for lam, seed in coordinates))
        for name, model, mean in (("<first>", "bert_base", 0.5), ("second", "roberta", 0.6))
    ]


def words(answer):
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(answer.text).split())


def test_runs_of_several_experiments_are_one_page(client, two):
    page = words(client.get("/compare/runs"))
    assert "12 of 12 runs shown, of 2 experiments." in page
    assert 'name="on"' not in page
    assert "Add an experiment" not in page
    assert '<input type="checkbox" name="group" value="model" >' in page
    assert "with none ticked, by all that varies (Model, " in page
    assert '<input type="checkbox" name="group" value="seed" >' in page
    assert "cannot be compared" not in page
    assert 'data-figure="/compare/runs/figures/isotropy.json"' in page
    figure = client.get("/compare/runs/figures/lambda.csv").text
    rows = list(csv.DictReader(io.StringIO(figure)))
    assert [(row["model"], row["lambda"], row["performance_seeds"]) for row in rows] == [
        ("bert_base", "0.0", "3"), ("roberta", "0.0", "3"), ("bert_base", "1.0", "3"), ("roberta", "1.0", "3"),
    ]  # fmt: skip
    assert [float(row["performance_mean"]) for row in rows] == pytest.approx([0.51, 0.61, 0.61, 0.71])


def test_another_search_groups_anew_and_only_what_was_ticked_stays(client, two):
    """As a browser sends the search form: what is ticked in it, and no more."""
    page = words(client.get("/compare/runs?q=lam>0"))
    form = page.partition('id="run-search"')[2].partition("</form>")[0]
    assert re.findall(r'name="group" value="(\w+)" checked', form) == []
    ticked = words(client.get("/compare/runs?q=lam>0&group=experiment"))
    form = ticked.partition('id="run-search"')[2].partition("</form>")[0]
    assert re.findall(r'name="group" value="(\w+)" checked', form) == ["experiment"]


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
    told = "figures and tests keep regularizers, λ and ζ apart in any case, the table of means does not"
    assert told in page.partition("<fieldset")[2].partition("</fieldset>")[0]
    points = list(csv.DictReader(io.StringIO(client.get("/compare/runs/figures/lambda.csv?group=model").text)))
    assert [row["lambda"] for row in points] == ["0.0", "0.0", "1.0", "1.0"]
    assert "Runs in one mean differ in λ too." in page


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
    assert 'name="name" value="Runs: <first>"' in page
    added = client.get(f"{one}&experiment={second}")
    assert added.headers["location"] == f"/compare/runs?q=experiment%3D{first}%2C{second}"
    odd = client.get('/compare/runs?experiment=a"b').headers["location"]
    assert odd == "/compare/runs?q=experiment%3D%22a%5C%22b%22"
    assert "No run is found by this search." in words(client.get(odd))


def test_the_lists_lead_to_the_comparison(client, two):
    listed = words(client.get("/experiments"))
    assert f'<input type="checkbox" name="experiment" value="{two[0]}" aria-label="Choose <first>">' in listed
    page = words(client.get(f"/experiments/{two[0]}"))
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
    assert "There is no run yet." in words(client.get("/compare/runs"))
    assert (
        client.get("/compare/runs/figures/lambda.json").json()["detail"] == "There is no figure 'lambda' of these runs."
    )


def test_of_too_many_runs_the_newest_are_shown_and_that_is_said(client, launch):
    launch("many", *(made(0.0, seed, 0.5) for seed in range(1001)))
    assert "1,000 of 1,001 runs shown, those of the newest experiments, of 1 experiment." in words(
        client.get("/compare/runs")
    )
    table = client.get("/api/compare/runs/table").json()
    assert (table["runs"], table["total"]) == (1000, 1001)
    assert table["notes"] == ["1,000 of 1,001 runs shown, those of the newest experiments."]


def test_the_table_in_latex_and_markdown(client, two):
    caption = "Mean {} standard deviation of Accuracy on CoLA over seeds (n = 3). Bold: the greatest mean of a column."
    tex = client.get("/api/compare/runs/table?format=latex&group=model&group=lam")
    assert tex.headers["content-type"].startswith("application/x-tex")
    assert tex.text == (
        "% \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n"
        f"  \\caption{{{caption.format('$' + chr(92) + 'pm$')}}}\n"
        "  \\begin{tabular}{llr}\n    \\toprule\n    Model & $\\lambda$ & Accuracy \\\\\n    \\midrule\n"
        "    bert\\_base & 0 & $0.510 \\pm 0.010$ \\\\\n    bert\\_base & 1 & $0.610 \\pm 0.010$ \\\\\n"
        "    roberta & 0 & $0.610 \\pm 0.010$ \\\\\n    roberta & 1 & $\\mathbf{0.710 \\pm 0.010}$ \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )
    assert client.get("/compare/runs/table.tex?group=model&group=lambda").text == tex.text
    text = client.get("/api/compare/runs/table?format=markdown&group=model&group=lam&decimals=1&bold=false").text
    assert text.splitlines()[-2:] == ["| roberta | 0 | 0.6 ± 0.0 |", "| roberta | 1 | 0.7 ± 0.0 |"]
    page = words(client.get("/compare/runs?group=model&group=lam&decimals=1&bold=0"))
    assert "| roberta | 1 | 0.7 ± 0.0 |" in page
    assert "<strong>" not in page.partition('<section id="means">')[2]


def test_the_table_as_numbers(client, two):
    answer = client.get("/api/compare/runs/table?columns=both&group=model").json()
    assert answer["groups"] == ["model"]
    assert answer["columns"] == [
        {"dataset": "CoLA", "measure": "Accuracy"}, {"dataset": "CoLA", "measure": "IsoScore★"},
    ]  # fmt: skip
    assert [row["group"] for row in answer["rows"]] == [["bert_base"], ["roberta"]]
    # A seed counts once: of 0.50 and 0.60, 0.51 and 0.61, 0.52 and 0.62.
    assert answer["rows"][0]["cells"] == [
        {"mean": pytest.approx(0.56), "std": pytest.approx(0.01), "n": 3},
        {"mean": 0.25, "std": 0, "n": 3},
    ]
    assert answer["notes"] == [
        "Runs in one mean differ in λ too.",
        "A seed of several runs counts once, by their mean: bert_base, seed 0; bert_base, seed 1; bert_base, seed 2 "
        "and 3 more.",
    ]
    file = client.get("/compare/runs/table.json?columns=metrics&group=model")
    assert file.headers["content-disposition"] == 'attachment; filename="isoscope-means.json"'
    assert [(one["Model"], one["measure"], one["n"]) for one in json.loads(file.text)] == [
        ("bert_base", "Accuracy", 3), ("bert_base", "F1", 3), ("roberta", "Accuracy", 3), ("roberta", "F1", 3),
    ]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(client.get("/compare/runs/table.csv?group=model").text)))
    assert [(line["Model"], line["n"]) for line in lines] == [("bert_base", "3"), ("roberta", "3")]
    assert (
        client.get("/api/compare/runs/table?group=model&format=csv").text
        == client.get("/compare/runs/table.csv?group=model").text
    )


def test_an_experiment_takes_its_table_from_a_page_of_its_own(client, two):
    page = words(client.get(f"/compare/runs/table.html?q=experiment%3D{two[0]}"))
    assert '<section id="means">' in page
    assert 'hx-get="/compare/runs/table.html"' in page
    assert f'<input type="hidden" name="q" value="experiment={two[0]}">' in page
    assert "0.610 ± 0.010" in page
    assert "roberta" not in page


def test_settings_that_differ_stand_side_by_side_and_the_others_are_folded(client, two):
    answer = client.get("/api/compare/runs/settings").json()
    assert [(side["name"], side["runs"]) for side in answer["sides"]] == [("second", 6), ("<first>", 6)]
    assert {one["field"]: one["values"] for one in answer["differing"]} == {
        "model": [["roberta"], ["bert_base"]],
        "regularizer": [["none", "I-STAR"]] * 2,
        "lam": [["0", "1"]] * 2,
        "seed": [["0", "1", "2"]] * 2,
    }
    equal = {one["field"]: one["value"] for one in answer["equal"]}
    assert (equal["task"], equal["batch_size"], equal["learning_rate"], equal["zeta"]) == ("CoLA", "16", "3e−5", "0.2")
    page = words(client.get("/compare/runs"))
    assert '<tr><th scope="row">Seed</th><td>0; 1; 2</td><td>0; 1; 2</td></tr>' in page
    assert f"<summary>{len(equal)} settings that are the same</summary>" in page
    few = client.get("/api/compare/runs/settings?q=seed:0").json()
    assert [side["name"] for side in few["sides"]] == [
        "second: baseline, λ = 0, seed 0", "second: I-STAR, λ = 1, seed 0",
        "<first>: baseline, λ = 0, seed 0", "<first>: I-STAR, λ = 1, seed 0",
    ]  # fmt: skip
    assert {one["field"]: one["values"] for one in few["differing"]}["lam"] == [["0"], ["1"], ["0"], ["1"]]


def test_one_run_differs_from_nothing(client, launch):
    launch("one", made(0.0, 0, 0.5))
    assert "None: all settings of these runs are the same." in words(client.get("/compare/runs"))


@pytest.mark.parametrize(
    "path",
    ["/compare/runs", "/compare/runs/figures/lambda.csv", "/compare/runs/figures/silhouette.html",
     "/compare/runs/figures/twonn.json", "/compare/runs/table.tex?columns=metrics", "/api/compare/runs/settings"],
)  # fmt: skip
def test_there_are_as_many_queries_for_many_runs_as_for_few(client, context, launch, path):
    engine = type(context.sessions.kw["bind"])

    def queries():
        said = []

        def note(connection, cursor, statement, *rest):
            said.append(statement)

        event.listen(engine, "before_cursor_execute", note)
        try:
            assert client.get(path).status_code == 200
        finally:
            event.remove(engine, "before_cursor_execute", note)
        return Counter(statement.split()[0] for statement in said)

    launch("few", made(0.0, 0, 0.5))
    few = queries()
    for name in ("a", "b", "c"):
        launch(name, *(made(lam, seed, 0.5) for lam in (0.0, 1.0) for seed in range(10)), on=name)
    assert queries() == few
    assert few["SELECT"] <= 5


def test_a_run_without_performance_is_told_beside_the_table(client, launch):
    launch("one", made(0.0, 0, 0.5), made(0.0, 1, None), made(0.0, 2, None, status=RunStatus.FAILED))
    page = words(client.get("/compare/runs"))
    assert "Left out, because it has not finished: 1 run." in page
    assert "Left out, because performance is undefined: 1 run." in page


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


def test_forms_keep_what_the_table_of_runs_is_searched_for(client, two):
    page = words(client.get(f"/experiments/{two[0]}?q=lam:1&sort=-performance"))
    for form in ("scatters-form", "layers-form", "curves-form"):
        assert f'<input type="hidden" name="q" value="lam:1" form="{form}">' in page
        assert f'<input type="hidden" name="sort" value="-performance" form="{form}">' in page


def test_a_run_that_a_script_logged_is_not_said_to_be_of_validation_tokens(client, launch):
    run = made(1.0, 0, 0.5)
    run.config = {**run.config, "logged": True}
    one = launch("script", run)
    caption = client.get(f"/api/experiments/{one}/figures/isotropy").json()["caption"]
    assert caption.startswith("IsoScore★ is as a script logged it. ")


@pytest.fixture
def script(client):
    """A finished run of a user's own script."""

    def log(performance=0.5, isoscore_star=0.25, experiment="mine", lam=0.0, seed=0, **settings):
        told = {"experiment": experiment, "dataset": "d", "model": "m", "task": "classification", "metric": "accuracy",
                "regularizer": "cosreg" if lam else "none", "lam": lam, "seed": seed, "settings": settings}  # fmt: skip
        run = client.post("/api/runs", json=told).json()
        ending = {"metrics": {"accuracy": performance}, "isoscore_star": isoscore_star}
        assert client.post(f"/api/runs/{run['id']}/finish", json=ending).status_code == 200

    return log


def test_runs_that_differ_in_a_setting_of_a_script_s_own_are_never_averaged_without_a_word(client, script):
    script(0.5, experiment="narrow", hidden=128)
    script(0.75, experiment="wide", hidden=256)
    table = client.get("/api/compare/runs/table").json()
    assert table["groups"] == ["hidden"]
    assert [(row["group"], row["cells"][0]["mean"]) for row in table["rows"]] == [(["128"], 0.5), (["256"], 0.75)]
    drawn = list(csv.DictReader(io.StringIO(client.get("/compare/runs/figures/isotropy.csv").text)))
    assert [(row["hidden"], float(row["performance_mean"])) for row in drawn] == [("128", 0.5), ("256", 0.75)]
    settings = client.get("/api/compare/runs/settings").json()["differing"]
    assert {"field": "hidden", "values": [["256"], ["128"]]} in settings
    page = words(client.get("/compare/runs?group=lam"))
    assert "Some points are means over runs that differ in hidden too." in page
    assert '<input type="checkbox" name="group" value="hidden" >' in page
    assert client.get("/api/compare/runs/table?group=lam").json()["notes"] == [
        "Runs in one mean differ in hidden too.", "A seed of several runs counts once, by their mean: 0, seed 0.",
    ]  # fmt: skip
    seldom = client.get("/api/compare/runs/table?group=hidden&q=experiment:none").json()["detail"]
    assert seldom.startswith("Expected fields to group runs by, got 'hidden'; known are accumulation, ")


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
    assert "Expected experiments to compare: tick two or more, or one to read it alone." in none.text
    assert [f'value="{one}" aria-label' in none.text for one in two] == [False, True], "the list is as it was"
    assert "tick two or more" not in client.get("/experiments").text
