import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect

from app.db.session import create_database_engine
from tests.commands import isoscope
from tests.ports import free_port

PASSWORD = "hunter2hunter2hunter2"
NEWEST = max(path.name[:4] for path in (Path(__file__).parents[3] / "alembic/versions").glob("0*.py"))


def run_module(tmp_path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ISOSCOPE_DATA_DIR": str(tmp_path / "data")} | environment
    command = [sys.executable, "-m", "isoscope", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def tables(path) -> set[str]:
    engine = create_database_engine(f"sqlite:///{path}")
    names = set(inspect(engine).get_table_names())
    engine.dispose()
    return names


@pytest.mark.long
def test_doctor_finds_no_problem_after_migrate(tmp_path):
    ended = isoscope(tmp_path, "doctor")
    assert ended.returncode == 1
    data = tmp_path / "data"
    assert ended.stdout.count("\nproblem ") == 4
    assert f"problem  folders: {data} does not exist. Make it with: isoscope migrate\n" in ended.stdout
    for name in ("isoscope.sqlite", "queue.sqlite"):
        assert f"sqlite:///{data / name} does not exist. Run: isoscope migrate\n" in ended.stdout
    assert not data.exists()
    for run in (run_module, isoscope):
        ended = run(tmp_path, "migrate")
        assert (ended.returncode, ended.stdout) == (0, "both databases are up to date\n")
    assert {"alembic_version", "runs", "workers"} <= tables(data / "isoscope.sqlite")
    assert {"dbos_migrations", "workflow_status"} <= tables(data / "queue.sqlite")
    ended = run_module(tmp_path, "doctor", "--json", ISOSCOPE_PORT=str(free_port()))
    report = json.loads(ended.stdout)
    assert (ended.returncode, report["problems"]) == (0, 0)
    checks = [finding["check"] for finding in report["findings"]]
    assert list(dict.fromkeys(checks)) == [
        "settings", "folders", "metrics database", "queue database", "storage", "workers", "devices", "access",
        "sandbox",
    ]  # fmt: skip
    assert {finding["level"] for finding in report["findings"]} <= {"ok", "warning"}
    assert list((data / "files").iterdir()) == []
    ended = isoscope(tmp_path, "doctor", "--worker")  # the health check of a container, limited to its own worker
    assert ended.returncode == 1
    assert ended.stdout.startswith("problem  worker: No worker on ")
    assert ended.stdout.count("\n") == 1


@pytest.mark.long
def test_failed_migrate_explains_and_hides_secrets(tmp_path):
    ended = isoscope(tmp_path, "migrate", ISOSCOPE_DATABASE_URL="sqlite:////nowhere/at/all.sqlite")
    assert ended.returncode == 1
    assert ended.stderr == (
        "The database sqlite:////nowhere/at/all.sqlite cannot be opened: unable to open database file. "
        "Start it, or correct ISOSCOPE_DATABASE_URL.\n"
    )
    url = f"postgresql+psycopg://isoscope:{PASSWORD}@127.0.0.1:1/isoscope?password={PASSWORD}"
    secrets = {"ISOSCOPE_DATABASE_URL": url, "ISOSCOPE_QUEUE_URL": url, "ISOSCOPE_ACCESS_TOKEN": PASSWORD}
    for words in (["doctor"], ["doctor", "--json"], ["doctor", "--worker"], ["migrate"]):
        ended = isoscope(tmp_path, *words, **secrets)
        assert ended.returncode == 1
        assert PASSWORD not in ended.stdout + ended.stderr
        assert "isoscope:***@127.0.0.1:1/isoscope" in ended.stdout or words == ["migrate"]


@pytest.mark.parametrize("command", ["migrate", "serve"])
@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (None, "isoscope.sqlite cannot be opened: file is not a database. Start it, or correct ISOSCOPE_DATABASE_URL."),
        ("create table files (x)",
         "The databases cannot be used: table files already exists. To find out why: isoscope doctor"),
        ("create table alembic_version as select 'from-the-future' as version_num",
         f"which this version does not know; its newest is {NEWEST}. "
         "Install the version of Isoscope that made it, or a newer one."),
    ],
)  # fmt: skip
def test_foreign_database_is_explained(tmp_path, command, statement, sentence):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "isoscope.sqlite"
    if statement is None:
        path.write_text("no database at all, but a text that is long enough to be read" * 20)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()
    ended = isoscope(tmp_path, command, ISOSCOPE_PORT=str(free_port()))
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"{sentence}\n")
    assert "Traceback" not in ended.stderr


def test_invalid_setting_is_problem_and_value_is_hidden(tmp_path):
    ended = isoscope(tmp_path, "doctor", "--json", ISOSCOPE_ACCESS_TOKEN="tooshort")
    assert ended.returncode == 1
    assert "ISOSCOPE_ACCESS_TOKEN is shorter than 16 characters" in json.loads(ended.stdout)["findings"][0]["found"]
    assert "tooshort" not in ended.stdout + ended.stderr
    ended = isoscope(tmp_path, "doctor", ISOSCOPE_ALLOWED_HOSTS="lab.example.org")
    assert ended.returncode == 1
    sentence = "problem  settings: Expected JSON where a setting is a list: error parsing value for"
    assert ended.stdout.startswith(sentence)
    assert "allowed_hosts" in ended.stdout
    ended = isoscope(tmp_path, "doctor", ISOSCOPE_DATADIR="/elsewhere")
    assert "warning  settings: ISOSCOPE_DATADIR is set, but it is not a setting." in ended.stdout
