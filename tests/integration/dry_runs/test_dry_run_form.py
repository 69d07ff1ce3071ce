"""Dry runs in the form of a sweep."""

import re

import pytest

from app.db.models import DryRun, Run, RunStatus, Worker
from app.db.types import utcnow
from tests.tiny import make_table


@pytest.fixture
def form(dataset):
    return {
        "dataset_id": dataset["id"], "model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label",
        "task": "classification", "metric": "accuracy", "regularizers": ["istar"], "lambdas": "1", "zetas": "0.2",
        "seeds": "0", "epochs": "1", "batch_size": "8",
    }  # fmt: skip


def test_the_form_asks_waits_and_shows(client, form, work):
    assert "Try eight rows" in client.get("/experiments/new", params=form).text
    answer = client.post("/experiments/dry-run", data=form)
    assert answer.status_code == 303
    waiting = client.get(answer.headers["location"]).text
    assert "A worker loads the model" in waiting
    assert 'value="8"' in waiting
    work()
    shown = client.get(answer.headers["location"]).text
    assert re.search(r"About <strong>[\d.]+ (s|min)( [\d.]+ s)?( to [\d.]+ (s|min)[^<]*)?</strong> on ", shown)
    assert "Not included: early stops, evaluations that choose a checkpoint, writing checkpoints" in shown
    assert "random guessing among 2 classes is 0.693" in shown
    assert '<span class="token special">[CLS]</span>' in shown
    assert "Steps were timed in one process" not in shown
    assert ">Try again</button>" in shown
    again = client.post("/experiments/dry-run", data=form)
    assert "A worker loads the model" in client.get(again.headers["location"]).text
    wrong = client.post("/experiments/dry-run", data=form | {"lambdas": "abc"}, follow_redirects=True)
    assert "not &#39;abc&#39;" in wrong.text


def test_the_form_says_that_test_rows_are_in_its_time(client, form, work):
    files = {name: (f"{name}.tsv", make_table(40, 1)) for name in ("train", "validation", "test")}
    dataset = client.post("/api/datasets", files=files).json()
    answer = client.post("/experiments/dry-run", data=form | {"dataset_id": dataset["id"]})
    work()
    assert "Included: scoring 40 test rows in each run." in client.get(answer.headers["location"]).text


def test_the_form_says_that_too_many_wait_where_it_was_asked(client, form):
    for size in range(1, 6):
        assert client.post("/experiments/dry-run", data=form | {"batch_size": size}).status_code == 303
    refused = client.post("/experiments/dry-run", data=form | {"batch_size": "6"})
    assert refused.status_code == 409
    of_dry_run = refused.text.partition('id="dry-run"')[2]
    assert '<p class="error" role="alert">5 dry runs wait for a worker already' in of_dry_run


@pytest.mark.both_databases
def test_one_that_waits_can_be_taken_back_in_the_form(client, context, form):
    waiting = client.get(client.post("/experiments/dry-run", data=form).headers["location"]).text
    (row_id,) = re.findall(r'name="dry_run_id" value="(\w+)"', waiting)
    assert 'formaction="/experiments/dry-run/cancel"' in waiting
    answer = client.post("/experiments/dry-run/cancel", data=form | {"dry_run_id": row_id})
    assert answer.status_code == 303
    assert context.queue.active() == set()
    shown = client.get(answer.headers["location"]).text
    assert "Try eight rows" in shown
    assert 'value="8"' in shown, "the form is as it was"


def test_one_that_has_to_wait_says_for_what(client, context, form, sweep):
    waiting = client.post("/experiments/dry-run", data=form).headers["location"]
    assert "No worker is running. It waits until one starts." in client.get(waiting).text
    with context.sessions.begin() as session:
        session.add(Worker(slot="here/cpu", device="cpu", pid=1))
    assert "waits" not in client.get(waiting).text.partition('id="dry-run"')[2].partition("</section>")[0]
    with context.sessions.begin() as session:
        told = {"since": utcnow().isoformat(), "memory_bytes": None, "peak_bytes": None}
        worker = session.query(Worker).one()
        worker.jobs = [{"id": f"encode-{'1' * 32}", **told}]
    assert "All workers are busy. The queue shows" in client.get(waiting).text
    with context.sessions.begin() as session:
        session.query(Worker).one().jobs = [{"id": f"dry_run-{session.query(DryRun).one().id}", **told}]
    assert "Every worker" not in client.get(waiting).text
    with context.sessions.begin() as session:
        session.query(Worker).one().jobs = [{"id": f"measure-{'1' * 32}", **told}]
    assert "Every worker" not in client.get(waiting).text
    client.post("/api/experiments", json=sweep)
    with context.sessions.begin() as session:
        run = session.query(Run).first()
        run.status, run.worker = RunStatus.RUNNING, "here/cpu"
    assert "All workers are busy." in client.get(waiting).text


def test_what_several_processes_take_is_told_of_one(client, form, work):
    answer = client.post("/experiments/dry-run", data=form | {"processes": "2"})
    work()
    assert "Steps were timed in one process" in client.get(answer.headers["location"]).text
