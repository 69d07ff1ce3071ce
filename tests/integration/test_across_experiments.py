import csv
import html
import io
import json
import re
from collections import Counter

import pytest

from app.db.models import Experiment, RunStatus
from app.results.labels import SENTENCE_MEASURES, TRAINING_MEASURES
from tests.factories import add_experiment, dataset_row, experiment_row, reported, run_row
from tests.queries import queries_of
from tests.tabs import every_tab, words


def ended(lam, seed, performance, isoscore_star=0.25, status=RunStatus.FINISHED, **options):
    by_layer = {measure: {"values": [0.25, 0.5], "reasons": [None, None]} for measure in ("silhouette", "twonn")}
    return run_row(
        lam, seed, config=options, status=status, performance=performance, isoscore_star=isoscore_star,
        results={"metrics": {"accuracy": performance, "f1": 0.5}, "by_layer": by_layer,
                 "by_layer_n": {"silhouette": 40, "twonn": 40}},
    )  # fmt: skip


@pytest.fixture
def launch(context):
    datasets = {}

    def write(name, *runs, on="CoLA", **options):
        with context.sessions.begin() as session:
            dataset = datasets.setdefault(on, dataset_row(on, n_train=9, n_validation=9))
            experiment = experiment_row(*runs, name=name, dataset=dataset, config=options)
            session.add(experiment)
            session.flush()
            return experiment.id

    return write


@pytest.fixture
def pair(launch):
    """Two models on one task, three seeds of two λ each."""
    coordinates = [(lam, seed) for lam in (0.0, 1.0) for seed in range(3)]
    return [
        launch(name, *(ended(lam, seed, mean + lam / 10 + seed / 100, model=model) for lam, seed in coordinates))
        for name, model, mean in (("<first>", "bert_base", 0.5), ("second", "roberta", 0.6))
    ]


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
    assert 'hx-get="/compare/runs/table.html?group=model"' in page
    assert "Runs in one mean differ in λ too." in words(client.get("/compare/runs/table.html?group=model"))


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


@pytest.fixture
def sweep(context):
    layers = {"values": [0.1, 0.4], "reasons": [None, None]}
    results = {
        "metrics": {"accuracy": 0.6, "f1": 0.5},
        "metric_reasons": {},
        "n_validation": 40,
        "by_layer": dict.fromkeys((*TRAINING_MEASURES, *SENTENCE_MEASURES), layers),
    }
    runs = [ended(lam, seed, 0.5 + lam / 8, batch_size=rows)
            for lam in (0.0, 1.0) for rows in (8, 16) for seed in (0, 1)]  # fmt: skip
    for run in runs:
        run.results = results
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


def test_table_as_latex_and_markdown(client, pair):
    caption = "Mean $\\pm$ half the 95\\% interval of Accuracy on CoLA over seeds (n = 3)."
    tex = client.get("/api/compare/runs/table?format=latex&group=model&group=lam")
    assert tex.headers["content-type"].startswith("application/x-tex")
    assert tex.text == (
        "% \\usepackage{booktabs}\n\\begin{table}\n  \\centering\n"
        f"  \\caption{{{caption}}}\n"
        "  \\begin{tabular}{llr}\n    \\toprule\n    Model & $\\lambda$ & Accuracy $\\pm$ 95\\% \\\\\n    \\midrule\n"
        "    bert\\_base & 0 & $0.510 \\pm 0.025$ \\\\\n    bert\\_base & 1 & $0.610 \\pm 0.025$ \\\\\n"
        "    roberta & 0 & $0.610 \\pm 0.025$ \\\\\n    roberta & 1 & $0.710 \\pm 0.025$ \\\\\n"
        "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )
    assert client.get("/compare/runs/table.tex?group=model&group=lambda").text == tex.text
    text = client.get("/api/compare/runs/table?format=markdown&group=model&group=lam&decimals=1&bold=false").text
    assert text.splitlines()[-2:] == ["| roberta | 0 | 0.6 ± 0.02 |", "| roberta | 1 | 0.7 ± 0.02 |"]
    page = words(client.get("/compare/runs/table.html?group=model&group=lam&decimals=1&bold=0"))
    assert "| roberta | 1 | 0.7 ± 0.02 |" in page
    assert "<strong>" not in page.partition('<section id="means">')[2]
    assert "00000" not in client.get("/compare/runs/table.md?decimals=00009").text


def test_table_as_numbers(client, pair):
    answer = client.get("/api/compare/runs/table?columns=both&group=model").json()
    assert answer["groups"] == ["model"]
    assert answer["columns"] == [
        {"dataset": "CoLA", "measure": "Accuracy"}, {"dataset": "CoLA", "measure": "IsoScore★"},
    ]  # fmt: skip
    assert [row["group"] for row in answer["rows"]] == [["bert_base"], ["roberta"]]
    # A seed counts once: of 0.50 and 0.60, 0.51 and 0.61, 0.52 and 0.62.
    assert answer["rows"][0]["cells"] == [
        {"mean": pytest.approx(0.56), "half_width": pytest.approx(4.302653 * 0.01 / 3**0.5), "n": 3},
        {"mean": 0.25, "half_width": 0, "n": 3},
    ]
    assert answer["notes"] == [
        "Runs in one mean differ in λ too.",
        "A seed of several runs counts once, by their mean: bert_base, seed 0; bert_base, seed 1; bert_base, seed 2 "
        "and 3 more.",
    ]
    file = client.get("/compare/runs/table.json?columns=metrics&group=model")
    assert file.headers["content-disposition"] == 'attachment; filename="isoscope-means.json"'
    assert [(cell["Model"], cell["measure"], cell["n"]) for cell in json.loads(file.text)] == [
        ("bert_base", "Accuracy", 3), ("bert_base", "F1", 3), ("roberta", "Accuracy", 3), ("roberta", "F1", 3),
    ]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(client.get("/compare/runs/table.csv?group=model").text)))
    assert [(line["Model"], line["n"]) for line in lines] == [("bert_base", "3"), ("roberta", "3")]
    answer = client.get("/api/compare/runs/table?group=model&format=csv")
    assert answer.text == client.get("/compare/runs/table.csv?group=model").text
    page = words(client.get(f"/compare/runs/table.html?q=experiment%3D{pair[0]}"))
    assert '<section id="means">' in page
    assert 'hx-get="/compare/runs/table.html"' in page
    assert f'<input type="hidden" name="q" value="experiment={pair[0]}">' in page
    assert "0.610 ± 0.025" in page
    assert "roberta" not in page


def test_differing_settings_are_side_by_side(client, pair):
    answer = client.get("/api/compare/runs/settings").json()
    assert [(side["name"], side["runs"]) for side in answer["sides"]] == [("second", 6), ("<first>", 6)]
    assert {setting["field"]: setting["values"] for setting in answer["differing"]} == {
        "model": [["roberta"], ["bert_base"]],
        "regularizer": [["none", "I-STAR"]] * 2,
        "lam": [["0", "1"]] * 2,
        "seed": [["0", "1", "2"]] * 2,
    }
    equal = {setting["field"]: setting["value"] for setting in answer["equal"]}
    assert (equal["task"], equal["batch_size"], equal["learning_rate"], equal["zeta"]) == ("CoLA", "16", "3e−5", "0.2")
    page = words(client.get("/compare/runs"))
    assert '<tr><th scope="row">Seed</th><td>0; 1; 2</td><td>0; 1; 2</td></tr>' in page
    assert f"<summary>{len(equal)} settings that are the same</summary>" in page
    by_run = client.get("/api/compare/runs/settings?q=seed:0").json()
    assert [side["name"] for side in by_run["sides"]] == [
        "second: baseline, λ = 0, seed 0", "second: I-STAR, λ = 1, seed 0",
        "<first>: baseline, λ = 0, seed 0", "<first>: I-STAR, λ = 1, seed 0",
    ]  # fmt: skip
    differing = {setting["field"]: setting["values"] for setting in by_run["differing"]}
    assert differing["lam"] == [["0"], ["1"], ["0"], ["1"]]


def test_number_of_queries_is_constant(client, context, launch):
    paths = (
        "/compare/runs", "/compare/runs/figures/lambda.csv", "/compare/runs/figures/silhouette.html",
        "/compare/runs/figures/twonn.json", "/compare/runs/table.tex?columns=metrics", "/api/compare/runs/settings",
    )  # fmt: skip

    def queries(path):
        statements = queries_of(context, lambda: client.get(path).raise_for_status())
        return Counter(statement.split()[0] for statement, _ in statements)

    launch("few", ended(0.0, 0, 0.5))
    assert "All settings of these runs are the same." in words(client.get("/compare/runs"))
    launch("more", ended(0.0, 1, 0.5))
    launch("elsewhere", ended(0.0, 0, 0.5), on="z")
    expected = {path: queries(path) for path in paths}
    for name in ("a", "b", "c"):
        launch(name, *(ended(lam, seed, 0.5) for lam in (0.0, 1.0) for seed in range(10)), on=name)
    assert {path: queries(path) for path in paths} == expected
    assert max(counts["SELECT"] for counts in expected.values()) <= 5


def script(client, performance, experiment, **settings):
    measured = {"task": "classification", "metric": "accuracy", "regularizer": "none", "lam": 0.0, "seed": 0}
    values = {"experiment": experiment, "dataset": "d", "model": "m", "settings": settings} | measured
    run = client.post("/api/runs", json=values).json()
    ending = {"metrics": {"accuracy": performance}, "isoscore_star": 0.25}
    assert client.post(f"/api/runs/{run['id']}/finish", json=ending).status_code == 200


def test_custom_setting_of_script_makes_groups(client):
    script(client, 0.5, experiment="narrow", hidden=128)
    script(client, 0.75, experiment="wide", hidden=256)
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
    error = client.get("/api/compare/runs/table?group=hidden&q=experiment:none").json()["detail"]
    assert error.startswith("Expected fields to group runs by, got 'hidden'; fields are accumulation, ")
