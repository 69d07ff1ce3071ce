import csv
import html
import io

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef

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
def nothing_kept():
    for cache in (conclusion._row_cache, conclusion._test_cache):
        cache._entries.clear()
        cache._size = 0


def sweep(context, gains, seeds=3, predicted=True, metric="accuracy"):
    """Runs at these λ, which answer rightly so many more of the same rows than λ = 0 does."""
    random = np.random.default_rng(0)
    hard, right = random.random(ROWS), random.integers(0, 2, ROWS)
    runs, stored = [], []
    for lam, gain in gains.items():
        for seed in range(seeds):
            hit = hard + 0.05 * random.normal(size=ROWS) < 0.65 + gain
            answers = np.where(hit, right, 1 - right)
            score = float(hit.mean())
            results = {"metrics": {"accuracy": score}, "by_layer": {}, "by_layer_n": {}}
            star = 0.3 + 0.1 * lam + 0.002 * seed
            run = run_row(lam, seed, performance=score, isoscore_star=star, config={"metric": metric}, results=results)
            runs.append(run)
            stored.append(Predictions(np.arange(ROWS), right.astype(np.int64), answers.astype(np.int64)))
    experiment = add_experiment(context, *runs, config={"metric": metric})
    if predicted:
        with context.sessions.begin() as session:
            for run, predictions in zip(runs, stored, strict=True):
                write_predictions(session, run.id, Split.VALIDATION, predictions)
    return experiment


GAINS = {-1.0: -0.2, -0.5: -0.1, 0.0: 0.0, 0.5: 0.01, 1.0: 0.15}


def page(client, experiment):
    return " ".join(html.unescape(every_tab(client, f"/experiments/{experiment}").text).split())


def test_api_tells_a_relation_a_verdict_for_each_setting_and_which_number_to_quote(client, context):
    experiment = sweep(context, GAINS)
    conclusion = client.get(f"/api/experiments/{experiment}/conclusion").json()
    relation = conclusion["relation"]
    assert (relation["spearman"], relation["lambdas"], conclusion["direction"]) == (pytest.approx(1.0), [5], "better")
    assert relation["p"] == relation["smallest_p"] == pytest.approx(2 / 120)
    assert conclusion["effect"]["p"] < 0.05
    by_lam = {difference["lam"]: difference for difference in conclusion["differences"]}
    assert {lam: row["verdict"] for lam, row in by_lam.items()} == {
        -1.0: "worse", -0.5: "worse", 0.5: "no difference seen", 1.0: "better",
    }  # fmt: skip
    for row in by_lam.values():
        assert (row["method"], row["seeds"], row["rows"], row["comparisons"]) == ("seeds and rows", [0, 1, 2], ROWS, 4)
        assert row["low"] < row["estimate"] < row["high"]
        assert (row["p_adjusted"] <= 0.05) == (row["low"] > 0 or row["high"] < 0)
        assert row["exact_test"]["p_holm"] > 0.05
        assert row["exact_test"]["seeds_needed"] == 8
    assert by_lam[0.5]["needed"] is not None
    assert "3 seeds × 300 validation rows" in by_lam[1.0]["quote"]
    assert any("Quote the difference" in sentence for sentence in conclusion["sentences"])


def test_page_figure_and_cache_say_what_the_api_says(client, context):
    experiment = sweep(context, GAINS)
    path = f"/api/experiments/{experiment}/conclusion"
    conclusion, page_text = client.get(path).json(), page(client, experiment)
    for sentence in (*conclusion["sentences"], *conclusion["methods"], *conclusion["notes"], *conclusion["cautions"]):
        assert sentence in page_text
    assert "<strong>better</strong>" in page_text
    assert "no difference seen" in page_text
    assert "How this is computed" in page_text
    rows = list(csv.DictReader(io.StringIO(client.get(f"/experiments/{experiment}/figures/differences.csv").text)))
    assert [(row["verdict"], float(row["low"])) for row in rows] == [
        (entry["verdict"], pytest.approx(entry["low"])) for entry in conclusion["differences"]
    ]
    drawn = client.get(f"/experiments/{experiment}/figures/differences.json").json()
    assert len(drawn["data"]) == 4
    answers = []
    statements = [statement for statement, _ in queries_of(context, lambda: answers.append(client.get(path).json()))]
    assert statements
    assert answers == [conclusion]
    assert not [entry for entry in statements if "run_predictions" in entry and "data" in entry], "none is read again"
    with context.sessions.begin() as session:
        session.query(Run).where(Run.experiment_id == experiment, Run.lam == 1.0).update({"performance": 0.2})
    assert client.get(path).json() != conclusion


def test_metrics_that_are_no_mean_over_rows_have_an_error_of_rows_too_where_predictions_give_them(client, context):
    for metric, score in {"f1": f1_score, "matthews": matthews_corrcoef}.items():
        experiment = sweep(context, {0.0: 0.0, 1.0: 0.2}, metric=metric)
        with context.sessions.begin() as session:
            for run in session.query(Run).where(Run.experiment_id == experiment):
                stored = predictions.read_predictions(session, [run.id], Split.VALIDATION)[run.id]
                run.performance = float(score(stored.reference, stored.predicted))
        conclusion = client.get(f"/api/experiments/{experiment}/conclusion").json()["differences"][0]
        assert (conclusion["method"], conclusion["verdict"]) == ("seeds and rows", "better")
    experiment = sweep(context, {0.0: 0.0, 1.0: 0.2}, metric="matthews")
    result = client.get(f"/api/experiments/{experiment}/conclusion").json()
    assert result["differences"][0]["method"] == "seeds"
    assert any("do not give the logged performance" in conclusion for conclusion in result["methods"])
    result = client.get(f"/api/experiments/{sweep(context, GAINS, predicted=False)}/conclusion").json()
    assert {(conclusion["method"], conclusion["rows"]) for conclusion in result["differences"]} == {("seeds", None)}
    assert any("on these validation rows" in conclusion for conclusion in result["sentences"])


def test_runs_that_learned_nothing_or_diverged_are_named_and_all_is_told_without_them(client, context):
    experiment = sweep(context, GAINS)
    with context.sessions.begin() as session:
        for run in session.query(Run).where(Run.experiment_id == experiment, Run.lam == 1.0):
            run.learning = {"constant_prediction": "“1”", "divergence": {"loss": 186.0, "start": 0.69}}
    conclusion = client.get(f"/api/experiments/{experiment}/conclusion").json()
    assert [run["label"] for run in conclusion["learned_nothing"]] == [f"λ = 1, seed {seed}" for seed in range(3)]
    assert "186" in conclusion["diverged"][0]["why"]
    assert [difference["lam"] for difference in conclusion["without"]["differences"]] == [-1.0, -0.5, 0.5]
    assert conclusion["without"]["relation"]["lambdas"] == [4]
    assert "3 runs learned nothing" in page(client, experiment)


def test_over_several_data_sets_each_is_compared_within_itself(client, context):
    for _ in range(2):
        sweep(context, GAINS)
    conclusion = client.get("/api/compare/runs/conclusion").json()["conclusion"]
    assert conclusion["pooled"]["measured"] == 2
    assert conclusion["pooled"]["relation"]["lambdas"] == [5, 5]
    assert conclusion["pooled"]["relation"]["p"] < 0.001
    assert conclusion["relation"]["lambdas"] == [5]
    assert any("Over all 2 data sets" in sentence for sentence in conclusion["sentences"])
    assert "Over all 2 data sets" in " ".join(html.unescape(client.get("/compare/runs").text).split())
