import asyncio
import os
import signal
from datetime import timedelta

import pytest

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Attempt, Run, RunStatus, Step, Worker
from app.db.types import utcnow
from app.db.work import SHARED_MEMORY_NOTE, begin_attempt
from app.training.experiments import cancel_run
from app.training.queue_verbs import pause_run, resume_run, retry_run
from tests.factories import add_experiment, run_row
from tests.fake_processes import Processes
from tests.tabs import every_tab
from workers.executor import Executor
from workers.locks import Heartbeat
from workers.placement import Device
from workers.process import DATABASE_AWAY, DISK_FULL
from workers.training.progress import Progress

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture
def run_id(context):
    run = run_row(status=RunStatus.QUEUED, performance=None, isoscore_star=None)
    add_experiment(context, run)
    return run.id


@pytest.fixture
def running_run(context, run_id):
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


def test_each_crash_is_attempt_with_reason(client, context, run_id):
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


def test_run_killed_beside_others_waits_for_whole_device(client, context, run_id):
    neighbor = run_row(status=RunStatus.RUNNING, performance=None, isoscore_star=None)
    add_experiment(context, neighbor)
    with context.sessions.begin() as session:
        begin_attempt(session, neighbor.id, "there/cpu")
    execute(context, run_id, -signal.SIGKILL, 0)
    assert len(endings(client, run_id)) == 2, "a run elsewhere takes no memory here"
    with context.sessions.begin() as session:
        begin_attempt(session, neighbor.id, "here/cpu")
    execute(context, run_id, -signal.SIGKILL, 0)
    run = client.get(f"/api/runs/{run_id}").json()
    assert (run["status"], run["worker"], len(run["attempts"])) == ("queued", None, 3)
    assert run["notes"] == [SHARED_MEMORY_NOTE]
    execute(context, run_id, -signal.SIGKILL, 0)
    assert len(endings(client, run_id)) == 5, "alone, it is tried again at once"


def test_failed_run_has_no_open_attempt(client, context, run_id):
    execute(context, run_id, *[-signal.SIGKILL] * 5)
    assert [outcome for _, outcome, _ in endings(client, run_id)] == ["killed"] * 5
    with context.sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.started_at, run.finished_at = utcnow(), utcnow() - timedelta(hours=3)
        assert run.seconds == 0, "a clock set back makes no negative duration"
        run.worked_seconds = 12.5
        assert run.seconds == 12.5


def test_pause_ends_attempt_with_last_step(client, context, running_run):
    pause_run(context, running_run)
    (attempt,) = attempts(client, running_run)
    assert (attempt["outcome"], attempt["first_step"], attempt["last_step"]) == ("paused", 3, 7)
    assert attempt["ended_at"] is not None
    resume_run(context, running_run)
    assert client.get(f"/api/runs/{running_run}").json()["started_at"] is not None, "a paused run keeps its start"


def test_retry_clears_start_and_duration(client, context, running_run):
    cancel_run(context, running_run)
    retry_run(context, running_run)
    run = client.get(f"/api/runs/{running_run}").json()
    assert (run["status"], run["started_at"], run["finished_at"], run["seconds"]) == ("queued", *[None] * 3)
    (attempt,) = run["attempts"]
    assert (attempt["outcome"], attempt["first_step"], attempt["last_step"]) == ("cancelled", 3, 7)
    assert "queued <time" in client.get(f"/runs/{running_run}").text


def test_worker_shutdown_ends_attempt(client, context, running_run):
    executor(context).stop()
    assert endings(client, running_run) == [(1, "worker_stopped", None)]


@pytest.fixture
def last_heartbeat(context, running_run):
    last_heartbeat = utcnow() + timedelta(seconds=5)
    with context.sessions.begin() as session:
        session.add(Worker(slot="here/cpu", device="cpu", pid=1, heartbeat_at=last_heartbeat))
    return last_heartbeat


def ended_at(context, run_id):
    with context.sessions() as session:
        return session.get_one(Attempt, (run_id, 1)).ended_at


def test_lost_worker_ends_attempt_at_last_heartbeat(client, context, running_run, last_heartbeat):
    execute(context, running_run, -signal.SIGKILL, 0, slot="there/cpu")
    first, second, _ = attempts(client, running_run)
    assert (first["outcome"], first["worker"], second["worker"]) == ("worker_lost", "here/cpu", "there/cpu")
    assert ended_at(context, running_run) == last_heartbeat
    page = " ".join(client.get(f"/runs/{running_run}?tab=log").text.split())
    assert '<h3 id="attempts">Attempts (3)</h3>' in page
    table = page.partition('aria-label="Attempts"')[2].partition("</table>")[0]
    rows = table.partition("<tbody>")[2].split("</tr>")[:3]
    newest_first = ("at work", "process ended <small>signal SIGKILL", "worker lost")
    assert [words in row for words, row in zip(newest_first, rows, strict=True)] == [True] * 3


@pytest.mark.both_databases
def test_restarted_worker_ends_open_attempts(client, context, running_run, last_heartbeat):
    with Heartbeat(context.sessions, Device("here/cpu"), list), context.sessions() as session:
        assert endings(client, running_run) == [(1, "worker_lost", None)]
        assert session.get(Worker, "here/cpu").pid == os.getpid()
    assert ended_at(context, running_run) == last_heartbeat
    with context.sessions.begin() as session:
        session.delete(session.get_one(Run, running_run))
    with context.sessions() as session:
        assert (session.query(Attempt).count(), session.get(Worker, "here/cpu")) == (0, None)


def test_steps_and_time_of_a_write_that_is_rolled_back_are_written_next(context, running_run):
    progress = Progress(context.sessions, running_run, "here/cpu")
    progress._time_counted_until -= 100
    progress._waiting_steps.append(Step(run_id=running_run, step=8, task_loss=1.0))
    with context.sessions.begin() as session:
        progress.write(session)
        session.rollback()
    for _ in range(2):  # the second writes neither again
        progress.write_and_commit()
        with context.sessions() as session:
            run = session.get_one(Run, running_run)
            assert [step.step for step in run.steps] == [7, 8]
            assert 100 <= run.worked_seconds < 150
