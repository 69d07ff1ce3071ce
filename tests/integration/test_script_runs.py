import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from threading import Event

import pytest
from sqlalchemy import select

from app.db.models import Dataset, Experiment, Run, RunStatus, Step
from app.db.types import utcnow
from app.db.work import SILENT_AFTER, list_waiting_jobs
from app.results.logged_runs import MAX_NOTES, MAX_STEPS, LoggedEnding, LoggedStep, LoggedSteps, finish_run, log_steps
from app.training.experiments import cancel_experiment, cancel_run, delete_experiment
from isoscope.core.errors import ConflictError, NotFoundError
from tests.factories import add_experiment, run_row
from tests.script_runs import RUN, log
from tests.tabs import every_tab


@pytest.fixture
def begin(client):
    def begin(**changes):
        return client.post("/api/runs", json=RUN | changes)

    return begin


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
    diverged = "Training diverged: its task loss was not a number from the first step on."
    expected = [diverged, "7 steps were not logged.", "on a laptop", *(f"Step {n}: NaN" for n in range(MAX_NOTES - 3))]
    assert notes == expected


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


def test_finished_run_shows_its_results_and_what_is_missing(client, begin):
    run = begin(settings={"learning_rate": 1e-4, "head": "mlp"}, environment={"gpu": "H200"}).json()
    ending = {
        "metrics": {"accuracy": 0.8, "f1": None},
        "metric_reasons": {"f1": "one class only"},
        "isoscore_star": 0.3,
        "by_layer": {"isoscore_star": {"values": [0.2, None], "reasons": [None, "all equal"], "n": 40}},
        "results": {"minutes": 3},
        "notes": ["trained on a laptop"],
    }
    for _ in range(2):
        assert client.post(f"/api/runs/{run['id']}/finish", json=ending).json()["status"] == "finished"
    reported = client.get(f"/api/runs/{run['id']}").json()
    assert (reported["performance"], reported["isoscore_star"], reported["finished_at"] is None) == (0.8, 0.3, False)
    page = " ".join(every_tab(client, f"/runs/{run['id']}").text.split())
    assert "as its script logged them" in page
    assert "0 to 1 at a ζ that its script does not say" in page
    assert "is undefined in layer 2: all equal" in page
    assert "<dt>minutes</dt><dd>3</dd>" in page
    assert "trained on a laptop" in page
    assert "validation loss" not in page
    assert client.get(f"/experiments/{run['experiment_id']}").status_code == 200
    assert client.get("/").status_code == 200
    assert client.get("/experiments").status_code == 200


@pytest.fixture
def run(begin):
    return begin().json()


def test_metric_out_of_range_is_refused_and_run_stays_open(client, run):
    path = f"/api/runs/{run['id']}"
    for ending, sentence in (
        ({"metrics": {"accuracy": 93.5}}, "Expected accuracy from 0 to 1, got 93.5"),
        ({"metrics": {"matthews": -1e30}}, "Expected matthews from −1 to 1, got -1e+30"),
        ({"isoscore_star": 1.1}, "Expected isoscore_star from 0 to 1, got 1.1"),
    ):
        answer = client.post(f"{path}/finish", json=ending)
        assert answer.status_code == 422
        assert f"{sentence}; a percentage has to be divided by 100" in answer.json()["detail"]
    assert answer.json()["field"] == "isoscore_star"
    ending = {"by_layer": {"twonn": {"values": [1.0, None], "reasons": ["no"]}}}
    sentence = "Expected a reason or null for each of the 2 values of twonn, got 1 reasons."
    assert client.post(f"{path}/finish", json=ending).json()["detail"] == sentence
    assert client.get(path).json()["status"] == "streaming"


def test_rounding_error_is_clipped_and_missing_metric_has_reason(client, begin):
    for seed, (raw, clipped) in enumerate([(1.000009, 1.0), (-0.000009, 0.0)]):
        run = begin(seed=seed).json()
        ending = {"metrics": {"accuracy": raw}, "isoscore_star": raw}
        assert client.post(f"/api/runs/{run['id']}/finish", json=ending).status_code == 200
        run_json = client.get(f"/api/runs/{run['id']}").json()
        assert (run_json["performance"], run_json["isoscore_star"]) == (clipped, clipped)
    run = begin(seed=2).json()
    client.post(f"/api/runs/{run['id']}/finish", json={})
    run_json = client.get(f"/api/runs/{run['id']}").json()
    assert (run_json["performance"], run_json["performance_reason"]) == (None, "Its script gave no accuracy.")
    assert run_json["isoscore_star_reason"] == "Its script gave no IsoScore★."
    run = begin(seed=3).json()
    client.post(f"/api/runs/{run['id']}/finish", json={"error": "ValueError: no rows"})
    assert "<strong>Its script gave this run up.</strong> ValueError: no rows" in client.get(f"/runs/{run['id']}").text


def test_layer_measures_keep_their_length_at_every_step(client, run):
    silhouette = {"by_layer": {"silhouette": {"values": []}}}
    for answer, field in (
        (log(client, run, {"step": 1, "layers": {"twonn": []}}), "steps.0.layers.twonn"),
        (client.post(f"/api/runs/{run['id']}/finish", json=silhouette), "by_layer.silhouette.values"),
    ):
        assert answer.status_code == 422
        assert answer.json()["detail"] == f"Expected {field} with 1 or more values, got 0."
    log(client, run, {"step": 1, "layers": {}}, {"step": 2, "layers": {"isoscore_star": [0.5, None]}}, {"step": 3})
    for layers in ({"isoscore_star": [0.5]}, {"mean_cosine": [0.5, 0.5], "isoscore_star": [0.5]}):
        answer = log(client, run, {"step": 4, "layers": layers})
        assert (answer.status_code, answer.json()["field"]) == (422, "steps")
        assert answer.json()["detail"] == (
            "Expected every measure of this run's layers as a list of 2, null where it is undefined, as the first was; "
            "got one of 1."
        )
    assert log(client, run, {"step": 4, "layers": {"mean_cosine": [None, 0.5]}}).status_code == 200
    figure = f"/runs/{run['id']}/figures/layers.csv?measure=isoscore_star"
    assert client.get(figure).text.splitlines() == ["step,layer_1,layer_2", "2,0.5,"]
    assert client.get(f"/runs/{run['id']}").status_code == 200


def test_quiet_script_is_shown_as_silent_not_as_lost_worker(client, run, context):
    assert list_waiting_jobs(context.sessions) == []
    assert context.queue.list_active() == set()
    log(client, run, {"step": 7})
    with context.sessions.begin() as session:
        session.get_one(Run, run["id"]).heard_at = utcnow() - SILENT_AFTER - timedelta(seconds=1)
    page = " ".join(every_tab(client, f"/experiments/{run['experiment_id']}").text.split())
    assert '<span class="tag lost">silent</span>' in page
    assert "at step 7." in page
    assert "worker lost" not in page
    assert "No worker is running" not in page
    log(client, run)
    assert "silent" not in every_tab(client, f"/experiments/{run['experiment_id']}").text


def test_cancelled_run_accepts_nothing_and_can_be_deleted(client, run):
    path = f"/api/runs/{run['id']}"
    assert client.delete(f"/api/experiments/{run['experiment_id']}").status_code == 409
    assert client.post(f"{path}/cancel").json()["status"] == RunStatus.CANCELLED
    for answer, sentence in (
        (log(client, run, {"step": 1}), "Nothing more can be logged to this run: it is cancelled."),
        (client.post(f"{path}/finish", json={}), "This run can no longer be finished: it is cancelled."),
    ):
        refused = answer.json()
        assert (answer.status_code, refused["field"], refused["detail"]) == (409, "status", sentence)
    assert client.delete(f"/api/experiments/{run['experiment_id']}").status_code == 204
    assert log(client, run, {"step": 1}).status_code == 404


def test_script_cannot_write_to_run_of_worker(client, context):
    add_experiment(context, row := run_row(0.0))
    for path, body in (("steps", {"steps": []}), ("finish", {})):
        answer = client.post(f"/api/runs/{row.id}/{path}", json=body)
        assert answer.status_code == 409
        assert answer.json()["detail"].startswith("A worker trains this run.")


def test_named_dataset_without_rows_cannot_be_trained_on(client, begin, context):
    begin()
    with context.sessions() as session:
        dataset_id = session.scalars(select(Dataset.id)).one()
    sweep = {"model": "all-MiniLM-L6-v2", "dataset_id": dataset_id, "text_columns": ["a"], "label_column": "b"}
    answer = client.post("/api/experiments", json=sweep)
    assert (answer.status_code, answer.json()["field"]) == (422, "dataset_id")
    assert answer.json()["detail"].startswith("reviews has a name but no rows here")
    assert "name only" in client.get(f"/datasets/{dataset_id}").text
    assert "name only, its rows are not on this dashboard" in client.get("/datasets").text
    assert "reviews" not in client.get("/experiments/new").text


@pytest.mark.both_databases
def test_concurrent_writers_store_each_step_once(run, context):
    def write(loss):
        for first in range(0, 60, 20):
            steps = [LoggedStep(step=first + i, task_loss=loss) for i in range(20)]
            log_steps(context, run["id"], LoggedSteps(steps=steps))

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(write, loss) for loss in (0.5, 0.25)]
    assert [future.exception() for future in done] == [None, None]
    with context.sessions() as session:
        rows = session.scalars(select(Step).order_by(Step.step)).all()
        assert [row.step for row in rows] == list(range(60))
        assert {row.task_loss for row in rows} <= {0.5, 0.25}
        assert session.get_one(Run, run["id"]).phase_done == 59


@pytest.mark.both_databases
def test_logging_to_deleted_run_is_refused(begin, context):
    for _ in range(3):
        run, deleted = begin().json(), Event()

        # SQLite serves the first request after a commit: a writer without pauses may keep others waiting for seconds.
        def write(run_id=run["id"], deleted=deleted):
            for step in count():
                is_last = deleted.is_set()
                log_steps(context, run_id, LoggedSteps(steps=[LoggedStep(step=step)]))
                if is_last:
                    return

        with ThreadPoolExecutor(2) as threads:
            writing = [threads.submit(write) for _ in range(2)]
            cancel_experiment(context, run["experiment_id"])
            delete_experiment(context, run["experiment_id"])
            deleted.set()
        assert {type(future.exception()) for future in writing} <= {ConflictError, NotFoundError}
        with context.sessions() as session:
            assert [*session.scalars(select(Run.id)), *session.scalars(select(Step.step))] == []


@pytest.mark.both_databases
def test_run_cancelled_while_finishing_has_one_end(begin, context):
    for _ in range(4):
        run_id = begin().json()["id"]
        with ThreadPoolExecutor(2) as threads:
            cancellation = threads.submit(cancel_run, context, run_id)
            ends = [cancellation, threads.submit(finish_run, context, run_id, LoggedEnding())]
        refused = [future.exception() is not None for future in ends]
        assert sorted(refused) == [False, True]
        with context.sessions() as session:
            ended = session.get_one(Run, run_id).status
        assert ended is (RunStatus.FINISHED if refused[0] else RunStatus.CANCELLED)


@pytest.mark.both_databases
def test_runs_started_during_deletion_belong_to_one_experiment(client, begin, context):
    first = begin().json()
    client.post(f"/api/runs/{first['id']}/cancel")
    with ThreadPoolExecutor(4) as threads:
        begun = [threads.submit(begin, seed=seed) for seed in range(3)]
        deleting = threads.submit(client.delete, f"/api/experiments/{first['experiment_id']}")
    assert deleting.result().status_code in (204, 409)
    created_ids = [future.result() for future in begun]
    assert {answer.status_code for answer in created_ids} == {201}
    with context.sessions() as session:
        stored_ids = set(session.scalars(select(Run.id)))
        experiments = session.scalars(select(Experiment.id)).all()
    assert len(experiments) == 1
    if deleting.result().status_code == 409:
        assert stored_ids == {first["id"], *(answer.json()["id"] for answer in created_ids)}
