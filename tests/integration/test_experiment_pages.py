import csv
import html
import io
import re

import numpy as np
import pytest

from app.db import predictions
from app.db.models import Experiment, Run, RunStatus, Split, Step
from app.db.predictions import Predictions, write_predictions
from app.db.types import utcnow
from app.results.conclusion import conclusion
from app.results.labels import SENTENCE_MEASURES, TRAINING_MEASURES
from app.results.pages.experiments import TABS
from app.results.sweep_figures import list_available_slugs
from isotropy.catalog import Regularizer
from tests.factories import add_experiment, add_with_activations, experiment_row, run_row
from tests.queries import queries_of
from tests.tabs import every_tab, words

LAYERS = 2
SWEEP_FIGURES = list_available_slugs({"search": False})
RUN_FIGURES = ("loss", "penalty", "layers", "twonn", "activation")
FIGURE_QUERIES = 5
"""The experiment, its runs, the data of the figure, and the start of a transaction."""
PAGE_QUERIES = FIGURE_QUERIES + 10
"""For the table: runs with tags, their count, varying fields and actions; workers; all tags."""
ROWS = 300
LAMBDAS = (-1.0, -0.5, 0.0, 0.5, 1.0)
GAINS = {-1.0: -0.2, -0.5: -0.1, 0.0: 0.0, 0.5: 0.01, 1.0: 0.15}


def make_run(lam, seed, *, regularizer=Regularizer.ISTAR, status=RunStatus.FINISHED, position=0, **options):
    by_layer = {
        measure: {"values": [0.25, 0.5], "reasons": [None] * LAYERS}
        for measure in (*TRAINING_MEASURES, *SENTENCE_MEASURES)
    }
    by_layer["silhouette"] = {"values": [None, 0.125], "reasons": ["All rows of the layer are one.", None]}
    results = {
        "metrics": {"accuracy": 0.75}, "loss": 0.5, "n_validation": 40, "tokens": 400, "points": 800, "zeta": 0.0,
        "layers": [0.25, 0.5], "reference": {"zeta": 0.75, "layers": [0.25, 0.5]}, "by_layer": by_layer,
        "by_layer_n": dict.fromkeys(SENTENCE_MEASURES, 40),
    }  # fmt: skip
    ended = {"performance": 0.75, "isoscore_star": 0.375, "results": results, "environment": {"device": "cpu"}}
    columns = ended if status is RunStatus.FINISHED else dict.fromkeys(ended)
    steps = [
        Step(step=number, task_loss=0.5, penalty=0.1, layers={key: [0.25, number / 100] for key in TRAINING_MEASURES})
        for number in (10, 20)
    ]
    plain = {"regularizer": regularizer, "config": options, "position": position, "status": status}
    return run_row(lam, seed, started_at=utcnow(), steps=steps, **plain, **columns)


def launch(context, *runs, grid=None, **options):
    return add_with_activations(context, experiment_row(*runs, grid=grid, config=options))


def test_headings_and_labels_name_all_that_varies(client, context):
    runs = [make_run(lam, 0, regularizer=method, batch_size=rows) for rows in (8, 32) for lam, method in (
        (0.0, Regularizer.NONE), (1.0, Regularizer.ISTAR), (1.0, Regularizer.COSREG),
    )]  # fmt: skip
    experiment = launch(context, *runs, grid={"batch_size": [8, 32]}, fixed_regularizers={"spectrum": 0.5})
    page = words(client.get(f"/experiments/{experiment}?tab=runs"))
    heads = re.findall(r'<th scope="col"[^>]*>\s*(?:<a [^>]*>)?([^<]*)', page.split("<caption>One row")[1])
    assert heads == ["", "Regularizer", "λ", "Batch size", "Status", "Accuracy", "IsoScore★", "Time", ""]
    assert "6 runs. All: ζ = 0.2; seed 0." in page
    assert "Regularizers: I-STAR (ζ = 0.2), CosReg. Every run adds spectrum control at λ = 0.5." in page
    assert 'aria-label="CosReg, λ = 1, batch size 32, seed 0"' in page
    assert "Accuracy, 0 to 1, is on the validation rows" in page
    assert "batch 8, 32, rate 3e−5" in page
    choices, method = [{}, {"cosreg": 1.0, "istar": 0.5}], Regularizer.ENTROPY
    runs = [make_run(lam, 0, regularizer=method, fixed_regularizers=fixed) for lam in (0.0, 1.0) for fixed in choices]
    experiment = launch(context, *runs, grid={"fixed_regularizers": choices}, fixed_regularizers={})
    page = words(every_tab(client, f"/experiments/{experiment}"))
    assert 'aria-label="λ = 1, extra penalties I-STAR 0.5; CosReg 1, seed 0"' in page
    assert "Every run adds" not in page
    for slug in SWEEP_FIGURES:
        assert client.get(f"/experiments/{experiment}/figures/{slug}.html").status_code == 200, slug
    assert "I-STAR 0.5; CosReg 1</" in words(every_tab(client, f"/runs/{runs[1].id}"))
    grid = {"model": ["tiny-bert", "tiny-gpt"], "epochs": [1, 3], "learning_rate": [1e-5, 3e-5], "checkpoint": [
        "last", "best",
    ]}  # fmt: skip
    runs = [make_run(1.0, 0, model=model) for model in grid["model"]]
    page = words(every_tab(client, f"/experiments/{launch(context, *runs, grid=grid, epochs=1, learning_rate=1e-5)}"))
    assert "tiny-bert, tiny-gpt on" in page
    assert "1, 3 epochs, batch 16, rate 1e−5, 3e−5, launched" in page
    assert "Weights evaluated: last, best; selection rows: held out; patience: default." in page


def test_run_shows_performance_and_layers_with_n_and_reasons(client, context):
    run = make_run(1.0, 0)
    run.performance, run.performance_reason = None, "All predictions are equal."
    run.isoscore_star, run.isoscore_star_reason = None, "All points are one."
    experiment = launch(context, run)
    page = words(every_tab(client, f"/runs/{run.id}"))
    assert "0 to 1, n = 40 validation rows. All predictions are equal." in page
    assert "n = 800 points of all layers. All points are one." in page
    assert 'title="All predictions are equal."' in words(every_tab(client, f"/experiments/{experiment}"))
    run = make_run(1.0, 0, fixed_regularizers={"cosreg": 0.5})
    launch(context, run)
    page = words(every_tab(client, f"/runs/{run.id}"))
    assert "with I-STAR at λ = 1 and ζ = 0.2 and CosReg at λ = 0.5" in page
    cells = '<td class="n">0.250</td><td class="n">0.500</td><td class="n">400</td>'
    assert f'<a href="/measures#anisotropy_raw">k-th anisotropy, raw, k = 2</a></th>{cells}' in page
    assert '<td class="n">–</td><td class="n">0.125</td><td class="n">40</td>' in page
    assert "Silhouette is undefined in layer 1: All rows of the layer are one." in page
    run = make_run(1.0, 0)
    run.results = {key: value for key, value in run.results.dump().items() if not key.startswith("by_layer")}
    experiment = launch(context, run)
    page = words(every_tab(client, f"/runs/{run.id}"))
    assert ("IsoScore★ by layer under two protocols" in page, "Measures by layer" in page) == (True, False)
    assert "It was not measured." in words(client.get(f"/experiments/{experiment}/figures/twonn.html"))


def test_experiment_figures_follow_their_address(client, context):
    at = f"/experiments/{launch(context, make_run(0.0, 0), make_run(1.0, 0), make_run(1.0, 1))}"

    def lines(path):
        return client.get(f"{at}/figures/{path}").text.splitlines()

    for slug in SWEEP_FIGURES:
        assert f'data-figure="{at}/figures/{slug}.json' in words(client.get(f"{at}/figures/{slug}.html"))
        assert client.get(f"{at}/figures/{slug}.json").json()["data"] != [], slug
        assert len(lines(f"{slug}.csv")) > 1, slug
    assert lines("learning.csv")[:2] == ["lambda,step,seeds,task_loss_mean,ci95_half_width", "0.0,10,1,0.5,"]
    assert lines("penalties.csv?seeds=1")[:2] == ["lambda,seed,step,penalty", "0.0,0,10,0.1"]
    assert client.get(f"{at}/figures/learning.json?log=1").json()["layout"]["yaxis"]["type"] == "log"
    assert "mean of the 5 logged values" in words(client.get(f"{at}/figures/learning.html?smooth=5"))
    assert "no smoothing" in words(client.get(f"{at}/figures/learning.html?smooth=4"))
    page = words(every_tab(client, f"{at}?seeds=1&log=1&smooth=21&measure=mean_cosine&setting=1"))
    for figure_path in ("learning.html?seeds=1&log=1&smooth=21", "layers.html?measure=mean_cosine&setting=1"):
        assert f"/figures/{figure_path}" in page, figure_path
    assert '<input type="hidden" name="setting" value="1">' in page
    assert '<option value="1" selected>means and single runs</option>' in page
    other_run = make_run(1.0, 1)
    other_run.steps[0].layers = {"mean_cosine": [0.75, None]}
    at = f"/experiments/{launch(context, make_run(0.0, 0), make_run(1.0, 0), other_run)}/figures"
    rows = client.get(f"{at}/layers.csv?measure=mean_cosine&setting=1").text.splitlines()
    assert rows == ["step,layer_1,layer_2", "10,0.5,0.1", "20,0.25,0.2"]
    page = words(client.get(f"{at}/layers.html?measure=mean_cosine&setting=9"))
    assert ("by layer and step, λ = 1</h3>" in page, "Means over seeds (n = 1 to 2)." in page) == (True, True)
    at = f"/experiments/{launch(context, make_run(-1.0, 0), make_run(0.0, 0))}"
    assert "by layer and step, λ = 0</h3>" in words(client.get(f"{at}/figures/layers.html"))
    assert '<option value="1" selected>λ = 0</option>' in words(client.get(f"{at}?tab=training"))


@pytest.mark.both_databases
def test_figure_numbers_match_rows(client, context):
    experiment = launch(context, make_run(0.0, 0), make_run(1.0, 0), make_run(1.0, 1))

    def table(slug):
        return client.get(f"/experiments/{experiment}/figures/{slug}").text.splitlines()

    assert table("silhouette.csv")[1] == "0.0,1,0.125,,1,0.375,"
    assert table("twonn.csv")[1:3] == ["0.0,1,1,0.25,", "0.0,2,1,0.5,"]
    assert table("watched.csv?measure=mean_cosine")[1:3] == ["0.0,10,1,0.1,", "0.0,20,1,0.2,"]
    assert table("watched.csv")[0] == "lambda,step,seeds,isoscore_star_mean,ci95_half_width"
    assert table("late-anisotropy.csv")[2] == ",".join(["1.0", *["0.2"] * 6, *["0.0"] * 6, *["2"] * 6])
    assert table("activation.csv")[1] == "0,0.5,0.25,0.5,0.25"


def test_number_of_queries_does_not_grow_and_lists_skip_results(client, context):
    small = launch(context, make_run(0.0, 0), make_run(1.0, 0))
    large = launch(context, *(make_run(lam, seed) for lam in (0.0, 1.0) for seed in range(6)))
    for page in (*(f"?tab={tab.slug}" for tab in TABS), *(f"/figures/{slug}.html" for slug in SWEEP_FIGURES)):
        paths = (f"/experiments/{experiment}{page}" for experiment in (small, large))
        few_queries, many_queries = (
            len(queries_of(context, lambda path=path: client.get(path).raise_for_status())) for path in paths
        )
        assert 0 < few_queries == many_queries <= (FIGURE_QUERIES if "/figures/" in page else PAGE_QUERIES), page
    experiment = launch(context, make_run(0.0, 0), make_run(1.0, 0))
    pages = ("/", "/experiments", "/experiments?q=tiny", "/api/runs?q=tiny&sort=-iso")
    for path in (*pages, *(f"{api}/experiments{row}" for api in ("", "/api") for row in ("", f"/{experiment}"))):
        queries = queries_of(context, lambda path=path: client.get(path).raise_for_status())
        texts = [statement for statement, _ in queries]
        assert [sql for sql in texts if "runs.lam" in sql] != [], path
        assert [sql for sql in texts if "runs.results" in sql or "runs.log" in sql or "runs.environment" in sql] == []


def test_lower_figures_load_on_scroll_and_missing_ones_say_why(client, context):
    ended = launch(context, make_run(0.0, 0))
    live = launch(context, make_run(0.0, 0), make_run(1.0, 0, status=RunStatus.RUNNING))
    for experiment, key, polls in ((ended, "ended", False), (live, "live", True)):
        page = words(every_tab(client, f"/experiments/{experiment}"))
        assert f'id="kept-twonn-{key}" hx-morph-skip' in page
        assert f'<a href="/experiments/{experiment}/figures/twonn.html">' in page
        assert ('hx-trigger="every 2s"' in page) is polls
        first = words(client.get(f"/experiments/{experiment}"))
        assert ("<caption>Running now</caption>" in first, 'id="curves-form"' in first) == (polls, polls)
        assert ('hx-trigger="every 20s"' in words(client.get(f"/experiments/{experiment}/figures/twonn.html"))) is polls
    options = {"task": "regression", "metric": "pearson", "label_names": []}
    experiment = launch(context, make_run(1.0, 0, **options), **options)
    page = words(every_tab(client, f"/experiments/{experiment}"))
    assert ("Silhouette by isotropy" in page, "Pearson correlation, −1 to 1, is on" in page) == (False, True)
    refused = client.get(f"/experiments/{experiment}/figures/silhouette.html")
    expected = (404, True)
    assert (refused.status_code, "no figure 'silhouette' of this experiment" in html.unescape(refused.text)) == expected
    experiment = launch(context, make_run(1.0, 0, status=RunStatus.QUEUED))
    for slug in set(SWEEP_FIGURES) - {"learning", "penalties", "watched", "layers"}:
        page = words(client.get(f"/experiments/{experiment}/figures/{slug}.html"))
        assert re.search("appears? (here )?when the first run has", page), slug


def test_run_figures_follow_their_address(client, context):
    run = make_run(1.0, 0, status=RunStatus.RUNNING)
    launch(context, run)
    page = words(client.get(f"/runs/{run.id}?measure=mean_cosine"))
    assert f'hx-get="/runs/{run.id}?tab=training&measure=mean_cosine" hx-select="#run"' in page
    assert "<h3>Mean cosine similarity by layer and step</h3>" in page
    assert "<h3>IsoScore★ by layer and step</h3>" in words(client.get(f"/runs/{run.id}?measure=unheard-of"))
    rows = client.get(f"/runs/{run.id}/figures/layers.csv?measure=mean_cosine").text.splitlines()
    assert rows == ["step,layer_1,layer_2", "10,0.25,0.1", "20,0.25,0.2"]
    run = make_run(1.0, 0)
    launch(context, run)
    at = f"/runs/{run.id}/figures"
    for slug in RUN_FIGURES:
        assert f'data-figure="{at}/{slug}.json' in words(client.get(f"{at}/{slug}.html"))
        assert client.get(f"{at}/{slug}.json").json()["data"] != [], slug
        assert len(client.get(f"{at}/{slug}.csv").text.splitlines()) > 1, slug
    refused = client.get(f"{at}/unheard-of.json")
    assert (refused.status_code, "no figure" in refused.text) == (404, True)
    finished, running = make_run(1.0, 0), make_run(1.0, 1, status=RunStatus.RUNNING)
    experiment = launch(context, finished, running)
    at, missing = f"/api/runs/{finished.id}", client.get(f"/api/runs/{running.id}/activation")
    assert client.get(f"{at}/activation").json() == {"n": 40, "mean": [0.5, -1.0], "std": [0.25, 0.5]}
    expected = f"There is no activation of a run {running.id!r}; it is kept when a run finishes."
    assert (missing.status_code, missing.json()["detail"]) == (404, expected)
    with context.sessions.begin() as session:
        session.get(Experiment, experiment).removed_at = utcnow()
    assert {client.get(f"{at}{part}").status_code for part in ("", "/activation", "/predictions")} == {404}


@pytest.fixture(autouse=True)
def empty_caches():
    for cache in (conclusion._fact_cache, conclusion._evidence_cache, conclusion._pooled_cache):
        cache._entries.clear()
        cache._size = 0


def sweep(context, gains, seeds=3, predicted=True, metric="accuracy"):
    """Add runs at these λ; gain is their share of additional right rows over λ = 0."""
    random = np.random.default_rng(0)
    hard, right = random.random(ROWS), random.integers(0, 2, ROWS)
    runs, stored = [], []
    for lam, gain in gains.items():
        for seed in range(seeds):
            hit = hard + 0.05 * random.normal(size=ROWS) < 0.65 + gain
            predicted_labels = np.where(hit, right, 1 - right)
            score = float(hit.mean())
            results = {"metrics": {"accuracy": score}, "by_layer": {}, "by_layer_n": {}}
            star = 0.3 + 0.1 * lam + 0.002 * seed
            run = run_row(lam, seed, performance=score, isoscore_star=star, config={"metric": metric}, results=results)
            runs.append(run)
            stored.append(Predictions(np.arange(ROWS), right.astype(np.int64), predicted_labels.astype(np.int64)))
    experiment = add_experiment(context, *runs, config={"metric": metric})
    if predicted:
        with context.sessions.begin() as session:
            for run, predictions in zip(runs, stored, strict=True):
                write_predictions(session, run.id, Split.VALIDATION, predictions)
    return experiment


def test_api_page_and_figure_agree_on_conclusion(client, context):
    experiment = sweep(context, GAINS)
    result = client.get(f"/api/experiments/{experiment}/conclusion").json()
    relation = result["relation"]
    assert (relation["spearman"], relation["lambdas"]) == (pytest.approx(1.0), [5])
    assert relation["p"] == relation["smallest_p"] == pytest.approx(2 / 120)
    assert result["overall"]["p"] < 0.05
    assert (result["shape"], result["unfinished"], result["collapsed"]) == ("rising", 0, [])
    by_lam = {difference["lam"]: difference for difference in result["differences"]}
    assert {lam: difference["verdict"] for lam, difference in by_lam.items()} == {
        -1.0: "worse", -0.5: "worse", 0.5: "no difference seen", 1.0: "better",
    }  # fmt: skip
    for difference in by_lam.values():
        assert (difference["method"], difference["seeds"], difference["rows"], difference["comparisons"]) == (
            "seeds and rows",
            [0, 1, 2],
            ROWS,
            4,
        )
        assert difference["low"] < difference["estimate"] < difference["high"]
        assert (difference["p_adjusted"] <= 0.05) == (difference["low"] > 0 or difference["high"] < 0)
        assert difference["low"] <= difference["pooled_low"]
    assert "3 seeds × 300 validation rows" in by_lam[1.0]["quote"]
    assert any("Quote the difference" in sentence for sentence in result["sentences"])
    text = words(every_tab(client, f"/experiments/{experiment}"))
    for sentence in (*result["sentences"], *result["methods"], *result["notes"], *result["cautions"]):
        assert sentence in text
    assert "<strong>better</strong>" in text
    assert "no difference seen" in text
    assert "How this is computed" in text
    rows = list(csv.DictReader(io.StringIO(client.get(f"/experiments/{experiment}/figures/differences.csv").text)))
    assert [(row["verdict"], float(row["low"])) for row in rows] == [
        (difference["verdict"], pytest.approx(difference["low"])) for difference in result["differences"]
    ]
    drawn = client.get(f"/experiments/{experiment}/figures/differences.json").json()
    assert len(drawn["data"]) == 4


@pytest.mark.parametrize("metric", ["f1", "matthews"])
def test_f1_and_matthews_have_row_errors(client, context, metric):
    from sklearn.metrics import f1_score, matthews_corrcoef  # noqa: PLC0415

    experiment = sweep(context, {0.0: 0.0, 1.0: 0.2}, metric=metric)
    with context.sessions.begin() as session:
        for run in session.query(Run).where(Run.experiment_id == experiment):
            stored = predictions.read_predictions(session, [run.id], Split.VALIDATION)[run.id]
            score = f1_score if metric == "f1" else matthews_corrcoef
            run.performance = float(score(stored.reference, stored.predicted))
    difference = client.get(f"/api/experiments/{experiment}/conclusion").json()["differences"][0]
    assert (difference["method"], difference["verdict"]) == ("seeds and rows", "better")


def test_verdict_without_matching_predictions_uses_seeds(client, context):
    experiment = sweep(context, {0.0: 0.0, 1.0: 0.2}, metric="matthews")
    result = client.get(f"/api/experiments/{experiment}/conclusion").json()
    assert result["differences"][0]["method"] == "seeds"
    for part in ("methods", "cautions"):
        assert any("do not give the logged performance" in sentence for sentence in result[part])
    result = client.get(f"/api/experiments/{sweep(context, GAINS, predicted=False)}/conclusion").json()
    assert {(difference["method"], difference["rows"]) for difference in result["differences"]} == {("seeds", None)}
    assert any("on these validation rows" in sentence for sentence in result["sentences"])


def test_collapsed_setting_comes_first(client, context):
    """Regression: accuracy .51 against .69 in every seed was called no difference."""
    experiment = sweep(context, {-1.0: 0.0, 0.0: 0.0, 1.0: 0.0})
    with context.sessions.begin() as session:
        for run in session.query(Run).where(Run.experiment_id == experiment, Run.lam == -1.0):
            stored = predictions.read_predictions(session, [run.id], Split.VALIDATION)[run.id]
            predicted_labels = np.ones(ROWS, np.int64)
            predicted_labels[0] = 0
            write_predictions(
                session, run.id, Split.VALIDATION, Predictions(stored.rows, stored.reference, predicted_labels)
            )
            run.performance = float((stored.reference == predicted_labels).mean())
    result = client.get(f"/api/experiments/{experiment}/conclusion").json()
    assert [(setting["label"], setting["collapsed"], setting["seeds"]) for setting in result["collapsed"]] == [
        ("λ = −1", 3, 3)
    ]
    assert result["sentences"][0].startswith("Collapsed: λ = −1 (3 of 3 seeds)")
    assert "100% of the validation rows get the same prediction" in result["sentences"][0]
    assert {difference["label"]: difference["verdict"] for difference in result["differences"]} == {
        "λ = −1": "collapsed", "λ = 1": "no difference seen",
    }  # fmt: skip
    text = words(every_tab(client, f"/experiments/{experiment}"))
    assert "Yes: λ = −1 collapsed" in text
    assert "No λ beats the baseline yet" in text
    assert "No difference seen" not in text
    table = client.get(f"/api/compare/runs/table?format=markdown&q=experiment%3D{experiment}").text
    assert [line[:4] for line in table.splitlines() if "collapsed)" in line] == ["| −1"]


def test_table_bolds_only_best_and_page_names_diverged_runs(client, context):
    experiment = sweep(context, GAINS)
    table = "/api/compare/runs/table?format=markdown&q=experiment%3D"
    bold = [line for line in client.get(table + experiment).text.splitlines() if "**" in line]
    assert len(bold) == 1
    assert bold[0].startswith("| 1 |")
    undecided = client.get(table + sweep(context, {0.0: 0.0, 1.0: 0.005})).text
    assert "**" not in undecided
    assert "| Accuracy ± 95% |" in undecided
    with context.sessions.begin() as session:
        for run in session.query(Run).where(Run.experiment_id == experiment, Run.lam == 1.0, Run.seed == 0):
            run.learning = {"divergence": {"loss": 186.0, "start": 0.69}}
    result = client.get(f"/api/experiments/{experiment}/conclusion").json()
    assert "186" in result["diverged"][0]["why"]
    assert "1 run diverged" in words(every_tab(client, f"/experiments/{experiment}"))


@pytest.mark.both_databases
def test_conclusion_is_cached_until_runs_change(client, context):
    experiment = sweep(context, GAINS)
    path = f"/api/experiments/{experiment}/conclusion"
    first = client.get(path).json()
    answers = []
    statements = [statement for statement, _ in queries_of(context, lambda: answers.append(client.get(path).json()))]
    assert statements
    assert answers == [first]
    assert not [sql for sql in statements if "run_predictions" in sql and "data" in sql]
    with context.sessions.begin() as session:
        session.query(Run).where(Run.experiment_id == experiment, Run.lam == 1.0).update({"performance": 0.2})
    assert client.get(f"/api/experiments/{experiment}/conclusion").json() != first


@pytest.mark.both_databases
def test_conclusion_compares_within_data_sets(client, context):
    for _ in range(2):
        sweep(context, GAINS)
    result = client.get("/api/compare/runs/conclusion").json()["conclusion"]
    assert result["pooled"]["measured"] == 2
    assert result["pooled"]["relation"]["lambdas"] == [5, 5]
    assert result["pooled"]["relation"]["p"] < 0.001
    assert result["relation"]["lambdas"] == [5]
    assert any("Pooled over 2 data sets" in sentence for sentence in result["sentences"])
    assert "Pooled over 2 data sets" in words(client.get("/compare/runs"))
