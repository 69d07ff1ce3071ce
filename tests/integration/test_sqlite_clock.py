"""The job engine on an SQLite older than 3.42, with the columns that it makes on Python 3.12 and newer."""

import sqlite3
import time
from types import SimpleNamespace

import pytest
from dbos import _migration, _sys_db
from sqlalchemy import create_engine, text

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.session import unixepoch
from app.queue import JobQueue, migrate

OLD, NEW = "(strftime('%s','now') * 1000)", "(unixepoch('subsec') * 1000)"


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A queue's database, made as the engine makes it on Python 3.12 and newer."""
    newer = [step.replace(OLD, NEW) for step in _migration.sqlite_migrations]
    assert any(NEW in step for step in newer)
    monkeypatch.setattr("dbos._sys_db_sqlite.sqlite_migrations", newer)
    monkeypatch.setattr(_sys_db, "sys", SimpleNamespace(version_info=(3, 12)))
    url = f"sqlite:///{tmp_path}/queue.sqlite"
    migrate(url)
    return url


def test_jobs_are_stored_with_the_time_of_the_engine_s_newer_columns(url):
    queue = JobQueue(url)
    before = time.time()
    queue.try_insert()
    queue.enqueue(Job(job_kinds.MEASURE, "a"))
    queue.restart(Job(job_kinds.FINETUNE, "b"))
    assert queue.active() == {"measure-a", "finetune-b"}
    queue.close()
    with create_engine(url).connect() as connection:
        times = connection.execute(text("select created_at, updated_at from workflow_status")).all()
    assert all(int(before * 1000) <= at <= time.time() * 1000 for row in times for at in row)


def test_the_clock_is_that_of_a_newer_sqlite():
    assert unixepoch("subsec") == unixepoch("subsecond") == pytest.approx(time.time(), abs=1)
    if sqlite3.sqlite_version_info >= (3, 42):
        (theirs,) = sqlite3.connect(":memory:").execute("select unixepoch('subsec')").fetchone()
        assert unixepoch("subsec") == pytest.approx(theirs, abs=1)
    with pytest.raises(ValueError, match="Expected 'subsec' or 'subsecond', got 'utc'"):
        unixepoch("utc")
