import html

import numpy as np
import pytest
from sqlalchemy import select, update

from app.db.models import ExperimentOrigin, Run, RunStatus
from app.db.study import Search
from app.results.archive import container
from app.training import experiments
from tests.archives import export, send, unpack
from tests.factories import add_experiment, run_row
from tests.sealed import add_sealed


@pytest.fixture
def experiment(context):
    """λ = 1 beats the baseline, λ = -1 is undecided."""
    random = np.random.default_rng(0)
    gains = {-1.0: 0.0, 0.0: 0.0, 1.0: 0.2}
    runs = [
        run_row(lam, seed, performance=0.6 + gain + 0.01 * random.normal())
        for lam, gain in gains.items()
        for seed in range(3)
    ]
    return add_experiment(context, *runs)


def add(client, experiment, **body):
    return client.post(f"/api/experiments/{experiment}/seeds", json=body)


def conclude(client, experiment):
    return client.get(f"/api/experiments/{experiment}/conclusion").json()


def finish(context, experiment):
    with context.sessions.begin() as session:
        waiting = (Run.experiment_id == experiment, Run.status == RunStatus.QUEUED)
        for run in session.scalars(select(Run).where(*waiting)):
            run.status, run.performance, run.isoscore_star = RunStatus.FINISHED, 0.6 + 0.003 * (run.seed % 3), 0.25


@pytest.mark.both_databases
def test_undecided_settings_get_seeds_and_own_level(client, context, experiment):
    before = conclude(client, experiment)
    assert (before["look"], before["level"]) == (1, 0.04)
    assert (before["more_seeds"]["seeds"], before["more_seeds"]["runs"]) == (3, 6)
    answer = add(client, experiment)
    assert answer.status_code == 201, answer.text
    added = answer.json()["runs"][9:]
    assert [(run["lam"], run["seed"], run["status"]) for run in added] == [
        (lam, seed, "queued") for seed in (3, 4, 5) for lam in (-1, 0)
    ]
    running = conclude(client, experiment)
    assert (running["unfinished"], running["look"], running["more_seeds"]) == (6, 0, None)
    assert {difference["verdict"] for difference in running["differences"]} == {"runs unfinished"}
    finish(context, experiment)
    after = conclude(client, experiment)
    assert (after["look"], after["level"]) == (2, 0.005)
    assert [(row["lam"], row["look"], row["seeds"]) for row in after["differences"]] == [
        (-1, 2, [0, 1, 2, 3, 4, 5]), (1, 1, [0, 1, 2]),
    ]  # fmt: skip
    assert after["differences"][1]["verdict"] == "better"
    assert add(client, experiment, seeds=1).status_code == 201
    finish(context, experiment)
    last = conclude(client, experiment)
    assert (last["look"], last["level"]) == (3, 0.0025)


def test_untestable_round_is_not_counted_as_look(client, context):
    experiment = add_experiment(context, *(run_row(lam, 0, performance=0.6 + lam / 10) for lam in (0.0, 1.0)))
    assert [run["seed"] for run in add(client, experiment).json()["runs"][2:]] == [1, 1, 2, 2]
    finish(context, experiment)
    assert conclude(client, experiment)["look"] == 1


def test_add_seeds_requires_ended_undecided_sweep(client, context, experiment, monkeypatch):
    assert add(client, experiment, seeds=0).status_code == 422
    monkeypatch.setattr(experiments, "MAX_RUNS", 12)
    assert add(client, experiment).json()["detail"] == (
        "Expected at most 12 runs in one experiment, got 15. Add fewer seeds."
    )
    assert add(client, experiment, seeds=1).status_code == 201
    refused = add(client, experiment, seeds=1)
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "The experiment has not ended. Add seeds when all its runs have.",
    )
    imported = {"origin": ExperimentOrigin.IMPORTED}
    for columns, reason in ((imported, "imported"), ({"study": Search(over=True)}, "chosen by a search")):
        searched_or_imported = add_experiment(
            context, *(run_row(0.0, seed) for seed in range(3)), dataset=reason, **columns
        )
        assert add(client, searched_or_imported).json()["detail"].endswith(f"these runs were {reason}.")
    plain = add_experiment(context, *(run_row(0.0, seed) for seed in range(3)), dataset="Plain")
    assert add(client, plain).json()["detail"] == "Nothing to add: no setting is undecided, or all were tested 6 times."


def test_add_seeds_rejects_open_test_scores(client, context):
    experiment = add_sealed(context, *(run_row(lam, seed, performance=0.6 + (seed * 7 + lam * 3) % 5 / 100)
                                       for lam in (0.0, 1.0) for seed in range(3)))  # fmt: skip
    assert "Add 3 seeds" in client.get(f"/experiments/{experiment}").text
    client.post(f"/api/experiments/{experiment}/opening", json={"choose": "lambda = 1"})
    assert "test scores are open" in add(client, experiment).json()["detail"]
    assert "Add 3 seeds" not in client.get(f"/experiments/{experiment}").text


def test_button_adds_seeds_and_page_names_look(client, context, experiment):
    page = client.get(f"/experiments/{experiment}").text
    assert f'action="/experiments/{experiment}/seeds"' in page
    assert "Add 3 seeds" in page
    answer = client.post(f"/experiments/{experiment}/seeds", data={"seeds": "3"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/experiments/{experiment}")
    finish(context, experiment)
    text = " ".join(html.unescape(client.get(f"/experiments/{experiment}?tab=result").text).split())
    assert "Look 2, at level 0.005, because seeds were added and tested again." in text


def test_add_seeds_command_adds_runs(run_cli, context, experiment, isoscope):
    code, out, _ = run_cli("add-seeds", experiment, "--seeds", "2")
    assert (code, out) == (0, f"sweep: {isoscope.url}/experiments/{experiment}\n")
    assert len(isoscope.experiment(experiment)["runs"]) == 13


def test_export_keeps_looks(client, context, other_client):
    experiment = add_experiment(context, *(run_row(lam, seed, performance=0.6 + (seed * 7 + lam * 3) % 5 / 100)
                                           for seed in range(6) for lam in (0.0, 1.0)))  # fmt: skip
    assert b"seed_round" not in unpack(export(client, experiment))[container.RUNS]
    with context.sessions.begin() as session:
        session.execute(update(Run).where(Run.experiment_id == experiment, Run.seed > 2).values(seed_round=2))
    imported = send(other_client, export(client, experiment)).json()
    assert conclude(other_client, imported["id"])["look"] == conclude(client, experiment)["look"] == 2


@pytest.mark.both_databases
@pytest.mark.parametrize(("status", "look"), [("failed", 1), ("cancelled", 2)])
def test_only_retried_cancelled_runs_count_as_look(client, context, status, look):
    stopped = [run_row(lam, 3, status=RunStatus(status), performance=None) for lam in (0.0, 1.0)]
    runs = [run_row(lam, seed, performance=0.6 + (seed * 7 + lam * 3) % 5 / 100)
            for lam in (0.0, 1.0) for seed in range(3)]  # fmt: skip
    experiment = add_experiment(context, *runs, *stopped)
    assert conclude(client, experiment)["look"] == 1
    for run in client.get(f"/api/experiments/{experiment}").json()["runs"][6:]:
        assert client.post(f"/api/runs/{run['id']}/retry").status_code == 200
    assert conclude(client, experiment)["look"] == 0
    finish(context, experiment)
    assert conclude(client, experiment)["look"] == look
