import json
import re

import pytest
from sqlalchemy import select

from app.db.models import Dataset, Experiment, Run, Step
from app.results.logged_runs import MAX_NOTES, MAX_STEPS
from tests.script_runs import log
from tests.tabs import every_tab


def test_script_creates_run_experiment_and_dataset_by_name(client, begin, context):
    answer = begin(total_steps=10)
    assert answer.status_code == 201
    run = client.get(f"/api/runs/{answer.json()['id']}").json()
    coordinates = {"regularizer": "istar", "lam": -1.0, "zeta": 0.2, "seed": 3}
    assert {name: run[name] for name in ("status", *coordinates)} == coordinates | {"status": "streaming"}
    reported = {"logged": True, "model": "my-bert", "task": "classification", "metric": "accuracy"}
    assert run["config"] == reported | coordinates
    with context.sessions() as session:
        experiment = session.scalars(select(Experiment)).one()
        assert (experiment.name, experiment.origin) == ("mine", "logged")
        dataset = session.scalars(select(Dataset)).one()
        assert (dataset.name, dataset.origin, dataset.columns, dataset.n_train) == ("reviews", "named", [], None)
    page = f"/experiments/{answer.json()['experiment_id']}"
    assert "Regularizers: I-STAR (ζ = 0.2)." in client.get(page).text
    begin(regularizer="none", lam=0)
    assert "Regularizers: I-STAR (ζ = 0.2)." in client.get(page).text, "only regularizers with runs are listed"


def test_same_name_shares_experiment_and_differences_form_grid(client, begin):
    first = begin(settings={"batch_size": 8, "head": "mlp"}).json()
    second = begin(seed=4, settings={"batch_size": 16, "head": "mlp"}).json()
    begin(seed=5, model="other", settings={"batch_size": 8, "flag": True})
    assert first["experiment_id"] == second["experiment_id"]
    experiment = client.get(f"/api/experiments/{first['experiment_id']}").json()
    assert experiment["status"] == "streaming"
    assert experiment["grid"] == {
        "batch_size": [8, 16], "head": ["mlp", "unknown"], "flag": ["unknown", True], "model": ["my-bert", "other"],
    }  # fmt: skip
    page = every_tab(client, f"/experiments/{first['experiment_id']}").text
    assert "my-bert, other on" in page
    assert "batch 8, 16, rate unknown, logged by a script, begun" in " ".join(page.split())
    assert client.get(f"/runs/{first['id']}").status_code == 200


def test_ambiguous_setting_values_are_refused(begin, client):
    pairs = [(True, "yes"), ([1, 2], "1, 2"), (["a, b"], ["a", "b"]), (None, ["unknown"])]
    for name, (first, second) in zip("abcd", pairs, strict=True):
        begin(experiment=name, settings={} if first is None else {"flag": first})
        answer = begin(experiment=name, settings={"flag": second})
        assert (answer.status_code, answer.json()["field"]) == (422, "settings")
        quoted_value = json.dumps("unknown" if first is None else first)
        assert answer.json()["detail"] == (
            f"flag = {json.dumps(second)} would be shown like {quoted_value} of an earlier run. Log both in the same "
            "way."
        )


@pytest.mark.both_databases
def test_equal_numbers_are_one_setting_and_booleans_another(begin, client, context):
    for seed, value in enumerate((1, 1.0, True)):
        run = begin(seed=seed, settings={"flag": value}).json()
    assert client.get(f"/api/experiments/{run['experiment_id']}").json()["grid"] == {"flag": [1, True]}
    for _ in range(2):
        assert begin(id="0" * 32).json()["id"] == "0" * 32
    with context.sessions() as session:
        assert len(session.scalars(select(Run)).all()) == 4, "the same id makes one run"


def test_number_and_size_of_settings_are_limited(begin, client):
    advice = "Start another experiment, or log settings that do not distinguish runs as environment."
    run = begin(settings={f"first_{number}": number for number in range(60)}).json()
    answer = begin(settings={f"second_{number}": number for number in range(41)})
    assert (answer.status_code, answer.json()["field"]) == (413, "settings")
    sentence = "Expected the runs of one experiment to differ in at most 100 settings, got 101."
    assert answer.json()["detail"] == f"{sentence} {advice}"
    assert begin(settings={f"second_{number}": number for number in range(40)}).status_code == 201
    assert len(client.get(f"/api/experiments/{run['experiment_id']}").json()["runs"]) == 2
    answers = [begin(experiment="wide", settings={"rows": [str(seed) * 900] * 999}) for seed in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 413]
    assert "to take at most 2,097,152 bytes, got more. Start another experiment" in answers[-1].json()["detail"]


REFUSED = [
    ({"metric": "pearson"}, "metric", "Expected a metric of classification, one of accuracy, f1, matthews"),
    ({"zeta": None}, "zeta", "I-STAR needs zeta, by which it shrinks the covariance"),
    ({"regularizer": "none", "lam": 2, "zeta": None}, "regularizer",
     "lam = 2 needs a regularizer, one of istar, istar_unbiased, cosreg, entropy, spectrum; got none, which is plain "
     "training. Log the strength of your own penalty among the settings, and leave lam at 0."),
    ({"settings": {"lam": 2}}, "settings", "expected lam outside the settings, not among them"),
    ({"settings": {"experiment": "a"}}, "settings", "expected experiment outside the settings, not among them"),
    ({"settings": {"batch_size": 0}}, "settings",
     "batch_size is one of Isoscope's settings and has its meaning: Input should be greater than or equal to 1, got 0"),
    ({"settings": {"head": "unknown"}}, "settings",
     "Expected a head other than 'unknown', which means unreported: leave it out."),
    ({"settings": {"hash": 2**60}}, "settings",
     "Expected a whole number up to 2 to the power of 53, got 1152921504606846976."),
    ({"settings": {"eps": 1e-120}}, "settings", "Expected a number of a size from 1e-100 to 1e+100, or 0, got 1e-120."),
    *(({name: " \n\u200b"}, name, "Expected a name, got no visible character.")
      for name in ("experiment", "dataset", "model")),
]  # fmt: skip


def test_invalid_or_contradictory_run_is_refused_at_its_field(begin):
    for changes, field, sentence in REFUSED:
        answer = begin(**changes)
        assert answer.status_code == 422
        assert answer.json()["field"].startswith(field)
        assert sentence.lower() in answer.json()["detail"].lower()
    begin()
    answer = begin(metric="f1")
    assert (answer.status_code, answer.json()["field"]) == (422, "metric")
    assert answer.json()["detail"] == (
        "Expected the metric of the experiment 'mine', which is accuracy, so that its runs can be compared; got f1. "
        "Give this run's experiment another name."
    )


@pytest.mark.both_databases
def test_repeated_steps_are_merged_and_shown_as_they_come(client, begin):
    run = begin(total_steps=100).json()
    layers = {"isoscore_star": [0.25, None]}
    log(client, run, {"step": 10, "task_loss": 0.7, "penalty": 0.1}, {"step": 20, "task_loss": 0.6})
    answer = log(client, run, {"step": 10, "layers": layers}, {"step": 20, "task_loss": 0.5}, {"step": 30})
    assert answer.json()["phase_done"] == 30
    assert client.get(f"/api/runs/{run['id']}").json()["steps"] == [
        {"step": 10, "task_loss": 0.7, "penalty": 0.1, "layers": layers},
        {"step": 20, "task_loss": 0.5, "penalty": None, "layers": None},
        {"step": 30, "task_loss": None, "penalty": None, "layers": None},
    ]
    page = client.get(f"/runs/{run['id']}").text
    assert "<small>step 30 of 100</small>" in page
    assert 'hx-trigger="every 2s"' in page
    figure = client.get(f"/experiments/{run['experiment_id']}/figures/learning.csv").text
    assert figure.splitlines()[1:] == ["-1.0,10,1,0.7,", "-1.0,20,1,0.5,"]
    run = begin(seed=4).json()
    log(client, run, {"step": 1, "layers": {"isoscore_star": [0.5], "mean_cosine": [0.25]}})
    log(client, run, {"step": 1, "layers": {"mean_cosine": [0.75], "isoscore_unbiased": [None]}})
    log(client, run, {"step": 1, "task_loss": 2})
    [step] = client.get(f"/api/runs/{run['id']}").json()["steps"]
    assert step["layers"] == {"isoscore_star": [0.5], "mean_cosine": [0.75], "isoscore_unbiased": [None]}
    log(client, run, {"step": 1, "layers": None})
    assert client.get(f"/api/runs/{run['id']}").json()["steps"][0]["layers"] is None


def test_reasons_are_noted_once_per_step_and_limited(client, begin):
    run = begin().json()
    for _ in range(2):
        log(client, run, *({"step": n, "task_loss": None, "reason": "NaN"} for n in range(MAX_NOTES + 9)))
    notes = client.get(f"/api/runs/{run['id']}").json()["notes"]
    assert (notes[0], len(notes)) == ("Step 0: NaN", MAX_NOTES)
    client.post(f"/api/runs/{run['id']}/finish", json={"notes": ["7 steps were not logged.", "on a laptop"]})
    notes = client.get(f"/api/runs/{run['id']}").json()["notes"]
    assert notes == ["7 steps were not logged.", "on a laptop", *(f"Step {n}: NaN" for n in range(MAX_NOTES - 2))]


def test_invalid_step_is_refused(client, begin, context):
    run = begin().json()
    for step, sentence in (
        ('{"step": 1, "task_loss": NaN}', "finite number"),
        ('{"step": 1, "task_loss": 1e200}', "Expected steps.0.task_loss up to 1e+100, got 1e+200."),
        ('{"step": -1}', "Expected steps.0.step of at least 0, got -1."),
        ('{"step": 1, "layers": {"beauty": [1]}}', "Expected measures among isoscore_star, "),
    ):
        headers = {"content-type": "application/json"}
        answer = client.post(f"/api/runs/{run['id']}/steps", content=f'{{"steps": [{step}]}}', headers=headers)
        assert (answer.status_code, sentence in answer.json()["detail"]) == (422, True)
    with context.sessions.begin() as session:
        session.execute(Step.__table__.insert(), [{"run_id": run["id"], "step": n} for n in range(MAX_STEPS)])
    assert log(client, run, {"step": 5, "task_loss": 1}).status_code == 200
    answer = log(client, run, {"step": MAX_STEPS})
    assert (answer.status_code, answer.json()["field"]) == (413, "steps")
    assert answer.json()["detail"].startswith("Expected at most 100,000 steps of a run, got more.")


def test_script_configuration_lists_only_logged_settings(client, begin):
    run = begin(settings={"batch_size": 8, "dropout": 0.1}).json()
    page = " ".join(client.get(f"/runs/{run['id']}?tab=settings").text.split())
    configured = page.split('<div class="groups">')[1].split("</div>")[0]
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", configured) == [
        ("Model", "my-bert"), ("Task", "classification: a class"), ("Metric", "Accuracy"),
        ("Regularizer", "I-STAR"), ("λ", "−1"), ("ζ", "0.2"), ("Seed", "3"), ("Batch size", "8 rows"),
        ("dropout", "0.1"),
    ]  # fmt: skip
    assert re.findall("<h3>(.*?)</h3>", configured) == ["Data and model", "Regularizers", "Training", "Of its script"]
    client.post(f"/api/runs/{run['id']}/finish", json={"metrics": {"accuracy": 0.5}})
    page = client.get(f"/runs/{run['id']}").text
    assert ("?tab=results" in page, "<h2>Layers</h2>" in page) == (True, False)
