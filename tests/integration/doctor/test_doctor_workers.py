from datetime import timedelta

import pytest

from app.core.settings import Settings
from app.db.models import Embedding, EmbeddingFile, StoredFile, Worker
from app.db.types import utcnow
from app.db.work import slot_name
from app.operations.checks import Level
from app.operations.checks.databases import own_worker, workers

pytestmark = pytest.mark.both_databases


@pytest.fixture
def beat(context):
    """A worker's row whose last beat was so many minutes ago."""

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


def test_a_living_worker_is_fine(context, beat):
    slot = beat(0)
    worker, jobs = workers(context.settings)
    assert (worker.level, worker.found) == (Level.OK, f"{slot} gave its last sign of life just now.")
    assert (jobs.level, jobs.found) == (Level.OK, "Waiting or running: 0 jobs.")


def test_a_lost_worker_is_a_warning(context, beat):
    beat(0)
    slot = beat(5, "elsewhere/cuda:0")
    lost = [finding for finding in workers(context.settings) if finding.level is Level.WARNING]
    assert [finding.found for finding in lost] == [f"{slot} gave its last sign of life 5 minutes ago: lost."]
    assert lost[0].advice == "It is gone, or hangs: start it again. Its jobs go on from their checkpoints."


def test_without_a_worker_waiting_jobs_are_a_problem(context, waiting):
    [finding] = workers(context.settings)
    assert (finding.level, finding.check) == (Level.PROBLEM, "jobs")
    assert finding.found == "Waiting or running: 1 job, and no worker is alive."
    assert finding.advice.startswith("Start one: python -m workers")


def test_with_a_worker_waiting_jobs_are_fine(context, waiting, beat):
    beat(0)
    _, jobs = workers(context.settings)
    assert (jobs.level, jobs.found) == (Level.OK, "Waiting or running: 1 job.")


def test_no_worker_and_no_job_is_a_warning(context):
    [finding] = workers(context.settings)
    assert (finding.level, finding.found) == (Level.WARNING, "No worker is alive; no job waits.")


def test_of_an_unusable_database_the_workers_say_nothing_more(tmp_path):
    assert list(workers(Settings(data_dir=tmp_path))) == []
    (tmp_path / "isoscope.sqlite").touch()
    assert list(workers(Settings(data_dir=tmp_path))) == []


def test_a_container_is_well_while_its_own_worker_beats(context, beat):
    beat(5, "elsewhere/cuda:0")
    assert [finding.level for finding in own_worker(context.settings)] == [Level.PROBLEM]
    slot = beat(0)
    [finding] = own_worker(context.settings)
    assert (finding.level, finding.found) == (Level.OK, f"{slot} gave its last sign of life just now.")


def test_a_container_whose_worker_no_longer_beats_is_not_well(context, beat):
    slot = beat(2)
    [finding] = own_worker(context.settings)
    assert finding.level is Level.PROBLEM
    assert finding.found == f"{slot} gave its last sign of life 2 minutes ago: lost."


def test_a_container_is_well_though_a_device_it_had_before_no_longer_beats(context, beat):
    lost, living = beat(5, device="cuda:0"), beat(0)
    found = {finding.found.partition(" ")[0]: finding.level for finding in own_worker(context.settings)}
    assert found == {lost: Level.WARNING, living: Level.OK}


def test_without_its_tables_a_container_is_not_well_and_told_to_migrate(tmp_path):
    (tmp_path / "isoscope.sqlite").touch()
    [finding] = own_worker(Settings(data_dir=tmp_path))
    assert (finding.level, finding.advice) == (Level.PROBLEM, "Run: isoscope migrate")
    assert finding.found == "The metrics database answers, and lacks tables of this version."


def test_without_its_database_a_container_is_not_well(tmp_path):
    [finding] = own_worker(Settings(data_dir=tmp_path))
    assert finding.level is Level.PROBLEM
    assert finding.found == f"sqlite:///{tmp_path}/isoscope.sqlite does not exist."
