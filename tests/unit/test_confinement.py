import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import sandboxed

from app.core.confinement import missing_protections
from app.sandbox import run_in_sandbox
from isoscope.core.errors import InvalidError
from tests.waiting import wait_for

MISSING = missing_protections()
REASON = f"this system has no {' and no '.join(MISSING)}"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=REASON)]
# Takes Landlock from this process, as on a kernel without it, and prints the findings of doctor.
WITHOUT_LANDLOCK = """
import sys
from app.core import confinement
from app.core.settings import Settings
from app.operations.doctor import check_sandbox
confinement.DENIED_CALLS = {"landlock_create_ruleset": (444, 444)}
confinement.OWN_PROCESS_CALLS, confinement.CLONE, confinement.CLONE3 = {}, (0x3FFFFFFF, 0x3FFFFFFF), 0x3FFFFFFE
confinement._call(confinement.libc.prctl, confinement.SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
confinement._deny_calls()
for level, sentence, *_ in check_sandbox(Settings(data_dir=sys.argv[1])):
    print(level, sentence)
"""
LIMITS = {"memory_bytes": 2**30, "seconds": 60}


@pytest.fixture
def attempts(tmp_path, monkeypatch):
    """Arguments of ``misbehave``: a data folder with secrets, this process, an open port, a folder to write."""
    monkeypatch.setenv("ISOSCOPE_ACCESS_TOKEN", "a-secret-of-this-test")
    monkeypatch.syspath_prepend(tmp_path)  # as in a checkout, where the data folder is beside the modules
    root, folder = tmp_path / "data", tmp_path / "folder"
    for path in (root, folder):
        path.mkdir()
    for name in ("session.key", "spare"):
        (root / name).write_text("secret")
    sandboxed.write_row(root / "isoscope.sqlite")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        yield str(root), os.getpid(), server.fileno(), server.getsockname()[1], folder


def test_misbehaving_parser_reaches_nothing(attempts):
    assert all(sandboxed.misbehave(*attempts).values())
    reached = run_in_sandbox(sandboxed.misbehave, *attempts, writable=attempts[-1], **LIMITS)
    assert [name for name, worked in reached.items() if worked] == []
    assert os.environ["ISOSCOPE_ACCESS_TOKEN"] == "a-secret-of-this-test"


def test_parser_cannot_fork():
    with pytest.raises(InvalidError, match=r"it raised PermissionError"):
        run_in_sandbox(sandboxed.fork, **LIMITS)


def test_parser_reads_and_writes_files_with_all_threads_confined(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOSCOPE_ACCESS_TOKEN", "a-secret-of-this-test")
    (tmp_path / "file").write_text("rows")
    (folder := tmp_path / "folder").mkdir()
    text, filters, environment = run_in_sandbox(sandboxed.behave, tmp_path / "file", folder, writable=folder, **LIMITS)
    assert text == "rows"
    assert len(filters) > 1
    assert set(filters) == {"2"}
    assert "ISOSCOPE" not in environment


def test_file_replaced_while_parsing_is_read(tmp_path):
    (file := tmp_path / "file").write_text("rows")
    (folder := tmp_path / "folder").mkdir()
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(run_in_sandbox, sandboxed.read_replaced, file, folder, writable=folder, **LIMITS)
        wait_for((folder / "started").exists, 60)
        (tmp_path / "copy").write_text("rows")
        (tmp_path / "copy").replace(file)
        assert text.result() == "rows"


def test_unpickling_result_runs_no_code(tmp_path):
    with pytest.raises(InvalidError, match="its result cannot be read"):
        run_in_sandbox(sandboxed.Trap, str(tmp_path / "made"), **LIMITS)
    assert not (tmp_path / "made").exists()


def test_doctor_warns_without_landlock(tmp_path):
    command = [sys.executable, "-c", WITHOUT_LANDLOCK, tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stdout == (
        "warning A hostile upload could do harm: this system has no Landlock to confine parsers.\n"
    ), ended.stderr
