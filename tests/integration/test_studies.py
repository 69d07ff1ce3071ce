from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from sqlalchemy import select, text

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Experiment, Run, RunStatus
from app.db.session import create_sessions
from app.db.study import Search
from app.db.work import list_waiting_jobs
from app.training.experiments import cancel_experiment, delete_experiment
from app.training.queue_verbs import pause_all, pause_experiment
from isoscope.core.errors import ConflictError
from isoscope.core.formatting import short
from tests.factories import add_experiment, run_row
from tests.tabs import every_tab
from tests.tiny import upload_once
from workers.reconciler import advance_searches
from workers.training.job import fine_tune
from workers.training.search import advance_search

pytestmark = pytest.mark.usefixtures("models_dir")
WORKERS = 4


@pytest.fixture
def body(client, context, module_cache):
    dataset = upload_once(client, context, module_cache, 40, 20)
    return {
        "model": "tiny-bert", "dataset_id": dataset, "text_columns": ["sentence"], "label_column": "label",
        "epochs": None, "max_steps": 2, "batch_size": 8, "shrinkage_points": 200, "learning_rate": 1e-3,
        "search": {"lam_low": -2, "lam_high": 2, "zeta_low": 0.1, "zeta_high": 0.9, "trials": 3},
    }  # fmt: skip


def launch(client, body, search=None, **changes):
    answer = client.post("/api/studies", json=body | changes | {"search": body["search"] | (search or {})})
    assert answer.status_code == 201, answer.text
    return answer.json()


def runs_of(context, experiment_id):
    with context.sessions() as session:
        return list(session.scalars(select(Run).where(Run.experiment_id == experiment_id).order_by(Run.position)))


def end_by_hand(context, experiment_id):
    """End each run of a search at once, with a performance computed from its lambda."""
    while waiting := [run for run in runs_of(context, experiment_id) if not run.status.final]:
        with context.sessions.begin() as session:
            for run in waiting:
                row = session.get_one(Run, run.id)
                row.status, row.performance = RunStatus.FINISHED, 1 / (1 + abs(run.lam))
        advance_search(context.sessions, experiment_id)


def test_baselines_go_first_and_each_trial_has_all_seeds(client, context, body):
    experiment = launch(client, body, seeds=[4, 5])
    assert [(run["lam"], run["seed"]) for run in experiment["runs"]] == [(0, 4), (0, 5)]
    assert experiment["study"]["over"] is False
    end_by_hand(context, experiment["id"])
    runs = runs_of(context, experiment["id"])
    assert {run.status for run in runs} == {RunStatus.FINISHED}
    assert [run.seed for run in runs] == [4, 5] * 4
    assert [run.position for run in runs] == list(range(8))
    assert len({(run.lam, run.zeta) for run in runs}) == 4
    assert all(-2 <= run.lam <= 2 and 0.1 <= run.zeta <= 0.9 for run in runs[2:])
    reported = client.get(f"/api/experiments/{experiment['id']}").json()
    assert (reported["status"], reported["study"]["over"], reported["study"]["why"]) == ("finished", True, None)


def test_search_with_same_seed_tries_the_same_settings(context, client, body):
    first, second, third = launch(client, body), launch(client, body), launch(client, body, {"seed": 1})
    for experiment in (first, second, third):
        end_by_hand(context, experiment["id"])
    trials = [
        [(run.lam, run.zeta, run.seed) for run in runs_of(context, experiment["id"])]
        for experiment in (first, second, third)
    ]
    assert len(trials[0]) == 4
    assert trials[0] == trials[1]
    assert trials[0] != trials[2]


def test_at_once_limits_trials_and_advancing_twice_adds_none(context, client, body):
    experiment = launch(client, body, {"at_once": 3})
    for _ in range(2):
        advance_search(context.sessions, experiment["id"])
    assert (len(runs_of(context, experiment["id"])), len(list_waiting_jobs(context.sessions))) == (3, 3)


@pytest.mark.both_databases
def test_reconciler_advances_search_after_a_crash(context, client, body, monkeypatch):
    experiment = launch(client, body)
    monkeypatch.setattr("workers.training.job.advance_search", lambda *_: [])
    fine_tune(experiment["runs"][0]["id"], context.settings, "cpu")
    assert list_waiting_jobs(context.sessions) == []
    advance_searches(context.sessions)
    (job,) = list_waiting_jobs(context.sessions)
    assert job == Job(job_kinds.FINETUNE, runs_of(context, experiment["id"])[1].id)


def test_stopped_search_adds_no_trial_and_priority_is_inherited(client, context, body):
    experiment = launch(client, body)
    with context.sessions.begin() as session:
        session.get_one(Run, experiment["runs"][0]["id"]).status = RunStatus.PAUSED
    assert advance_search(context.sessions, experiment["id"]) == []
    cancelled = client.post(f"/api/experiments/{experiment['id']}/cancel").json()
    assert (cancelled["status"], cancelled["study"]["why"]) == ("cancelled", "It was cancelled.")
    assert advance_search(context.sessions, experiment["id"]) == []
    assert len(runs_of(context, experiment["id"])) == 1
    experiment = launch(client, body, {"at_once": 2})
    client.put(f"/api/experiments/{experiment['id']}/priority", json={"priority": 5000})
    jobs = advance_search(context.sessions, experiment["id"])
    assert [(job.row_id, job.priority) for job in jobs] == [(runs_of(context, experiment["id"])[1].id, 5000)]
    experiment = launch(client, body)
    path, run_id = f"/api/experiments/{experiment['id']}", experiment["runs"][0]["id"]
    assert client.post(f"{path}/pause").json()["study"]["paused"] is True
    client.post(f"/api/runs/{run_id}/resume")
    assert client.get(path).json()["study"]["paused"] is False
    experiment = launch(client, body)
    with context.sessions.begin() as session:
        session.get_one(Run, experiment["runs"][0]["id"]).status = RunStatus.FINISHED
    assert client.get(f"/api/experiments/{experiment['id']}").json()["status"] == "running"
    assert 'hx-trigger="every 2s"' in every_tab(client, f"/experiments/{experiment['id']}").text


def test_cancelled_trials_do_not_count_as_failed(context, body, client):
    experiment = launch(client, body, {"trials": 9})
    ends = [RunStatus.FINISHED, RunStatus.CANCELLED, RunStatus.CANCELLED, RunStatus.FAILED, RunStatus.FAILED]
    for status in ends:
        with context.sessions.begin() as session:
            session.get_one(Run, runs_of(context, experiment["id"])[-1].id).status = status
        assert len(advance_search(context.sessions, experiment["id"])) == 1
    with context.sessions.begin() as session:
        session.get_one(Run, runs_of(context, experiment["id"])[-1].id).status = RunStatus.FAILED
    assert advance_search(context.sessions, experiment["id"]) == []
    experiment = launch(client, body, {"trials": 9})
    for _ in range(5):
        with context.sessions.begin() as session:
            for run in session.scalars(select(Run)):
                run.status = RunStatus.FAILED
        advance_search(context.sessions, experiment["id"])
    assert len(runs_of(context, experiment["id"])) == 4
    study = client.get(f"/api/experiments/{experiment['id']}").json()["study"]
    expected = (True, "All 3 trials that were not cancelled failed, so no more were started.")
    assert (study["over"], study["why"]) == expected


@pytest.mark.parametrize("pauses_all", [False, True])
def test_search_can_be_paused_between_trials(client, context, body, pauses_all):
    experiment = launch(client, body)
    path = f"/api/experiments/{experiment['id']}"
    with context.sessions.begin() as session:
        session.get_one(Run, experiment["runs"][0]["id"]).status = RunStatus.FINISHED
    client.post("/api/queue/pause" if pauses_all else f"{path}/pause")
    assert advance_search(context.sessions, experiment["id"]) == []
    response = client.get(path).json()
    assert (response["status"], response["study"]["paused"]) == ("paused", True)
    assert [row["status"] for row in client.get("/api/experiments").json()] == ["paused"]
    page = every_tab(client, f"/experiments/{experiment['id']}").text
    assert ("Resume all" in page, "Pause all" in page, "Cancel all" in page) == (True, False, True)
    client.post("/api/queue/resume" if pauses_all else f"{path}/resume")
    assert client.get(path).json()["status"] == "running"
    advance_searches(context.sessions)
    assert len(list_waiting_jobs(context.sessions)) == 1


@pytest.mark.long
def test_both_objectives_are_searched_and_front_is_shown(client, context, body, work):
    experiment = launch(client, body, {"objective": "performance_and_isotropy", "trials": 4})
    work()
    runs = runs_of(context, experiment["id"])
    table = client.get(f"/experiments/{experiment['id']}/figures/pareto.csv").text.splitlines()
    assert len(table) == 1 + 5
    on_the_front = [line for line in table[1:] if line.endswith(",yes")]
    expected_front = [
        candidate
        for candidate in runs
        if not any(
            (rival.performance >= candidate.performance and rival.isoscore_star >= candidate.isoscore_star)
            and (rival.performance, rival.isoscore_star) != (candidate.performance, candidate.isoscore_star)
            for rival in runs
        )
    ]
    assert len(on_the_front) == len(expected_front)
    page = " ".join(every_tab(client, f"/experiments/{experiment['id']}").text.split())
    assert "4 of 4 trials" in page
    best = max(run.performance for run in runs[1:])
    assert ("so it is optimistic" in page) == (best > runs[0].performance)
    for slug in ("search-history", "search-plane"):
        assert client.get(f"/experiments/{experiment['id']}/figures/{slug}.json").status_code == 200


def test_best_trial_must_beat_baseline_and_ties_are_listed(client, context, body):
    cases = [
        ([0.5, 0.5],
         "No trial did better than the baseline so far: Accuracy 0.5000 at best in 1 trial ({0}), baseline 0.5000."),
        ([0.5, 0.6, 0.6], "Best so far: {0}; {1}, Accuracy 0.6000, baseline 0.5000."), ([0.5], None),
    ]  # fmt: skip
    for scores, expected_best in cases:
        experiment = launch(client, body, {"trials": 4})
        for score in scores:
            with context.sessions.begin() as session:
                last = session.get_one(Experiment, experiment["id"]).runs[-1]
                last.status, last.performance, last.isoscore_star = RunStatus.FINISHED, score, 0.5
            advance_search(context.sessions, experiment["id"])
        names = [f"I-STAR, λ = {short(run.lam)}, ζ = {run.zeta:g}" for run in runs_of(context, experiment["id"])[1:]]
        page = " ".join(every_tab(client, f"/experiments/{experiment['id']}").text.split())
        if expected_best is None:
            assert "so far" not in page
        else:
            assert expected_best.format(*names) in page
            assert f"best of {len(scores) - 1} trials" in page or "No trial" in expected_best


def test_invalid_search_is_refused_at_its_field(client, context, body):
    cases = [
        ({"search": {"lam_low": 1, "lam_high": 1}}, "search", "Expected `lam_low` below `lam_high`, got 1 and 1"),
        ({"search": {"zeta_low": 0.5, "zeta_high": 0.1}}, "search", "Expected `zeta_low` at most `zeta_high`"),
        ({"search": {"regularizer": "none"}}, "search", "Expected a regularizer to search lambda for, got none"),
        ({"search": {"least_size": 3}}, "search",
         "Expected `lam_low` and `lam_high` to be at least as large in absolute value as `least_size`, 3; got 1"),
        ({"search": {"regularizer": "cosreg", "zeta_high": 0.5}}, "zeta_high", "Expected one zeta for cosreg"),
        ({"search": {"prune": True}}, "prune", "Pruning needs evaluations on the selection rows"),
        ({"search": {"trials": 100}, "seeds": [0, 1, 2, 3, 4]}, "trials",
         "Expected at most 500 runs in one experiment, got 505: 100 trials and the baseline, with 5 seeds each."),
        ({"label_column": "nope"}, "label_column", "nope"),
    ]  # fmt: skip
    for changes, field, sentence in cases:
        answer = client.post("/api/studies", json=body | changes)
        assert answer.status_code == 422
        assert sentence in answer.json()["detail"]
        assert answer.json()["field"].startswith(field)
        with context.sessions() as session:
            assert session.scalars(select(Experiment)).all() == []
    sweep = {name: value for name, value in body.items() if name != "search"}
    experiment = client.post("/api/experiments", json=sweep | {"lambdas": [1]}).json()
    assert experiment["study"] is None
    assert client.get(f"/experiments/{experiment['id']}/figures/pareto.csv").status_code == 404


def test_median_rule_prunes_all_seeds_but_no_baseline(client, context, body):
    """One trial waits with two seeds, the others have an impossibly high performance."""
    options = {"max_steps": 6, "evaluate_every": 2, "checkpoint": "best"}
    experiment = launch(client, body, {"prune": True, "trials": 9, "at_once": 6}, seeds=[0, 1], **options)
    advance_search(context.sessions, experiment["id"])
    runs = runs_of(context, experiment["id"])
    with context.sessions.begin() as session:
        for run in runs[:-2]:
            row = session.get_one(Run, run.id)
            row.status, row.performance = RunStatus.FINISHED, 2.0
            row.results = {"metrics": {}, "selection": {"history": [[2, 2.0], [4, 2.0], [6, 2.0]]}}
    pruned_run, sibling = runs[-2:]
    fine_tune(pruned_run.id, context.settings, "cpu")
    rows = {run.id: run for run in runs_of(context, experiment["id"])}
    assert [rows[row.id].status for row in (pruned_run, sibling)] == [RunStatus.PRUNED, RunStatus.PRUNED]
    reported = client.get(f"/api/runs/{pruned_run.id}").json()
    assert [step for step, _ in reported["results"]["selection"]["history"]] == [2]
    assert reported["notes"][0].startswith("Pruned at step 2: accuracy on the selection rows was")
    assert reported["notes"][0].endswith("below 2, the median of 10 finished runs of this search at that step.")
    assert "workers.training" in reported["log"], "the log is kept"
    assert "Pruned with seed 0 of the same λ and ζ." in client.get(f"/runs/{sibling.id}").text
    assert client.get(f"/runs/{pruned_run.id}").status_code == 200
    assert "1 pruned (median rule)" in every_tab(client, f"/experiments/{experiment['id']}").text
    assert not (context.settings.runs / pruned_run.id).exists()
    assert len(rows) > len(runs)  # the next trial is added
    with context.sessions.begin() as session:
        session.get_one(Run, runs[0].id).status = RunStatus.QUEUED
    fine_tune(runs[0].id, context.settings, "cpu")
    assert runs_of(context, runs[0].experiment_id)[0].status is RunStatus.FINISHED


def add(context, **search):
    study = Search(**{"zeta_low": 0.1, "zeta_high": 0.9} | search).model_dump(mode="json")
    return add_experiment(context, run_row(0.0, zeta=0), name="e", study=study)


@pytest.fixture
def workers(context):
    """Database sessions of several workers, each with separate connections."""
    worker_sessions = [create_sessions(context.settings.database) for _ in range(WORKERS)]
    yield worker_sessions
    for sessions in worker_sessions:
        sessions.kw["bind"].dispose()


def call_at_once(*calls):
    start = Barrier(len(calls))

    def make(call):
        start.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(make, call) for call in calls]]


def end(context, run_id):
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.status, run.performance = RunStatus.FINISHED, 0.5


@pytest.mark.both_databases
def test_concurrent_workers_never_exceed_at_once(context, workers):
    experiment_id, max_running = add(context, trials=7, at_once=2), 2
    row_ids = []
    while context.sessions().get(Experiment, experiment_id).searching:
        jobs = call_at_once(*(partial(advance_search, sessions, experiment_id) for sessions in workers))
        row_ids += [job.row_id for batch in jobs for job in batch]
        waiting = [run.id for run in runs_of(context, experiment_id) if not run.status.final]
        assert len(waiting) <= max_running
        for run_id in waiting:
            end(context, run_id)
    runs = runs_of(context, experiment_id)
    assert [run.position for run in runs] == list(range(8))
    assert row_ids == [run.id for run in runs[1:]], "one worker enqueues each"


def test_trials_queue_in_order_and_stay_in_zeta_range(context):
    experiment_id = add(context, at_once=3)
    jobs = advance_search(context.sessions, experiment_id)
    assert list_waiting_jobs(context.sessions) == jobs
    assert [job.row_id for job in jobs] == [run.id for run in runs_of(context, experiment_id)[1:]]
    assert len(jobs) == 3
    low, high = 0.123451, 0.123459
    experiment_id = add(context, zeta_low=low, zeta_high=high, trials=3)
    for _ in range(4):
        for job in advance_search(context.sessions, experiment_id):
            end(context, job.row_id)
    runs = runs_of(context, experiment_id)
    assert len(runs) == 4
    assert all(low <= run.zeta <= high for run in runs[1:])


@pytest.mark.parametrize(
    ("stop", "state"),
    [(cancel_experiment, RunStatus.CANCELLED), (pause_experiment, RunStatus.PAUSED),
     (lambda context, _: pause_all(context), RunStatus.PAUSED)], ids=["cancelled", "paused", "all paused"],
)  # fmt: skip
@pytest.mark.both_databases
def test_no_trial_is_added_while_search_is_stopped(context, workers, stop, state):
    for _ in range(3):
        experiment_id = add(context, at_once=2)
        advance_search(context.sessions, experiment_id)
        end(context, runs_of(context, experiment_id)[1].id)
        asking = [partial(advance_search, sessions, experiment_id) for sessions in workers]
        call_at_once(*asking, partial(stop, context, experiment_id))
        assert advance_search(context.sessions, experiment_id) == []
        unended = {run.status for run in runs_of(context, experiment_id)} - {RunStatus.FINISHED}
        assert unended == {state}
        assert list_waiting_jobs(context.sessions) == []


def test_search_must_be_cancelled_before_deletion(context, workers):
    experiment_id = add(context)
    with pytest.raises(
        ConflictError, match=r"^Its search is still running\. Cancel the search before deleting the experiment\.$"
    ):
        delete_experiment(context, experiment_id)
    cancel_experiment(context, experiment_id)
    asking = [partial(advance_search, sessions, experiment_id) for sessions in workers]
    results = call_at_once(*asking, partial(delete_experiment, context, experiment_id))
    assert results == [[]] * WORKERS + [None]
    with context.sessions() as session:
        assert session.scalars(select(Run.id)).all() == []
    assert advance_search(context.sessions, experiment_id) == []


def test_unreadable_search_delays_no_other(context):
    broken, intact = add(context), add(context)
    with context.sessions.begin() as session:
        broken_search = text('update experiments set study = \'{"trials": "many"}\' where id = :id')
        session.execute(broken_search, {"id": broken})
    advance_searches(context.sessions)
    assert [len(runs_of(context, experiment_id)) for experiment_id in (broken, intact)] == [1, 2]
    assert list_waiting_jobs(context.sessions) == [Job(job_kinds.FINETUNE, runs_of(context, intact)[1].id)]
