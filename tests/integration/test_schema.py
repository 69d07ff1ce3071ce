import os
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from dbos import _migration, _sys_db
from sqlalchemy import create_engine, inspect, text

from app.core.settings import Settings
from app.db import job_kinds
from app.db.failures import check_after_crash, require_intact
from app.db.job_kinds import Job
from app.db.migration import known_revisions, upgrade
from app.db.models import Base
from app.db.session import create_database_engine, unixepoch
from app.queue import JobQueue, migrate
from isoscope.cli import main
from isoscope.core.errors import ConflictError
from tests.ports import free_port

NEWEST, FORMER = known_revisions()[:2]


def start(settings, *words):
    variables = os.environ | {
        "ISOSCOPE_DATA_DIR": str(settings.data_dir), "ISOSCOPE_DATABASE_URL": settings.database_url,
        "ISOSCOPE_PORT": str(free_port()),
    }  # fmt: skip
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)


def set_revision(context, revision):
    with context.sessions.kw["bind"].begin() as connection:
        connection.execute(text("update alembic_version set version_num = :revision"), {"revision": revision})


@pytest.fixture
def behind(context):
    engine = context.sessions.kw["bind"]
    Base.metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(text("drop table alembic_version"))
    upgrade(engine, FORMER)


@pytest.fixture
def ahead(context):
    set_revision(context, "9999")


# `require_schema` finds both problems for both processes.
@pytest.mark.parametrize(("revision", "name"), [("behind", "web"), ("ahead", "worker")])
def test_process_refuses_database_of_another_revision(context, request, revision, name):
    processes = {"web": ("app",), "worker": ("workers", "--device", "cpu")}

    revisions = {
        "behind": f"is at schema revision {FORMER}, and this version needs {NEWEST}. Run: isoscope migrate\n",
        "ahead": (
            f"is at schema revision 9999, which this version does not know; its newest is {NEWEST}. "
            "Install the version of Isoscope that made it, or a newer one."
        ),
    }
    request.getfixturevalue(revision)
    process = start(context.settings, *processes[name])
    assert process.returncode == 1
    assert revisions[revision] in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.both_databases
def test_request_on_outdated_schema_names_the_remedy(client, context, caplog):
    assert client.get("/api/experiments").status_code == 200
    set_revision(context, FORMER)
    with context.sessions.kw["bind"].begin() as connection:
        connection.execute(text("alter table experiments rename column grid to former_grid"))
    for headers in ({}, {"Accept": "text/html"}):
        answer = client.get("/experiments", headers=headers)
        assert answer.status_code == 503
        assert f"is at schema revision {FORMER}, and this version needs {NEWEST}. Run: isoscope migrate" in answer.text
        assert "database does not answer" not in answer.text
    assert f"is at schema revision {FORMER}" in caplog.text


class TestCopies:
    """SQLite files are copied before they are migrated."""

    def migrate(self, settings, monkeypatch):
        monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(settings.data_dir))
        monkeypatch.setattr(sys, "argv", ["isoscope", "migrate"])
        assert main() == 0

    def copies(self, settings):
        return sorted(path.name for path in settings.database_copies.glob("*"))

    def test_databases_are_copied_before_migration(self, context, behind, monkeypatch):
        self.migrate(context.settings, monkeypatch)
        names = self.copies(context.settings)
        expected = [f"{FORMER}-to-{NEWEST}-isoscope.sqlite", f"{FORMER}-to-{NEWEST}-queue.sqlite"]
        assert [name.split("Z-", 1)[1] for name in names] == expected
        self.migrate(context.settings, monkeypatch)
        assert self.copies(context.settings) == names, "there was nothing to migrate"

    def test_copies_of_last_three_migrations_are_kept(self, context, behind, monkeypatch):
        folder = context.settings.database_copies
        folder.mkdir()
        for day in range(1, 5):
            (folder / f"2026-01-0{day}T00-00-00Z-0001-to-0002-isoscope.sqlite").touch()
        self.migrate(context.settings, monkeypatch)
        assert [name[:10] for name in self.copies(context.settings)][:2] == ["2026-01-03", "2026-01-04"]
        assert len(self.copies(context.settings)) == 4


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
        process.join(600)
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
    broken_tag = text("INSERT INTO experiment_tags (experiment_id, tag) VALUES ('gone', 'lost')")
    upgrade(sqlite, "0029")
    with sqlite.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.execute(broken_tag)
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


@pytest.fixture
def url(tmp_path, monkeypatch):
    """A queue database as the engine creates it on Python 3.12 and newer."""
    old, new = "(strftime('%s','now') * 1000)", "(unixepoch('subsec') * 1000)"
    newer = [step.replace(old, new) for step in _migration.sqlite_migrations]
    assert any(new in step for step in newer)
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


def test_database_is_checked_after_crash_and_damage_rejected(tmp_path):
    file = tmp_path / "rows.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("create table rows (id integer primary key, words text)")
        connection.execute("create index by_words on rows (words)")
        connection.executemany("insert into rows (words) values (?)", [(f"{n} " * 50,) for n in range(2000)])
    connection.close()
    mark, url = tmp_path / "running", f"sqlite:///{file}"
    require_intact(url)
    require_intact(f"sqlite:///{file.parent}/not there")
    assert not (file.parent / "not there").exists()
    require_intact("postgresql+psycopg://nobody@localhost/nothing")
    with pytest.raises(KeyboardInterrupt), check_after_crash(mark, url):
        raise KeyboardInterrupt
    with check_after_crash(mark, url):
        content = bytearray(file.read_bytes())
        for start in range(8192, len(content), 4096):
            content[start : start + 64] = b"\xff" * 64
        file.write_bytes(content)
    assert not mark.exists(), "an orderly exit needs no check"
    with check_after_crash(mark, url), pytest.raises(ConflictError), check_after_crash(mark, url):
        pass
    with pytest.raises(ConflictError, match=r"rows\.sqlite is damaged: .*Restore it from a backup\."):
        require_intact(url)
