from datetime import timedelta

import pytest

from app.db.models import RunStatus
from app.db.types import utcnow
from app.db.work import begin_attempt
from tests.integration.workers.conftest import CONFIG, queue_again, stop_after
from workers.training.job import fine_tune

SLOT = "test/cpu"
TORCH = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos")


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"worker_name": "test"})


def attempt(sessions, run_id, settings):
    with sessions.begin() as session:
        begin_attempt(session, run_id, SLOT)
    fine_tune(run_id, settings, "cpu")


def timeline(sessions, get_run, run_id):
    with sessions() as session:
        run = session.merge(get_run(run_id), load=False)
        return list(run.timeline)


def test_attempt_records_its_first_and_last_step(frequent_settings, make_run, sessions, get_run, killed_after):
    run_id = make_run(**CONFIG)
    for step in (2, 5):
        with killed_after(step):
            attempt(sessions, run_id, frequent_settings)
    attempt(sessions, run_id, frequent_settings)
    rows = [(row.number, row.outcome, row.first_step, row.last_step) for row in timeline(sessions, get_run, run_id)]
    assert rows == [(1, "worker_lost", 0, 2), (2, "worker_lost", 2, 5), (3, "finished", 5, 10)]
    assert all(row.seconds > 0 for row in timeline(sessions, get_run, run_id))


def test_attempt_counts_unlogged_steps_of_its_checkpoint(
    frequent_settings, make_run, sessions, get_run, killed_after, monkeypatch
):
    monkeypatch.setattr("workers.training.metrics.LOGGED_STEPS_PER_RUN", 2)
    run_id = make_run(**CONFIG | {"probe_every": 10})
    for step in (2, 7):
        with killed_after(step):
            attempt(sessions, run_id, frequent_settings)
    attempt(sessions, run_id, frequent_settings)
    assert [(row.first_step, row.last_step) for row in timeline(sessions, get_run, run_id)] == [(0, 2), (2, 7), (7, 10)]


def test_log_covers_all_attempts(settings, make_run, get_run, sessions, monkeypatch):
    run_id = make_run(**CONFIG)
    with monkeypatch.context() as patch:
        stop_after(patch, sessions, run_id, 3, RunStatus.CANCELLED)
        attempt(sessions, run_id, settings)
    assert not (settings.runs / run_id).exists()
    assert "=== Attempt 1 on test/cpu" in get_run(run_id).log
    queue_again(sessions, run_id)
    attempt(sessions, run_id, settings)
    log = get_run(run_id).log
    first, second = log.index("=== Attempt 1 on"), log.index("=== Attempt 2 on")
    assert first < log.index("step 3 of 10") < second < log.index("step 10 of 10")
    assert "training starts" in log[second:]


def test_duration_does_not_depend_on_wall_clock(
    frequent_settings, settings, make_run, get_run, sessions, killed_after, monkeypatch
):
    run_id = make_run(**CONFIG)
    with killed_after(5):
        attempt(sessions, run_id, frequent_settings)
    before = get_run(run_id).seconds
    for module in ("job", "finish"):
        monkeypatch.setattr(f"workers.training.{module}.utcnow", lambda: utcnow() - timedelta(days=2))
    attempt(sessions, run_id, settings)
    run = get_run(run_id)
    assert run.finished_at < run.started_at
    assert before < run.seconds < 600
    assert run.seconds == pytest.approx(sum(row.seconds for row in timeline(sessions, get_run, run_id)))


def test_lost_work_does_not_count_as_duration(settings, make_run, get_run, sessions, killed_after):
    run_id = make_run(**CONFIG)
    with killed_after(5):
        attempt(sessions, run_id, settings)  # no checkpoint
    attempt(sessions, run_id, settings)
    _, last = timeline(sessions, get_run, run_id)
    assert get_run(run_id).seconds == pytest.approx(last.seconds)


def test_failed_attempt_records_its_error(settings, make_run, get_run, sessions, monkeypatch):
    def fail(*_, **__):
        raise ArithmeticError("two")

    monkeypatch.setattr("workers.training.training.make_penalties", fail)
    run_id = make_run(**CONFIG)
    attempt(sessions, run_id, settings)
    (only,) = timeline(sessions, get_run, run_id)
    assert (only.outcome, only.detail, only.first_step) == ("failed", "ArithmeticError: two", None)
    assert get_run(run_id).status is RunStatus.FAILED


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), TORCH])
def test_full_disk_does_not_fail_the_run(frequent_settings, make_run, get_run, sessions, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("workers.training.folder.flush_and_hash", fail)
    run_id = make_run(**CONFIG)
    with pytest.raises(type(error)):
        attempt(sessions, run_id, frequent_settings)
    assert get_run(run_id).status is RunStatus.RUNNING
    assert not list((frequent_settings.runs / run_id).glob("checkpoint-*"))
