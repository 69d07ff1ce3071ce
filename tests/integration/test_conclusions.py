"""The conclusion of a sweep: page, API and figure, with predictions by row."""

import csv
import html
import io

import numpy as np
import pytest

from app.db import predictions
from app.db.models import Run, Split
from app.db.predictions import Predictions, write_predictions
from app.results.conclusion import conclusion
from tests.factories import add_experiment, run_row
from tests.queries import queries_of
from tests.tabs import every_tab

ROWS = 300
LAMBDAS = (-1.0, -0.5, 0.0, 0.5, 1.0)


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


GAINS = {-1.0: -0.2, -0.5: -0.1, 0.0: 0.0, 0.5: 0.01, 1.0: 0.15}


def page(client, experiment):
    return " ".join(html.unescape(every_tab(client, f"/experiments/{experiment}").text).split())


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
    text = page(client, experiment)
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
    assert any("do not give the logged performance" in sentence for sentence in result["methods"])
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
    text = page(client, experiment)
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
    assert "1 run diverged" in page(client, experiment)


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
    assert "Pooled over 2 data sets" in " ".join(html.unescape(client.get("/compare/runs").text).split())
