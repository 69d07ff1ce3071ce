"""Backups are whole, are verified before anything is put in place, and come back as they were."""

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Timer

import numpy as np
import psycopg
import pytest
from sqlalchemy import select

from app.context import create_context
from app.core.settings import Settings
from app.db.models import Embedding, Run, RunStatus
from isoscope.cli import main
from tests.factories import add_experiment, run_row
from tests.ports import free_port
from tests.uploads.good import npy

pytestmark = pytest.mark.usefixtures("programs")


@pytest.fixture
def programs(request, monkeypatch):
    """pg_dump and pg_restore of the tests' own server."""
    if "database" in request.fixturenames and request.getfixturevalue("database"):
        folder = request.getfixturevalue("postgresql").programs
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command with settings in the environment; its exit code, output and errors."""

    def run(settings, *words):
        monkeypatch.setenv("ISOSCOPE_DATA_DIR", str(settings.data_dir))
        monkeypatch.setenv("ISOSCOPE_DATABASE_URL", settings.database_url)
        monkeypatch.setenv("ISOSCOPE_PORT", str(free_port()))
        monkeypatch.setattr(sys, "argv", ["isoscope", *map(str, words)])
        code = main()
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def other(tmp_path, database, request):
    """Settings of an empty place to restore into."""
    url = request.getfixturevalue("empty_postgresql_url") if database else ""
    return Settings(data_dir=tmp_path / "other" / "data", sample=False, database_url=url)


@pytest.fixture
def filled(client, context):
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


def rows_of(settings):
    context = create_context(settings)
    with context.sessions() as session:
        found = (
            [one.name for one in session.scalars(select(Embedding))],
            [one.seed for one in session.scalars(select(Run))],
        )
    context.close()
    return found


@pytest.mark.both_databases
def test_what_is_backed_up_comes_back_elsewhere(context, filled, other, run, tmp_path):
    code, out, err = run(context.settings, "backup", tmp_path / "backups")
    assert (code, err) == (0, "")
    [backup] = (tmp_path / "backups").iterdir()
    assert out.startswith(f"{backup}: ")
    manifest = json.loads((backup / "manifest.json").read_text())
    assert manifest["schema_revision"] in out
    assert [one["sha256"] for one in manifest["files"]] == [filled]
    assert sorted(Path(one["path"]).name for one in manifest["runs"]) == ["complete", "log.txt", "model.safetensors"]

    code, out, err = run(other, "restore", tmp_path / "backups")
    assert (code, out, err) == (0, f"{backup} is restored\n", "")
    assert rows_of(other) == (["kept"], [1])
    assert (other.files / filled).read_bytes() == npy(np.eye(50))
    [folder] = other.runs.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-4", "log.txt"]
    assert run(other, "migrate")[:2] == (0, "both databases are up to date\n")
    assert not list(other.root.glob("*restoring*"))


@pytest.mark.both_databases
def test_the_next_backup_holds_what_the_last_one_had_by_hard_links(context, client, filled, run, tmp_path):
    for _ in range(2):
        assert run(context.settings, "backup", tmp_path / "backups")[0] == 0
    first, second = sorted((tmp_path / "backups").iterdir())
    assert (first / "files" / filled).samefile(second / "files" / filled)
    assert not (first / "files" / filled).samefile(context.settings.files / filled)
    shutil.rmtree(first)
    assert (second / "files" / filled).read_bytes() == npy(np.eye(50))


@pytest.mark.both_databases
def test_a_place_with_data_is_replaced_only_if_that_is_said(context, client, filled, run, tmp_path, database):
    run(context.settings, "backup", tmp_path / "backups")
    later = client.post("/api/embeddings", files={"file": ("other.npy", npy(np.ones((3, 3))))}).json()
    client.__exit__(None, None, None)
    context.close()
    code, _, err = run(context.settings, "restore", tmp_path / "backups")
    assert code == 1
    assert err.startswith("There are data already: ")
    assert err.endswith("Name an empty data folder and database, or add --replace.\n")
    assert rows_of(context.settings)[0] == ["kept", later["name"]]

    code, out, err = run(context.settings, "restore", tmp_path / "backups", "--replace")
    assert (code, err) == (0, "")
    assert rows_of(context.settings) == (["kept"], [1])
    [replaced] = context.settings.root.glob("replaced-*")
    assert f"What was here before lies in {replaced}" in out
    if not database:
        with closing(sqlite3.connect(replaced / "isoscope.sqlite")) as old:
            assert old.execute("select count(*) from embeddings").fetchone() == (2,)


@pytest.mark.both_databases
@pytest.mark.parametrize("which", ["database", "file", "checkpoint", "manifest"])
def test_a_damaged_backup_is_refused_and_leaves_nothing(context, filled, other, run, tmp_path, which):
    run(context.settings, "backup", tmp_path / "backups")
    [backup] = (tmp_path / "backups").iterdir()
    path = {
        "database": next(backup.glob("metrics.*")),
        "file": backup / "files" / filled,
        "checkpoint": next(backup.glob("runs/*/*/model.safetensors")),
        "manifest": backup / "manifest.json",
    }[which]
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"?" + content[51:] if which != "manifest" else content[:-9])
    code, out, err = run(other, "restore", backup)
    assert (code, out) == (1, "")
    assert str(path.relative_to(backup)) in err
    assert not [path for path in other.root.rglob("*") if path.is_file()]


@pytest.mark.both_databases
def test_a_restore_that_breaks_off_is_undone(context, client, filled, run, tmp_path, monkeypatch):
    run(context.settings, "backup", tmp_path / "backups")
    client.post("/api/embeddings", files={"file": ("other.npy", npy(np.ones((3, 3))))}, data={"name": "later"})
    client.delete("/api/embeddings/none")
    client.__exit__(None, None, None)
    context.close()
    (context.settings.files / filled).unlink()
    before = rows_of(context.settings)
    monkeypatch.setattr("app.operations.backup.restoring._Restoring._move", lambda *_: 1 / 0)
    monkeypatch.setattr("app.operations.backup.restoring.load", lambda *_: None)
    with pytest.raises(ZeroDivisionError):
        run(context.settings, "restore", tmp_path / "backups", "--replace")
    assert rows_of(context.settings) == before
    assert not (context.settings.files / filled).exists()
    assert not list(context.settings.root.glob("*restoring*"))


@pytest.mark.both_databases
def test_a_file_that_is_released_meanwhile_or_damaged_is_told(context, filled, client, run, tmp_path):
    (context.settings.files / filled).unlink()
    code, out, _ = run(context.settings, "backup", tmp_path / "first")
    assert code == 0
    assert "1 stored file deleted while the backup was made, not in it\n" in out
    (context.settings.files / filled).write_bytes(b"other bytes")
    code, out, _ = run(context.settings, "backup", tmp_path / "second")
    assert code == 1
    assert f"Caution: 1 stored file damaged on the disk, not in the backup: {filled[:12]}" in out


def test_refusals_are_sentences(context, filled, other, run, tmp_path):
    assert run(other, "restore", tmp_path / "nowhere")[::2] == (
        1, f"There is no backup in {tmp_path / 'nowhere'}. Name a folder that isoscope backup has written.\n",
    )  # fmt: skip
    run(context.settings, "backup", tmp_path / "backups")
    [backup] = (tmp_path / "backups").iterdir()
    manifest = backup / "manifest.json"
    written = manifest.read_text()
    manifest.write_text(written.replace('"schema_revision": "', '"schema_revision": "9'))
    assert "Install the version of Isoscope that made it, or a newer one." in run(other, "restore", backup)[2]
    manifest.write_text(written.replace('"metrics_engine": "sqlite"', '"metrics_engine": "postgresql"'))
    assert (
        "The backup is of PostgreSQL with SQLite for jobs; the settings name SQLite" in run(other, "restore", backup)[2]
    )
    manifest.write_text(written.replace('"path": "metrics.sqlite"', '"path": "../../metrics.sqlite"'))
    assert "names a file outside the backup" in run(other, "restore", backup)[2]
    manifest.write_text(written)
    other.create_folders()
    with (other.root / "locks" / "lab_cpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "a worker holds" in run(other, "restore", backup)[2]
    file = tmp_path / "file"
    file.touch()
    assert "cannot be written to: " in run(context.settings, "backup", file / "backups")[2]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_database_is_restored_once_the_last_session_on_it_has_ended(context, filled, other, run, tmp_path):
    run(context.settings, "backup", tmp_path / "backups")
    with psycopg.connect(other.database_url):
        assert run(other, "restore", tmp_path / "backups")[::2] == (
            1, "Isoscope, or something else, runs with these settings: others are connected to the database. Stop it, "
            "then restore again.\n",
        )  # fmt: skip
    leaving = Timer(0.5, psycopg.connect(other.database_url).close)
    leaving.start()
    code, _, err = run(other, "restore", tmp_path / "backups")
    leaving.join()
    assert (code, err) == (0, "")
    assert rows_of(other) == (["kept"], [1])


def test_without_postgresql_s_programs_it_is_said_what_to_install(settings, tmp_path):
    known = os.environ | {
        "ISOSCOPE_DATA_DIR": str(tmp_path / "data"), "PATH": str(tmp_path),
        "ISOSCOPE_DATABASE_URL": "postgresql://u@127.0.0.1:1/x",
    }  # fmt: skip
    command = [sys.executable, "-m", "isoscope", "backup", str(tmp_path / "backups")]
    ended = subprocess.run(command, env=known, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    assert ended.stderr.startswith("There is no pg_dump here. Install PostgreSQL's client programs")
