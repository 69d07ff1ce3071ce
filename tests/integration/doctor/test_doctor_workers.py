from datetime import timedelta

import pytest

from app.core.settings import Settings
from app.db.models import EmbeddingStatus, Worker
from app.db.types import utcnow
from app.db.work import slot_name
from app.operations.doctor import OK, PROBLEM, WARNING, check_heartbeats, check_workers, run_checks
from tests.factories import add_embedding


def add_heartbeat(context, minutes: int, slot: str | None = None, device: str = "cpu") -> str:
    moment = utcnow() - timedelta(minutes=minutes)
    slot = slot or slot_name(context.settings, device)
    with context.sessions.begin() as session:
        session.add(Worker(slot=slot, device=device, pid=1, started_at=moment, heartbeat_at=moment))
    return slot


@pytest.fixture
def waiting(context):
    add_embedding(context, "waits", contents=[b"x"], status=EmbeddingStatus.INSPECTING)


@pytest.mark.both_databases
def test_living_worker_is_fine_and_lost_worker_is_warning(context):
    [(level, sentence, _)] = check_workers(context.settings)
    assert (level, sentence) == (WARNING, "Waiting or running: 0 jobs, and no worker is alive.")
    lost = add_heartbeat(context, 5, "elsewhere/cuda:0")
    assert [level for level, *_ in check_heartbeats(context.settings)] == [PROBLEM]
    slot = add_heartbeat(context, 0)
    alive = (OK, f"{slot} gave its last sign of life just now.")
    assert list(check_heartbeats(context.settings)) == [alive]
    results = list(check_workers(context.settings))
    [(_, sentence, advice)] = [result for result in results if result[0] == WARNING]
    assert sentence == f"{lost} gave its last sign of life 5 minutes ago: lost."
    assert advice == "It has ended or hangs: start it again. Its jobs continue from their checkpoints."
    assert [result for result in results if result[0] == OK] == [alive, (OK, "Waiting or running: 0 jobs.")]


def test_waiting_jobs_need_worker(context, waiting):
    [(level, sentence, advice)] = check_workers(context.settings)
    assert (level, sentence) == (PROBLEM, "Waiting or running: 1 job, and no worker is alive.")
    assert advice.startswith("Start one: python -m workers")
    add_heartbeat(context, 0)
    assert list(check_workers(context.settings))[-1] == (OK, "Waiting or running: 1 job.")


def test_container_is_healthy_while_any_device_beats(context):
    lost = add_heartbeat(context, 2, device="cuda:0")
    [(level, sentence, _)] = check_heartbeats(context.settings)
    assert (level, sentence) == (PROBLEM, f"{lost} gave its last sign of life 2 minutes ago: lost.")
    living = add_heartbeat(context, 0)
    levels = {sentence.partition(" ")[0]: level for level, sentence, *_ in check_heartbeats(context.settings)}
    assert levels == {lost: WARNING, living: OK}


def test_unusable_database_is_reported_by_container_check_only(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(tmp_path))
    assert list(check_workers(Settings(data_dir=tmp_path))) == []
    checks = {"worker": check_heartbeats}
    url = f"sqlite:///{tmp_path}/isoscope.sqlite"
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} does not exist. Run: isoscope migrate")]
    (tmp_path / "isoscope.sqlite").touch()
    assert list(check_workers(Settings(data_dir=tmp_path))) == []
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} has no tables yet. Run: isoscope migrate")]
