import sqlite3
import time
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from dbos import _migration, _sys_db
from sqlalchemy import create_engine, inspect, text

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.migration import upgrade
from app.db.models import Base
from app.db.session import create_database_engine, unixepoch
from app.queue import JobQueue, migrate

BROKEN_TAG = text("INSERT INTO experiment_tags (experiment_id, tag) VALUES ('gone', 'lost')")


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/test.sqlite"


@pytest.fixture(params=["sqlite_url", "empty_postgresql_url"], ids=["sqlite", "postgresql"])
def engine(request):
    engine = create_database_engine(Settings(database_url=request.getfixturevalue(request.param)).database)
    yield engine
    engine.dispose()


@pytest.mark.both_databases
def test_migrations_match_models_and_are_idempotent(engine):
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    upgrade(engine)
    assert set(Base.metadata.tables) < set(inspect(engine).get_table_names())


@pytest.mark.both_databases
def test_processes_upgrade_concurrently(engine, forked):
    url = engine.url.render_as_string(hide_password=False)
    processes = [forked.Process(target=upgrade_database, args=(url,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert set(Base.metadata.tables) < set(inspect(engine).get_table_names())


def upgrade_database(url):
    engine = create_database_engine(url)
    upgrade(engine)
    engine.dispose()


@pytest.fixture
def sqlite(sqlite_url):
    engine = create_database_engine(sqlite_url)
    yield engine
    engine.dispose()


def test_migration_with_broken_reference_is_rolled_back(sqlite):
    upgrade(sqlite, "0029")
    with sqlite.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.execute(BROKEN_TAG)
        connection.commit()
    with pytest.raises(RuntimeError, match="rows refer to rows that are gone"):
        upgrade(sqlite)
    with sqlite.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "0029"


def test_sqlite_pragmas_survive_migration(sqlite):
    with sqlite.connect() as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "busy_timeout", "foreign_keys")]  # fmt: skip
    assert pragmas == ["wal", 30_000, 1]
    upgrade(sqlite)
    with sqlite.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


OLD, NEW = "(strftime('%s','now') * 1000)", "(unixepoch('subsec') * 1000)"


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A queue database as the engine creates it on Python 3.12 and newer."""
    newer = [step.replace(OLD, NEW) for step in _migration.sqlite_migrations]
    assert any(NEW in step for step in newer)
    monkeypatch.setattr("dbos._sys_db_sqlite.sqlite_migrations", newer)
    monkeypatch.setattr(_sys_db, "sys", SimpleNamespace(version_info=(3, 12)))
    url = f"sqlite:///{tmp_path}/queue.sqlite"
    migrate(url)
    return url


def test_jobs_are_stored_in_columns_of_newer_engine(url):
    queue = JobQueue(url)
    before = time.time()
    queue.try_insert()
    queue.enqueue(Job(job_kinds.MEASURE, "a"))
    queue.restart(Job(job_kinds.FINETUNE, "b"))
    assert queue.list_active() == {"measure-a", "finetune-b"}
    queue.close()
    with create_engine(url).connect() as connection:
        times = connection.execute(text("select created_at, updated_at from workflow_status")).all()
    assert all(int(before * 1000) <= at <= time.time() * 1000 for row in times for at in row)


def test_unixepoch_matches_sqlite():
    assert unixepoch("subsec") == unixepoch("subsecond") == pytest.approx(time.time(), abs=1)
    if sqlite3.sqlite_version_info >= (3, 42):
        (sqlite_time,) = sqlite3.connect(":memory:").execute("select unixepoch('subsec')").fetchone()
        assert unixepoch("subsec") == pytest.approx(sqlite_time, abs=1)
    with pytest.raises(ValueError, match="Expected 'subsec' or 'subsecond', got 'utc'"):
        unixepoch("utc")
