import asyncio
import os
import signal
from datetime import timedelta

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Attempt, Run, RunStatus, Step, Worker
from app.db.types import utcnow
from app.db.work import begin_attempt
from app.training.experiments import cancel_run
from app.training.queue_verbs import pause_run, resume_run, retry_run
from tests.executing import Processes
from tests.factories import add_experiment, run_row
from tests.tabs import every_tab
from workers.executor import Executor
from workers.locks import Heartbeat
from workers.process import DATABASE_AWAY, DISK_FULL

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.fixture
def run_id(context):
    run = run_row(status=RunStatus.QUEUED, performance=None, isoscore_star=None)
    add_experiment(context, run)
    return run.id


@pytest.fixture
def at_work(context, run_id):
    """The run is trained at a worker, and has logged its seventh step."""
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.status, run.worker, run.started_at = RunStatus.RUNNING, "here/cpu", utcnow() - timedelta(hours=2)
        session.add(Step(run_id=run_id, step=7, task_loss=1.0))
        begin_attempt(session, run_id, "here/cpu")
        session.flush()
        session.get_one(Attempt, (run_id, 1)).first_step = 3
    return run_id


def executor(context, *exit_codes, slot="here/cpu"):
    return Executor(context.sessions, Processes(*exit_codes), slot, context.settings.runs)


def execute(context, run_id, *exit_codes, slot="here/cpu"):
    asyncio.run(executor(context, *exit_codes, slot=slot).execute(Job(job_kinds.FINETUNE, run_id)))


def attempts(client, run_id):
    return client.get(f"/api/runs/{run_id}").json()["attempts"]


def endings(client, run_id):
    return [(attempt["number"], attempt["outcome"], attempt["detail"]) for attempt in attempts(client, run_id)]


def test_each_process_that_ended_too_early_is_an_attempt_with_its_reason(client, context, run_id):
    assert attempts(client, run_id) == []
    assert "Attempts" not in every_tab(client, f"/runs/{run_id}").text
    execute(context, run_id, -signal.SIGKILL, DATABASE_AWAY, DISK_FULL, 1, 0)
    assert endings(client, run_id) == [
        (1, "killed", "signal SIGKILL"),
        (2, "database_away", "the database not answering"),
        (3, "disk_full", "a full disk"),
        (4, "killed", "exit code 1"),
        (5, None, None),
    ]
    assert {attempt["worker"] for attempt in attempts(client, run_id)} == {"here/cpu"}


def test_a_run_that_is_given_up_has_no_attempt_that_goes_on(client, context, run_id):
    execute(context, run_id, *[-signal.SIGKILL] * 5)
    assert [outcome for _, outcome, _ in endings(client, run_id)] == ["killed"] * 5
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.started_at, run.finished_at = utcnow(), utcnow() - timedelta(hours=3)
        assert run.seconds == 0, "no step of the clock makes a duration negative"
        run.worked_seconds = 12.5
        assert run.seconds == 12.5


def test_who_stops_a_run_ends_its_attempt_with_the_step_it_came_to(client, context, at_work):
    pause_run(context, at_work)
    (attempt,) = attempts(client, at_work)
    assert (attempt["outcome"], attempt["first_step"], attempt["last_step"]) == ("paused", 3, 7)
    assert attempt["ended_at"] is not None
    resume_run(context, at_work)
    assert client.get(f"/api/runs/{at_work}").json()["started_at"] is not None, "a paused run keeps its start"


def test_a_run_that_is_tried_again_does_not_keep_its_start_and_duration(client, context, at_work):
    cancel_run(context, at_work)
    retry_run(context, at_work)
    run = client.get(f"/api/runs/{at_work}").json()
    assert (run["status"], run["started_at"], run["finished_at"], run["seconds"]) == ("queued", *[None] * 3)
    (attempt,) = run["attempts"]
    assert (attempt["outcome"], attempt["first_step"], attempt["last_step"]) == ("cancelled", 3, 7)
    assert "queued <time" in client.get(f"/runs/{at_work}").text


def test_an_orderly_end_of_the_worker_is_told(client, context, at_work):
    executor(context).stop()
    assert endings(client, at_work) == [(1, "worker_stopped", None)]


@pytest.fixture
def heard(context, at_work):
    heard = utcnow() + timedelta(seconds=5)
    with context.sessions.begin() as session:
        session.add(Worker(slot="here/cpu", device="cpu", pid=1, heartbeat_at=heard))
    return heard


def ended_at(context, run_id):
    with context.sessions() as session:
        return session.get_one(Attempt, (run_id, 1)).ended_at


def test_a_worker_that_was_lost_was_last_there_at_its_last_heartbeat(client, context, at_work, heard):
    execute(context, at_work, -signal.SIGKILL, 0, slot="there/cpu")
    first, second, _ = attempts(client, at_work)
    assert (first["outcome"], first["worker"], second["worker"]) == ("worker_lost", "here/cpu", "there/cpu")
    assert ended_at(context, at_work) == heard
    page = " ".join(client.get(f"/runs/{at_work}?tab=log").text.split())
    assert '<h3 id="attempts">Attempts (3)</h3>' in page
    table = page.partition('aria-label="Attempts"')[2].partition("</table>")[0]
    rows = table.partition("<tbody>")[2].split("</tr>")[:3]
    newest_first = ("at work", "process ended <small>signal SIGKILL", "worker lost")
    assert [words in row for words, row in zip(newest_first, rows, strict=True)] == [True] * 3


@pytest.mark.both_databases
def test_a_worker_that_was_killed_and_started_again_ends_what_it_left_open(client, context, at_work, heard):
    with Heartbeat(context.sessions, "here/cpu", "cpu", list), context.sessions() as session:
        assert endings(client, at_work) == [(1, "worker_lost", None)]
        assert session.get(Worker, "here/cpu").pid == os.getpid()
    assert ended_at(context, at_work) == heard
    with context.sessions.begin() as session:
        session.delete(session.get_one(Run, at_work))
    with context.sessions() as session:
        assert (session.query(Attempt).count(), session.get(Worker, "here/cpu")) == (0, None)
