import io
import os
import time
from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError

from app.db.models import StoredFile
from app.db.types import utcnow
from app.db.work import FileLocks
from app.storage import open_storage
from app.storage.ledger import Ledger
from tests.waiting import wait_for
from workers.reconciler import Janitor

DAY = 24 * 60 * 60


@pytest.fixture
def ledger(settings, sessions):
    return Ledger(sessions, open_storage(settings))


def store_file(ledger, content, seconds_ago):
    sha256 = ledger.store(io.BytesIO(content), 100).sha256
    os.utime(ledger.storage.local_path(sha256), (time.time() - seconds_ago,) * 2)
    return sha256


@pytest.fixture
def referenced(sessions, ledger):
    sha256 = store_file(ledger, b"named", 3 * DAY)
    with sessions.begin() as session:
        session.add(StoredFile(sha256=sha256, size_bytes=5, created_at=utcnow() - timedelta(days=3)))
    return sha256


def test_unreferenced_files_are_deleted_after_a_day(ledger, referenced):
    old, fresh = store_file(ledger, b"old", 2 * DAY), store_file(ledger, b"fresh", DAY - 60)
    assert ledger.sweep() == 1
    assert {key: ledger.storage.exists(key) for key in (old, fresh, referenced)} == {
        old: False,
        fresh: True,
        referenced: True,
    }


def test_files_older_than_every_row_are_kept(ledger, sessions):
    old = store_file(ledger, b"old", 2 * DAY)
    assert ledger.sweep() == 0
    with sessions.begin() as session:
        session.add(StoredFile(sha256="0" * 64, size_bytes=5, created_at=utcnow() - timedelta(days=1)))
    assert ledger.sweep() == 0
    assert ledger.storage.exists(old)


@pytest.fixture
def queue():
    class UnreachableQueue:
        def delete_ended(self, days):
            raise OperationalError("delete", {}, ConnectionError("away"))

    return UnreachableQueue()


def test_worker_sweeps_when_it_starts(settings, ledger, queue, referenced, tmp_path):
    old = store_file(ledger, b"old", 2 * DAY)
    with Janitor(settings, ledger, queue, FileLocks(tmp_path)):
        wait_for(lambda: not ledger.storage.exists(old))
    assert ledger.storage.exists(referenced)


@pytest.mark.both_databases
def test_only_one_worker_sweeps(settings, ledger, queue, referenced, tmp_path):
    locks = FileLocks(tmp_path)
    old = store_file(ledger, b"old", 2 * DAY)
    with locks.held("janitor"), Janitor(settings, ledger, queue, locks):
        time.sleep(0.5)
    assert ledger.storage.exists(old)


def test_every_worker_removes_folders_of_runs_that_ended_elsewhere(settings, ledger, queue, tmp_path):
    folder = settings.runs / "moved"
    (folder / "checkpoint-4").mkdir(parents=True)
    locks = FileLocks(tmp_path)
    with locks.held("janitor"), Janitor(settings, ledger, queue, locks):
        wait_for(lambda: not folder.exists())
