import shutil
import socket
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from app.core.settings import Settings
from app.db import migration
from app.operations.checks import Level
from app.operations.checks.databases import metrics_database, queue_database
from app.operations.migrate import migrate
from isoscope.core.errors import ConflictError


def metrics(tmp_path, url: str):
    return list(metrics_database(Settings(data_dir=tmp_path, database_url=url)))


@pytest.mark.both_databases
def test_migrated_databases_are_fine(context):
    [rows] = metrics_database(context.settings)
    [jobs] = queue_database(context.settings)
    assert (rows.level, rows.check) == (Level.OK, "metrics database")
    assert rows.found.endswith(", the newest.")
    assert (jobs.level, jobs.found.endswith("it knows 0 waiting or running jobs.")) == (Level.OK, True)


@pytest.mark.both_databases
def test_an_old_revision_is_a_problem_that_migrate_mends(context, tmp_path, monkeypatch):
    shutil.copytree(migration.SCRIPTS, tmp_path / "alembic")
    monkeypatch.setattr(migration, "SCRIPTS", tmp_path / "alembic")
    head = migration.known_revisions()[0]
    (tmp_path / "alembic" / "versions" / "next.py").write_text(f"revision, down_revision = 'next', '{head}'")
    [finding] = metrics_database(context.settings)
    assert finding.level is Level.PROBLEM
    assert finding.found.endswith(f"is at schema revision {head}, and this version needs next.")
    assert finding.advice == "Run: isoscope migrate"


@pytest.mark.both_databases
def test_a_revision_of_a_newer_isoscope_is_a_problem(context):
    with context.sessions.begin() as session:
        session.execute(text("update alembic_version set version_num = 'from-the-future'"))
    [finding] = metrics_database(context.settings)
    assert finding.level is Level.PROBLEM
    assert "is at schema revision from-the-future, which this version does not know; its newest is " in finding.found
    assert finding.advice == "Install the version of Isoscope that made it, or a newer one."


def test_databases_without_tables_are_problems_that_migrate_mends(tmp_path):
    for name in ("isoscope", "queue"):
        (tmp_path / f"{name}.sqlite").touch()
    settings = Settings(data_dir=tmp_path)
    [rows] = metrics_database(settings)
    [jobs] = queue_database(settings)
    assert rows.found == f"sqlite:///{tmp_path}/isoscope.sqlite has no tables yet."
    assert jobs.found == f"sqlite:///{tmp_path}/queue.sqlite answers, and lacks tables of the job engine."
    assert [(one.level, one.advice) for one in (rows, jobs)] == [(Level.PROBLEM, "Run: isoscope migrate")] * 2


def test_tables_that_cannot_be_read_are_a_problem(tmp_path):
    with closing(sqlite3.connect(tmp_path / "isoscope.sqlite")) as connection:
        connection.execute("create table alembic_version (x)")
    [finding] = metrics(tmp_path, "")
    assert finding.level is Level.PROBLEM
    assert finding.found.startswith(
        f"The tables of sqlite:///{tmp_path}/isoscope.sqlite cannot be read: no such column"
    )
    assert finding.advice == "See that they are Isoscope's, and that its user may read and write them."


def test_a_file_that_is_no_database_is_a_problem(tmp_path):
    (tmp_path / "isoscope.sqlite").write_text("no database at all, but a text that is long enough to be read" * 20)
    [finding] = metrics(tmp_path, "")
    assert finding.level is Level.PROBLEM
    assert "cannot be used: file is not a database." in finding.found


def test_a_server_that_is_not_there_is_a_problem_said_at_once(tmp_path):
    url = "postgresql+psycopg://isoscope:secret@127.0.0.1:1/isoscope"
    for check in (metrics_database, queue_database):
        [finding] = check(Settings(data_dir=tmp_path, database_url=url, queue_url=url))
        assert finding.level is Level.PROBLEM
        assert "://isoscope:***@127.0.0.1:1/isoscope cannot be used: " in finding.found
        assert "secret" not in str(finding)
        assert finding.advice.startswith("See that it runs and that ISOSCOPE_")


def test_a_server_that_never_answers_is_given_up(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        [finding] = metrics(tmp_path, f"postgresql://isoscope@127.0.0.1:{silent.getsockname()[1]}/isoscope")
    assert finding.level is Level.PROBLEM
    assert "timeout expired" in finding.found


@pytest.mark.parametrize(
    ("check", "file", "table"),
    [(metrics_database, "isoscope", "datasets"), (queue_database, "queue", "workflow_status")],
)
def test_a_database_that_takes_no_row_is_a_problem_and_migrate_says_so(context, check, file, table):
    [fine] = check(context.settings)
    assert fine.level is Level.OK
    with closing(sqlite3.connect(context.settings.root / f"{file}.sqlite")) as connection:
        connection.execute(f"create trigger full before insert on {table} begin select raise(abort, 'no room'); end")
        connection.commit()
    [finding] = check(context.settings)
    assert finding.level is Level.PROBLEM
    assert finding.found.endswith(f"{file}.sqlite can be read but not written: no room.")
    assert finding.advice == "Check that its user may write to it and that its disk has free space."
    with pytest.raises(ConflictError, match=f"{file}.sqlite can be read but not written: no room"):
        migrate(context.settings)


@pytest.mark.both_databases
def test_what_was_tried_is_not_kept(context):
    list(metrics_database(context.settings))
    list(queue_database(context.settings))
    assert context.queue.active() == set()
    with context.sessions() as session:
        assert session.scalar(text("select count(*) from datasets")) == 0
