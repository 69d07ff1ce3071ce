import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from app.core import devices, process
from app.core.settings import Settings
from app.db import migration
from app.db.models import EmbeddingStatus, Worker
from app.db.session import create_database_engine
from app.db.types import utcnow
from app.db.work import slot_name
from app.operations import doctor
from app.operations.doctor import (
    CHECKS,
    OK,
    PROBLEM,
    WARNING,
    check_access,
    check_devices,
    check_folders,
    check_heartbeats,
    check_sandbox,
    check_storage,
    check_workers,
    run_checks,
)
from app.operations.migrate import migrate
from isoscope.core.errors import ConflictError
from tests.commands import isoscope
from tests.factories import add_embedding
from tests.ports import free_port

PASSWORD = "hunter2hunter2hunter2"
NEWEST = max(path.name[:4] for path in (Path(__file__).parents[2] / "alembic/versions").glob("0*.py"))


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


@pytest.mark.parametrize(
    ("command", "statement", "sentence"),
    [
        ("serve", None, "file is not a database. Start it, or correct ISOSCOPE_DATABASE_URL."),
        ("serve", "create table files (x)",
         "The databases cannot be used: table files already exists. To find out why: isoscope doctor"),
        ("migrate", "create table alembic_version as select 'from-the-future' as version_num",
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


def test_free_folder_is_fine_and_storage_unchanged(settings):
    settings.create_folders()
    data, temporary = check_folders(settings.model_copy(update={"max_upload_bytes": 1}))
    assert (data[0], temporary[0]) == (OK, OK)
    assert data[1].startswith(f"{settings.root} is writable, ")
    assert [path.name for path in settings.root.iterdir() if path.is_file()] == []
    results = list(check_folders(settings.model_copy(update={"max_upload_bytes": 10**18})))
    assert [result[0] for result in results] == [WARNING, WARNING]
    assert "free, less than twice the largest upload of 1,000,000 TB." in results[0][1]
    assert list(check_storage(settings)) == [(OK, "A file was written, read back and removed.")]
    assert list(settings.files.iterdir()) == []
    settings.files.rmdir()
    [(level, sentence, advice)] = check_storage(settings)
    assert level == PROBLEM
    assert sentence.startswith("A file could not be kept and read back: ")
    assert advice.endswith("isoscope migrate makes missing folders.")


def test_read_only_or_file_data_folder_is_problem(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)
    read_only = folder if os.geteuid() else Path("/sys")  # root can write everywhere but here
    level, sentence, advice = next(check_folders(Settings(data_dir=read_only)))
    assert level == PROBLEM
    assert sentence.startswith(f"{read_only} cannot be written to: ")
    assert advice == "Give this user the folder, or name another one in ISOSCOPE_DATA_DIR."
    (tmp_path / "data").touch()
    level, sentence, _ = next(check_folders(Settings(data_dir=tmp_path / "data")))
    assert (level, sentence) == (PROBLEM, f"{tmp_path}/data cannot be written to: Not a directory.")


@pytest.mark.sandbox
def test_sandbox_warns_without_kernel_protection(settings, monkeypatch):
    monkeypatch.setattr(doctor, "missing_protections", list)
    assert list(check_sandbox(settings)) == [(OK, "Uploads are parsed without secrets, network and other files.")]
    monkeypatch.setattr(doctor, "missing_protections", lambda: ["Landlock", "seccomp"])
    [(level, sentence, _)] = check_sandbox(settings)
    assert level == WARNING
    assert sentence.endswith("this system has no Landlock and no seccomp to confine parsers.")


def test_absent_device_is_problem_and_missing_model_or_torch_is_not(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process, "BUNDLED_PACKAGE", "a_package_that_is_not_installed")
        devices, model = check_devices(Settings(data_dir=tmp_path, device="cpu"))
    assert devices[0] == OK
    assert "offers cpu" in devices[1]
    assert model[:2] == (WARNING, "The bundled all-MiniLM-L6-v2 is not installed.")
    [(level, sentence, advice)] = check_devices(Settings(data_dir=tmp_path, device="cuda:99"))
    assert level == PROBLEM
    assert sentence.startswith("ISOSCOPE_DEVICE is cuda:99, but torch offers cpu")
    assert advice.startswith("Choose one of these, or auto")
    monkeypatch.setitem(sys.modules, "torch", None)
    [(level, sentence)] = check_devices(Settings(data_dir=tmp_path))
    assert level == OK
    assert sentence.startswith("Torch is not installed: this installation serves pages")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('libcudart.so: cannot open shared object file')", "OSError: libcudart.so: cannot open shared"),
        ("import time; time.sleep(60)", "timed out after 0.5 seconds"),
    ],
)
def test_broken_torch_is_problem(tmp_path, monkeypatch, code, reason):
    (tmp_path / "torch.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if "sleep" in code:
        monkeypatch.setattr(devices, "TORCH_SECONDS", 0.5)
    [(level, sentence, _)] = check_devices(Settings(data_dir=tmp_path))
    assert level == PROBLEM
    assert sentence.startswith("Torch is installed and does not start: ")
    assert reason in sentence


def test_access_check_names_audience_and_used_port():
    token = "5c5b3e1f9a7d2048"
    for values, level, sentence in (
        ({}, OK, "is reached from this machine only, without an access token."),
        ({"access_token": token}, OK, "is reached from this machine only, with the access token."),
        ({"access_token": token, "host": "0.0.0.0"}, OK, "is reached from other machines, with the access token."),
        ({"access_token": "a" * 16, "host": "0.0.0.0"}, WARNING, "repeats the same few characters"),
        ({"allowed_hosts": ["https://lab.example.org"]}, WARNING, "which no request can match."),
        ({"allowed_hosts": ["lab.example.org:8000"]}, WARNING, "which no request can match."),
        ({"host": "192.0.2.1", "access_token": token}, PROBLEM, "This machine cannot listen at 192.0.2.1:"),
    ):
        results = list(check_access(Settings(port=free_port(), **values)))
        assert [result[0] for result in results if sentence in result[1]] == [level]
        assert token not in str(results)
    assert len(list(check_access(Settings(port=free_port(), allowed_hosts=["lab.example.org", "fe80::1"])))) == 1
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        number = listener.getsockname()[1]
        results = list(check_access(Settings(port=number)))
    assert results[-1] == (OK, f"Isoscope, or something else, listens at 127.0.0.1:{number}.")


def add_heartbeat(context, minutes: int, slot: str | None = None, device: str = "cpu") -> str:
    moment = utcnow() - timedelta(minutes=minutes)
    slot = slot or slot_name(context.settings, device)
    with context.sessions.begin() as session:
        session.add(Worker(slot=slot, device=device, pid=1, started_at=moment, heartbeat_at=moment))
    return slot


@pytest.mark.both_databases
def test_living_worker_is_fine_and_lost_worker_is_warning(context):
    [(level, sentence, _)] = check_workers(context.settings)
    assert (level, sentence) == (WARNING, "Waiting or running: 0 jobs, and no worker is alive.")
    lost = add_heartbeat(context, 5, "elsewhere/cuda:0")
    assert [level for level, *_ in check_heartbeats(context.settings)] == [PROBLEM]
    slot = add_heartbeat(context, 0)
    alive = (OK, f"{slot} gave its last sign of life just now.")
    assert list(check_heartbeats(context.settings)) == [alive]
    results = list(check_workers(context.settings))
    [(_, sentence, advice)] = [result for result in results if result[0] == WARNING]
    assert sentence == f"{lost} gave its last sign of life 5 minutes ago: lost."
    assert advice == "It has ended or hangs: start it again. Its jobs continue from their checkpoints."
    assert [result for result in results if result[0] == OK] == [alive, (OK, "Waiting or running: 0 jobs.")]


def test_waiting_jobs_need_worker(context):
    add_embedding(context, "waits", contents=[b"x"], status=EmbeddingStatus.INSPECTING)
    [(level, sentence, advice)] = check_workers(context.settings)
    assert (level, sentence) == (PROBLEM, "Waiting or running: 1 job, and no worker is alive.")
    assert advice.startswith("Start one: python -m workers")
    add_heartbeat(context, 0)
    assert list(check_workers(context.settings))[-1] == (OK, "Waiting or running: 1 job.")


def test_container_is_healthy_while_any_device_beats(context):
    lost = add_heartbeat(context, 2, device="cuda:0")
    [(level, sentence, _)] = check_heartbeats(context.settings)
    assert (level, sentence) == (PROBLEM, f"{lost} gave its last sign of life 2 minutes ago: lost.")
    living = add_heartbeat(context, 0)
    levels = {sentence.partition(" ")[0]: level for level, sentence, *_ in check_heartbeats(context.settings)}
    assert levels == {lost: WARNING, living: OK}


def test_unusable_database_is_reported_by_container_check_only(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(tmp_path))
    assert list(check_workers(Settings(data_dir=tmp_path))) == []
    checks = {"worker": check_heartbeats}
    url = f"sqlite:///{tmp_path}/isoscope.sqlite"
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} does not exist. Run: isoscope migrate")]
    (tmp_path / "isoscope.sqlite").touch()
    assert list(check_workers(Settings(data_dir=tmp_path))) == []
    assert list(run_checks(checks)) == [("worker", PROBLEM, f"{url} has no tables yet. Run: isoscope migrate")]
