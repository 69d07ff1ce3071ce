from datetime import timedelta

import pytest

from app.core.settings import Settings
from app.db.models import Embedding, EmbeddingFile, StoredFile, Worker
from app.db.types import utcnow
from app.db.work import slot_name
from app.operations.doctor import OK, PROBLEM, WARNING, check_own_worker, check_workers, run_checks


@pytest.fixture
def beat(context):
    """Write a worker's row with a heartbeat that many minutes ago."""

    def write(minutes: int, slot: str | None = None, device: str = "cpu") -> str:
        moment = utcnow() - timedelta(minutes=minutes)
        slot = slot or slot_name(context.settings, device)
        with context.sessions.begin() as session:
            session.add(Worker(slot=slot, device=device, pid=1, started_at=moment, heartbeat_at=moment))
        return slot

    return write


@pytest.fixture
def waiting(context):
    """An upload that waits to be inspected."""
    with context.sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=1))
        session.flush()
        files = [EmbeddingFile(position=0, filename="waits.npy", file_sha256="0" * 64)]
        session.add(Embedding(name="waits", filename="waits.npy", files=files, format="npy"))


@pytest.mark.both_databases
def test_living_worker_is_fine(context, beat):
    slot = beat(0)
    assert list(check_workers(context.settings)) == [
        (OK, f"{slot} gave its last sign of life just now."),
        (OK, "Waiting or running: 0 jobs."),
    ]


def test_lost_worker_is_a_warning(context, beat):
    beat(0)
    slot = beat(5, "elsewhere/cuda:0")
    [(_, sentence, advice)] = [result for result in check_workers(context.settings) if result[0] == WARNING]
    assert sentence == f"{slot} gave its last sign of life 5 minutes ago: lost."
    assert advice == "It is gone, or hangs: start it again. Its jobs go on from their checkpoints."


def test_waiting_jobs_need_a_worker(context, waiting, beat):
    [(level, sentence, advice)] = check_workers(context.settings)
    assert (level, sentence) == (PROBLEM, "Waiting or running: 1 job, and no worker is alive.")
    assert advice.startswith("Start one: python -m workers")
    beat(0)
    assert list(check_workers(context.settings))[-1] == (OK, "Waiting or running: 1 job.")


def test_no_worker_and_no_job_is_a_warning(context):
    [(level, sentence, _)] = check_workers(context.settings)
    assert (level, sentence) == (WARNING, "Waiting or running: 0 jobs, and no worker is alive.")


def test_workers_are_silent_on_an_unusable_database(tmp_path):
    assert list(check_workers(Settings(data_dir=tmp_path))) == []
    (tmp_path / "isoscope.sqlite").touch()
    assert list(check_workers(Settings(data_dir=tmp_path))) == []


def test_container_is_well_while_its_own_worker_beats(context, beat):
    beat(5, "elsewhere/cuda:0")
    assert [level for level, *_ in check_own_worker(context.settings)] == [PROBLEM]
    slot = beat(0)
    assert list(check_own_worker(context.settings)) == [(OK, f"{slot} gave its last sign of life just now.")]


def test_container_whose_worker_no_longer_beats_is_not_well(context, beat):
    slot = beat(2)
    [(level, sentence, _)] = check_own_worker(context.settings)
    assert (level, sentence) == (PROBLEM, f"{slot} gave its last sign of life 2 minutes ago: lost.")


def test_container_is_well_though_an_earlier_device_no_longer_beats(context, beat):
    lost, living = beat(5, device="cuda:0"), beat(0)
    levels = {sentence.partition(" ")[0]: level for level, sentence, *_ in check_own_worker(context.settings)}
    assert levels == {lost: WARNING, living: OK}


def test_container_without_its_database_is_not_well(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(tmp_path))
    checks = {"worker": check_own_worker}
    url = f"sqlite:///{tmp_path}/isoscope.sqlite"
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} does not exist. Run: isoscope migrate")]
    (tmp_path / "isoscope.sqlite").touch()
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} has no tables yet. Run: isoscope migrate")]
