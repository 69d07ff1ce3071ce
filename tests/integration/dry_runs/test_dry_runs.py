"""Eight rows and a few steps before a launch: through the API and the worker."""

import math
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.db import job_kinds
from app.db.config import RunConfig
from app.db.job_kinds import Job
from app.db.models import Dataset, DryRun, ResultStatus
from app.db.options.measuring import Checkpoint
from app.db.work import wanted
from app.training import dry_runs
from app.training.sweeps import SweepRequest, plan_sweep
from isoscope.core.errors import ConflictError, InvalidError
from tests.tiny import make_table
from workers.training import dry_run as job
from workers.training.data import n_rows
from workers.training.dry_run import Rehearsal, dry_run


def ask(client, sweep):
    answer = client.post("/api/dry-runs", json=sweep)
    assert answer.status_code == 202
    return answer.json()


def test_a_sweep_is_tried_before_anything_is_queued_and_its_time_and_disk_are_told(client, sweep, work):
    first = ask(client, sweep)
    assert (first["dry_run"]["status"], first["estimate"], first["runs"]) == ("queued", None, 10)
    assert work() == 1
    told = ask(client, sweep)
    results, estimate = told["dry_run"]["results"], told["estimate"]

    assert told["dry_run"]["id"] == first["dry_run"]["id"]
    assert len(results["rows"]) == 8
    assert {row["label"] for row in results["rows"]} <= {"0", "1"}
    assert [token["text"] for token in results["rows"][0]["tokens"]][:1] == ["[CLS]"]
    assert results["rows"][0]["tokens"][0]["special"]
    assert results["loss_of_guessing"] == pytest.approx(math.log(2))
    assert 0.2 < results["loss"] < 2
    assert [kind["regularizers"] for kind in results["kinds"]] == [[], ["istar"], ["cosreg"]]
    assert [kind["shrinkage_rows"] > 60 for kind in results["kinds"]] == [False, True, False]
    assert [(kind["inputs_per_row"], kind["probe_rows"]) for kind in results["kinds"]] == [(1, 40)] * 3
    assert all(kind["seconds_per_look"] > 0 and kind["least_steps_apart"] > 0 for kind in results["kinds"])
    for kind in results["kinds"]:
        seconds = [name for name in kind if name.startswith("seconds_")]
        assert sorted(kind["fastest"]) == sorted(kind["slowest"]) == sorted(seconds)
        assert all(kind["fastest"][name] <= kind[name] <= kind["slowest"][name] for name in seconds)
        assert kind["pair_rows"] == 40
        assert min(kind["seconds_of_pairs"], kind["seconds_per_measured_row"]) > 0
        assert kind["seconds_per_test_row"] == 0
    assert told["words"] == "(1 baseline + 2 methods × 2 λ) × 2 seeds = 10 runs"
    assert told["notes"][:1] == ["The λ = 0 baseline was added, one run for each seed and setting."]

    assert estimate["steps"] == 10 * 2 * math.ceil(60 / 8)
    assert estimate["kept_bytes"] == 0
    assert estimate["passing_bytes"] == 6 * 4 * results["kinds"][0]["parameters"]
    assert 0 < estimate["longest_seconds"] < estimate["seconds"] < 11 * estimate["longest_seconds"]
    assert estimate["low_seconds"] < estimate["seconds"] < estimate["high_seconds"]
    assert estimate["longest_low_seconds"] < estimate["longest_seconds"] < estimate["longest_high_seconds"]
    assert client.get("/api/experiments").json() == []
    shown = client.get(f"/api/dry-runs/{told['dry_run']['id']}").json()
    assert shown == told["dry_run"]


@pytest.mark.parametrize(("points", "rows"), [("mean", [20]), ("tokens", [2, 3, 4, 5])])
def test_the_rows_of_a_pass_for_the_shrinkage_covariance_are_those_that_training_draws(
    client, sweep, work, points, rows
):
    """Of 20 points of each of 2 layers: 20 texts, or a few of 4 to 14 tokens."""
    asked = sweep | {"regularizers": ["istar"], "points": points, "shrinkage_points": 40}
    ask(client, asked)
    work()
    assert ask(client, asked)["dry_run"]["results"]["kinds"][-1]["shrinkage_rows"] in rows


def test_what_training_would_refuse_is_refused_before(context, dataset, sweep):
    """On one device of its own for each process, and with rows to hold out."""
    with context.sessions() as session:
        rows = session.get_one(Dataset, dataset["id"])
    shared = {"model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "label_names": ["0", "1"]}
    config = RunConfig(**shared, regularizer="none", lam=0, seed=0, batch_size=4)
    with pytest.raises(InvalidError, match=r"^Expected at most 1 processes"):
        Rehearsal(config.model_copy(update={"processes": 2}), rows, context.settings, "mps")
    chosen = config.model_copy(update={"checkpoint": Checkpoint.BEST, "train_rows": 1})
    with pytest.raises(InvalidError, match=r"^Expected two training rows or more, to hold a tenth of them out"):
        Rehearsal(chosen, rows, context.settings, "cpu")
    assert n_rows(Rehearsal(chosen.model_copy(update={"train_rows": 20}), rows, context.settings, "cpu").columns) == 18


def test_more_seeds_or_another_rate_are_told_without_another_trial(client, sweep, make_ready):
    ask(client, sweep)
    make_ready()
    few = ask(client, sweep)["estimate"]
    more = ask(client, sweep | {"seeds": [0, 1, 2, 3], "learning_rate": 1e-4, "lambdas": [-3, 3], "export": True})
    assert more["estimate"]["seconds"] == pytest.approx(2 * few["seconds"])
    assert more["estimate"]["kept_bytes"] == 20 * 4 * more["dry_run"]["results"]["kinds"][0]["parameters"]
    assert ask(client, sweep | {"batch_size": 4})["estimate"] is None, "a step of another size is timed"


def test_kinds_beyond_those_that_are_timed_count_as_the_dearest(client, sweep, work, monkeypatch):
    monkeypatch.setattr(dry_runs, "MAX_KINDS", 2)
    ask(client, sweep)
    work()
    told = ask(client, sweep)
    assert len(told["dry_run"]["results"]["kinds"]) == 2
    assert told["estimate"]["kinds_untimed"] == 1


def test_what_cannot_be_trained_is_said_and_may_be_tried_again(client, context, sweep, work, models_dir):
    (models_dir / "empty-model").mkdir(exist_ok=True)
    (models_dir / "empty-model" / "config.json").write_text("{}")
    sweep = sweep | {"model": "empty-model"}
    ask(client, sweep)
    work()
    failed = ask(client, sweep)["dry_run"]
    assert failed["status"] == "queued", "it is tried again when it is asked for again"
    work()
    answer = client.get(f"/api/dry-runs/{failed['id']}").json()
    assert answer["status"] == "failed"
    assert "'empty-model' has no weights as safetensors" in answer["error"]
    (models_dir / "empty-model" / "config.json").unlink()


def test_a_wrong_request_and_an_unknown_dry_run_are_refused(client, sweep):
    answer = client.post("/api/dry-runs", json=sweep | {"label_column": "nope"})
    assert (answer.status_code, answer.json()["field"]) == (422, "label_column")
    answer = client.get("/api/dry-runs/none")
    assert answer.status_code == 404
    assert "There is no dry run 'none'; only the last 50 are kept" in answer.json()["detail"]


@pytest.mark.both_databases
def test_only_the_newest_are_kept_and_a_data_set_takes_its_own_along(client, context, sweep, make_ready, monkeypatch):
    monkeypatch.setattr(dry_runs, "KEPT", 1)
    for size in (8, 4):
        ask(client, sweep | {"batch_size": size, "regularizers": []})
        make_ready()
    with context.sessions() as session:
        assert [one.configs[0].batch_size for one in session.query(DryRun)] == [4]
    client.delete(f"/api/datasets/{sweep['dataset_id']}")
    with context.sessions() as session:
        assert session.query(DryRun).all() == []


@pytest.mark.both_databases
def test_a_forgotten_one_is_found_and_one_that_is_ready_or_gone_is_left_alone(
    client, context, settings, sweep, make_ready
):
    row_id = ask(client, sweep)["dry_run"]["id"]
    assert wanted(context.sessions) == [Job(job_kinds.DRY_RUN, row_id)]
    make_ready()
    with context.sessions() as session:
        before = session.get_one(DryRun, row_id).results
    assert list(dry_run(row_id, settings, "cpu")) == list(dry_run("gone", settings, "cpu")) == []
    with context.sessions() as session:
        after = session.get_one(DryRun, row_id)
    assert (after.status, after.results) == (ResultStatus.READY, before)


@pytest.mark.both_databases
def test_no_more_than_a_few_wait_and_one_that_is_taken_back_makes_room(client, context, sweep, work):
    sweep = sweep | {"regularizers": []}
    asked = [ask(client, sweep | {"batch_size": size})["dry_run"]["id"] for size in range(1, 6)]
    refused = client.post("/api/dry-runs", json=sweep | {"batch_size": 6})
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        "5 dry runs wait for a worker already, which is as many as may. Wait until one is done, or delete one: "
        "DELETE /api/dry-runs/{id} takes it back."
    )
    assert ask(client, sweep | {"batch_size": 5})["dry_run"]["id"] == asked[-1], "it waits already"
    assert client.delete(f"/api/dry-runs/{asked[0]}").status_code == 204
    assert f"dry_run-{asked[0]}" not in context.queue.active()
    assert client.delete(f"/api/dry-runs/{asked[0]}").status_code == 404
    assert ask(client, sweep | {"batch_size": 6})["dry_run"]["status"] == "queued"


@pytest.mark.both_databases
def test_an_answer_can_be_had_while_others_wait_and_another_one_after_it_was_deleted(client, sweep, make_ready):
    sweep = sweep | {"regularizers": []}
    first = ask(client, sweep)["dry_run"]["id"]
    make_ready()
    for size in range(1, 6):
        ask(client, sweep | {"batch_size": size})
    assert ask(client, sweep)["dry_run"]["status"] == "ready"
    client.delete(f"/api/dry-runs/{first}")
    assert client.post("/api/dry-runs", json=sweep).status_code == 409
    make_ready()
    again = ask(client, sweep)["dry_run"]
    assert (again["status"], again["id"] != first) == ("queued", True)


@pytest.mark.both_databases
def test_one_that_is_asked_for_again_in_vain_is_kept(client, context, sweep, make_ready):
    sweep = sweep | {"regularizers": []}
    first = ask(client, sweep)["dry_run"]["id"]
    make_ready()
    for size in range(1, 6):
        ask(client, sweep | {"batch_size": size})
    plan = plan_sweep(context, SweepRequest.model_validate(sweep))
    with pytest.raises(ConflictError, match=r"^5 dry runs wait"):
        dry_runs.request_dry_run(context, plan, again=True)
    kept = dry_runs.find_dry_run(context, plan)
    assert (kept.id, kept.status) == (first, ResultStatus.READY)
    make_ready()
    again = dry_runs.request_dry_run(context, plan, again=True)
    assert (again.status, again.id != first) == (ResultStatus.QUEUED, True)


@pytest.mark.both_databases
def test_a_data_set_that_is_deleted_at_this_moment_is_told(client, context, sweep):
    plan = plan_sweep(context, SweepRequest.model_validate(sweep))
    client.delete(f"/api/datasets/{sweep['dataset_id']}")
    with pytest.raises(ConflictError) as refused:
        dry_runs.request_dry_run(context, plan)
    assert refused.value.message == "The data set or this dry run was deleted at the same moment; ask again."


def test_kinds_are_timed_there_and_back_after_a_warm_up_with_one_model_in_memory(client, sweep, work, monkeypatch):
    living = weakref.WeakSet()
    beside, order, measured = [], [], []

    class Watched(Rehearsal):
        def __init__(self, config, *args):
            beside.append(len(living))
            order.append(config.regularizer)
            super().__init__(config, *args)
            living.add(self.model)

        def final_cost(self):
            measured.append(self.config.regularizer)
            return super().final_cost()

    monkeypatch.setattr(job, "Rehearsal", Watched)
    ask(client, sweep)
    work()
    assert beside == [0] * 7
    assert order == ["none", "none", "istar", "cosreg", "cosreg", "istar", "none"]
    assert measured == ["none", "none", "cosreg"], "once a pass, as all measure alike"


def test_test_rows_are_timed_where_the_data_set_has_some(client, sweep, work):
    files = {name: (f"{name}.tsv", make_table(40, 1)) for name in ("train", "validation", "test")}
    dataset = client.post("/api/datasets", files=files).json()
    asked = sweep | {"dataset_id": dataset["id"], "regularizers": []}
    ask(client, asked)
    work()
    (kind,) = ask(client, asked)["dry_run"]["results"]["kinds"]
    assert kind["seconds_per_test_row"] > 0


@pytest.mark.both_databases
def test_two_who_ask_at_the_same_moment_get_no_more_than_may_wait(context, client, sweep):
    sizes = range(1, 9)
    plans = [
        plan_sweep(context, SweepRequest.model_validate(sweep | {"regularizers": [], "batch_size": size}))
        for size in sizes
    ]
    with ThreadPoolExecutor(len(plans)) as askers:
        asked = [askers.submit(dry_runs.request_dry_run, context, plan) for plan in plans]
    assert sum(isinstance(one.exception(), ConflictError) for one in asked) == 3
    with context.sessions() as session:
        assert session.query(DryRun).count() == dry_runs.MAX_QUEUED
