import shutil
import socket
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from app.core.settings import Settings
from app.db import migration
from app.operations.doctor import CHECKS, OK, PROBLEM, run_checks
from app.operations.migrate import migrate
from isoscope.core.errors import ConflictError


def check(monkeypatch, name, settings):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("ISOSCOPE_DATABASE_URL", settings.database_url)
    monkeypatch.setenv("ISOSCOPE_QUEUE_URL", settings.queue_url)
    [(_, level, sentence, *advice)] = run_checks({name: CHECKS[name]})
    return level, " ".join([sentence, *advice])


def test_migrated_databases_are_fine_and_unchanged(context, monkeypatch):
    level, sentence = check(monkeypatch, "metrics database", context.settings)
    assert (level, sentence.endswith(", the newest.")) == (OK, True)
    level, sentence = check(monkeypatch, "queue database", context.settings)
    assert (level, sentence.endswith("it knows 0 waiting or running jobs.")) == (OK, True)
    assert context.queue.list_active() == set()
    with context.sessions() as session:
        assert session.scalar(text("select count(*) from datasets")) == 0


@pytest.mark.both_databases
def test_old_or_newer_revision_is_problem(context, tmp_path, monkeypatch):
    shutil.copytree(migration.SCRIPTS, tmp_path / "alembic")
    monkeypatch.setattr(migration, "SCRIPTS", tmp_path / "alembic")
    head = migration.known_revisions()[0]
    (tmp_path / "alembic" / "versions" / "next.py").write_text(f"revision, down_revision = 'next', '{head}'")
    level, sentence = check(monkeypatch, "metrics database", context.settings)
    assert level == PROBLEM
    assert sentence.endswith(f"is at schema revision {head}, and this version needs next. Run: isoscope migrate")
    with context.sessions.begin() as session:
        session.execute(text("update alembic_version set version_num = 'from-the-future'"))
    level, sentence = check(monkeypatch, "metrics database", context.settings)
    assert level == PROBLEM
    assert "is at schema revision from-the-future, which this version does not know; its newest is " in sentence
    assert sentence.endswith("Install the version of Isoscope that made it, or a newer one.")


def test_databases_without_tables_are_problems(monkeypatch, tmp_path):
    file, settings, advice = tmp_path / "isoscope.sqlite", Settings(data_dir=tmp_path), "Run: isoscope migrate"
    for path in (file, tmp_path / "queue.sqlite"):
        path.touch()
    sentence = f"sqlite:///{file} has no tables yet. {advice}"
    assert check(monkeypatch, "metrics database", settings) == (PROBLEM, sentence)
    sentence = f"sqlite:///{tmp_path}/queue.sqlite answers but lacks tables of the job engine. {advice}"
    assert check(monkeypatch, "queue database", settings) == (PROBLEM, sentence)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table alembic_version (x)")
    level, sentence = check(monkeypatch, "metrics database", settings)
    assert level == PROBLEM
    assert sentence.startswith("The tables cannot be read: no such column")
    assert sentence.endswith("Make sure that they are Isoscope's, and that its user may read and write them.")
    file.write_text("no database at all, but a text that is long enough to be read" * 20)
    level, sentence = check(monkeypatch, "metrics database", settings)
    assert level == PROBLEM
    assert "isoscope.sqlite cannot be opened: file is not a database." in sentence


def test_absent_or_silent_server_is_problem(monkeypatch, tmp_path):
    url = "postgresql+psycopg://isoscope:secret@127.0.0.1:1/isoscope"
    for name in ("metrics database", "queue database"):
        level, sentence = check(monkeypatch, name, Settings(data_dir=tmp_path, database_url=url, queue_url=url))
        assert level == PROBLEM
        assert "://isoscope:***@127.0.0.1:1/isoscope cannot be opened: " in sentence
        assert "secret" not in sentence
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://isoscope@127.0.0.1:{silent.getsockname()[1]}/isoscope"
        level, sentence = check(monkeypatch, "metrics database", Settings(data_dir=tmp_path, database_url=url))
    assert (level, "timeout expired" in sentence) == (PROBLEM, True)


@pytest.mark.parametrize(
    ("name", "file", "table"),
    [("metrics database", "isoscope", "datasets"), ("queue database", "queue", "workflow_status")],
)
def test_read_only_database_is_problem(context, monkeypatch, name, file, table):
    with closing(sqlite3.connect(context.settings.root / f"{file}.sqlite")) as connection:
        connection.execute(f"create trigger full before insert on {table} begin select raise(abort, 'no room'); end")
        connection.commit()
    level, sentence = check(monkeypatch, name, context.settings)
    assert level == PROBLEM
    assert f"{file}.sqlite can be read but not written: no room." in sentence
    assert "Check that its user may write to it and that its disk has free space" in sentence
    with pytest.raises(ConflictError, match=f"{file}.sqlite can be read but not written: no room"):
        migrate(context.settings)
