import csv
import io
import json
from collections import Counter

import pytest

from app.db.models import RunStatus
from tests.across import ended, words
from tests.queries import queries_of


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
    page = words(client.get("/compare/runs?group=model&group=lam&decimals=1&bold=0"))
    assert "| roberta | 1 | 0.7 ± 0.02 |" in page
    assert "<strong>" not in page.partition('<section id="means">')[2]


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


PATHS = (
    "/compare/runs", "/compare/runs/figures/lambda.csv", "/compare/runs/figures/silhouette.html",
    "/compare/runs/figures/twonn.json", "/compare/runs/table.tex?columns=metrics", "/api/compare/runs/settings",
)  # fmt: skip


def test_number_of_queries_is_constant(client, context, launch):
    def queries(path):
        statements = queries_of(context, lambda: client.get(path).raise_for_status())
        return Counter(statement.split()[0] for statement, _ in statements)

    launch("few", ended(0.0, 0, 0.5))
    assert "All settings of these runs are the same." in words(client.get("/compare/runs"))
    launch("more", ended(0.0, 1, 0.5))
    launch("elsewhere", ended(0.0, 0, 0.5), on="z")
    expected = {path: queries(path) for path in PATHS}
    for name in ("a", "b", "c"):
        launch(name, *(ended(lam, seed, 0.5) for lam in (0.0, 1.0) for seed in range(10)), on=name)
    assert {path: queries(path) for path in PATHS} == expected
    assert max(counts["SELECT"] for counts in expected.values()) <= 5


def test_notes_name_runs_without_performance(client, launch):
    launch("one", ended(0.0, 0, 0.5), ended(0.0, 1, None), ended(0.0, 2, None, status=RunStatus.FAILED))
    page = words(client.get("/compare/runs"))
    assert "Left out, because it has not finished: 1 run." in page
    assert "Left out, because performance is undefined: 1 run." in page


def script(client, performance, experiment, **settings):
    """Log a finished run of a user's own script."""
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
