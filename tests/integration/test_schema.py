import os
import subprocess
import sys

import pytest
from sqlalchemy import text

from app.db.migration import known_revisions, upgrade
from app.db.models import Base
from isoscope.cli import main
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


PROCESSES = {"web": ("app",), "worker": ("workers", "--device", "cpu")}


REVISIONS = {
    "behind": f"is at schema revision {FORMER}, and this version needs {NEWEST}. Run: isoscope migrate\n",
    "ahead": (
        f"is at schema revision 9999, which this version does not know; its newest is {NEWEST}. "
        "Install the version of Isoscope that made it, or a newer one."
    ),
}


# `require_schema` finds both problems for both processes.
@pytest.mark.parametrize(("revision", "name"), [("behind", "web"), ("ahead", "worker")])
def test_process_refuses_database_of_another_revision(context, request, revision, name):
    request.getfixturevalue(revision)
    process = start(context.settings, *PROCESSES[name])
    assert process.returncode == 1
    assert REVISIONS[revision] in process.stderr
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
