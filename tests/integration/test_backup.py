import fcntl
import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from threading import Timer

import numpy as np
import psycopg
import pytest
from sqlalchemy import select

from app.context import create_context
from app.core.settings import Settings
from app.db.models import Embedding, Run, RunStatus
from isoscope.cli import main
from tests.commands import isoscope
from tests.factories import add_experiment, run_row
from tests.ports import free_port
from tests.uploads.good import npy

pytestmark = pytest.mark.usefixtures("programs")


@pytest.fixture
def programs(request, monkeypatch):
    if "database" in request.fixturenames and request.getfixturevalue("database"):
        folder = request.getfixturevalue("postgresql").programs
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command with settings in the environment; return exit code, output and errors."""

    def run(settings, *words):
        monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(settings.data_dir))
        monkeypatch.setenv("ISOSCOPE_DATABASE_URL", settings.database_url)
        monkeypatch.setenv("ISOSCOPE_PORT", str(free_port()))
        monkeypatch.setattr(sys, "argv", ["isoscope", *map(str, words)])
        code = main()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def second_settings(tmp_path, database, request):
    url = request.getfixturevalue("empty_postgresql_url") if database else ""
    return Settings(data_dir=tmp_path / "second" / "data", sample=False, database_url=url)


@pytest.fixture
def file_hash(client, context):
    """A dashboard with an upload and a run that was training when its checkpoint was saved; the upload's hash."""
    content = npy(np.eye(50))
    client.post("/api/embeddings", files={"file": ("eye.npy", content)}, data={"name": "kept"})
    add_experiment(context, run_row(seed=1, status=RunStatus.RUNNING), name="sweep")
    with context.sessions() as session:
        run_id = session.scalar(select(Run.id))
        sha256 = session.scalar(select(Embedding)).files[0].file_sha256
    folder = context.settings.runs / run_id
    for checkpoint in (folder / "checkpoint-4", folder / "checkpoint-8"):
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").write_bytes(bytes(100))
    (folder / "checkpoint-4" / "complete").touch()
    (folder / "log.txt").write_text("so far")
    return sha256


def list_rows(settings):
    context = create_context(settings)
    with context.sessions() as session:
        names = [embedding.name for embedding in session.scalars(select(Embedding))]
        seeds = [run.seed for run in session.scalars(select(Run))]
    context.close()
    return names, seeds


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.both_databases
def test_backup_is_restored_to_other_settings(context, file_hash, second_settings, run, tmp_path, database):
    code, out, err = run(context.settings, "backup", tmp_path / "backups")
    assert (code, err) == (0, "")
    [backup] = (tmp_path / "backups").iterdir()
    assert out.startswith(f"{backup}: ")
    assert "schema revision 00" in out
    [run_id] = (path.name for path in context.settings.runs.iterdir())
    copies = ["metrics.dump"] if database else ["metrics.sqlite", "queue.sqlite"]
    checkpoint = [f"runs/{run_id}/{name}" for name in (
        "checkpoint-4/complete", "checkpoint-4/model.safetensors", "log.txt")]  # fmt: skip
    assert list_files(backup) == ["SHA256SUMS", f"files/{file_hash}", *copies, *checkpoint]
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=backup, check=False, capture_output=True).returncode == 0
    code, out, err = run(second_settings, "restore", tmp_path / "backups")
    assert (code, out, err) == (0, f"{backup} is restored\n", "")
    assert list_rows(second_settings) == (["kept"], [1])
    assert (second_settings.files / file_hash).read_bytes() == npy(np.eye(50))
    [folder] = second_settings.runs.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-4", "log.txt"]
    assert run(second_settings, "migrate")[:2] == (0, "both databases are up to date\n")


@pytest.mark.both_databases
def test_restore_rejects_damaged_backup_and_leaves_no_files(
    context, client, file_hash, second_settings, run, tmp_path, database, monkeypatch
):
    run(context.settings, "backup", tmp_path / "backups")
    [backup] = (tmp_path / "backups").iterdir()
    for path in (
        next(backup.glob("metrics.*")),
        backup / "files" / file_hash,
        next(backup.glob("runs/*/*/model.safetensors")),
        backup / "SHA256SUMS",
    ):
        content, is_list = path.read_bytes(), path.name == "SHA256SUMS"
        path.write_bytes(content[:-9] if is_list else content[:50] + b"?" + content[51:])
        code, out, err = run(second_settings, "restore", backup)
        assert (code, out) == (1, "")
        assert "files in " in err
        assert is_list or str(path.relative_to(backup)) in err
        assert list_files(second_settings.root) == []
        path.write_bytes(content)
    with monkeypatch.context() as patched:
        patched.setattr(f"app.operations.backup.{'_run_program' if database else 'os.sync'}", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(second_settings, "restore", backup)
    assert list_files(second_settings.root) == []
    client.__exit__(None, None, None)
    context.close()
    code, _, err = run(context.settings, "restore", backup)
    assert code == 1
    assert err.startswith("There are data already: ")
    assert err.endswith("Name an empty data folder and database.\n")
    assert list_rows(context.settings) == (["kept"], [1])


def test_backup_and_restore_explain_refusals(context, file_hash, second_settings, run, tmp_path, client):
    nowhere = tmp_path / "nowhere"
    sentence = f"There is no backup in {nowhere}. Name a folder that isoscope backup has written.\n"
    assert run(second_settings, "restore", nowhere)[::2] == (1, sentence)
    run(context.settings, "backup", tmp_path / "backups")
    [backup] = (tmp_path / "backups").iterdir()
    (backup / "queue.sqlite").rename(backup / "queue.dump")
    err = run(second_settings, "restore", backup)[2]
    assert err.startswith("The backup holds metrics.sqlite and queue.dump; the settings need metrics.sqlite and queue.")
    (backup / "queue.dump").rename(backup / "queue.sqlite")
    second_settings.create_folders()
    with (second_settings.root / "locks" / "lab_cpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "a worker holds" in run(second_settings, "restore", backup)[2]
    file = tmp_path / "file"
    file.touch()
    assert "cannot be written to: " in run(context.settings, "backup", file / "backups")[2]
    before = hashlib.sha256((backup / "metrics.sqlite").read_bytes()).hexdigest()
    with closing(sqlite3.connect(backup / "metrics.sqlite")) as connection:
        connection.execute("update alembic_version set version_num = 'from-the-future'")
        connection.commit()
    after = hashlib.sha256((backup / "metrics.sqlite").read_bytes()).hexdigest()
    sums = (backup / "SHA256SUMS").read_text()
    (backup / "SHA256SUMS").write_text(sums.replace(before, after))
    code, out, _ = run(second_settings, "restore", backup)
    assert code == 0
    assert "Install the version of Isoscope that made it, or a newer one." in out
    (context.settings.files / file_hash).unlink()
    code, out, _ = run(context.settings, "backup", tmp_path / "first")
    assert code == 0
    assert "1 stored file deleted while the backup was made, not in it\n" in out
    (context.settings.files / file_hash).write_bytes(b"other bytes")
    code, out, _ = run(context.settings, "backup", tmp_path / "second")
    assert code == 1
    assert f"Caution: 1 stored file damaged on the disk, not in the backup: {file_hash[:12]}" in out


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_restore_waits_for_database_sessions(context, file_hash, second_settings, run, tmp_path):
    run(context.settings, "backup", tmp_path / "backups")
    with psycopg.connect(second_settings.database_url):
        err = run(second_settings, "restore", tmp_path / "backups")[2]
        assert "others are connected to the database. Stop it, then restore again." in err
    leaving = Timer(0.5, psycopg.connect(second_settings.database_url).close)
    leaving.start()
    code, _, err = run(second_settings, "restore", tmp_path / "backups")
    leaving.join()
    assert (code, err) == (0, "")
    assert list_rows(second_settings) == (["kept"], [1])


def test_missing_pg_dump_is_named(tmp_path):
    url = "postgresql://u@127.0.0.1:1/x"
    process = isoscope(tmp_path, "backup", str(tmp_path / "backups"), PATH=str(tmp_path), ISOSCOPE_DATABASE_URL=url)
    assert process.returncode == 1
    assert process.stderr.startswith("There is no pg_dump here. Install PostgreSQL's client programs")
