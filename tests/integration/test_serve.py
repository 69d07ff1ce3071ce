import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from app.db.work import FileLocks
from tests.commands import isoscope
from tests.ports import free_port
from tests.serving import is_healthy
from tests.waiting import wait_for


def serve(tmp_path, **environment: str):
    return isoscope(tmp_path, "serve", **environment)


def test_serve_refuses_invalid_setting_port_or_database(tmp_path):
    cases = [
        ("ISOSCOPE_HOST", "0.0.0.0", "ISOSCOPE_ACCESS_TOKEN is not set"),
        ("ISOSCOPE_PORT", "many", "ISOSCOPE_PORT: Input should be a valid integer"),
        ("ISOSCOPE_STORAGE_URL", "ftp://files", "ISOSCOPE_STORAGE_URL: Expected file:///folder or s3://bucket/prefix"),
        ("ISOSCOPE_DATABASE_URL", "mysql://db/x", "ISOSCOPE_DATABASE_URL: expected postgresql://user:password@host/"),
    ]  # fmt: skip
    for setting, value, sentence in cases:
        process = serve(tmp_path, **{setting: value})
        assert process.returncode == 2
        assert sentence in process.stderr
        assert not (tmp_path / "data").exists()
    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        process = serve(tmp_path, ISOSCOPE_PORT=str(busy_socket.getsockname()[1]))
    assert process.returncode == 1
    assert "Something else already listens at 127.0.0.1" in process.stdout
    assert not (tmp_path / "data").exists()
    process = serve(
        tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_DATABASE_URL="postgresql://u:secret@127.0.0.1:1/x"
    )
    assert process.returncode == 1
    assert "The database postgresql+psycopg://u:***@127.0.0.1:1/x cannot be opened: " in process.stderr
    assert "Start it, or correct ISOSCOPE_DATABASE_URL." in process.stderr


def test_second_serve_on_same_folder_is_refused(tmp_path):
    (locks := tmp_path / "data" / "locks").mkdir(parents=True)
    (locks / "serve.running").touch()
    with FileLocks(locks).held("serve"):
        process = serve(tmp_path, ISOSCOPE_PORT=str(free_port()))
    assert process.returncode == 1
    assert f"Another isoscope serve uses {tmp_path}/data. Stop it first" in process.stderr
    assert (locks / "serve.running").exists()


def test_unavailable_storage_is_reported_without_traceback(tmp_path):
    with socket.socket() as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed_socket.getsockname()[1]}"
        credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": url}
        process = serve(tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_STORAGE_URL="s3://bucket", **credentials)
    assert process.returncode == 1
    assert "The storage of files cannot be reached at the moment." in process.stderr
    assert "Traceback" not in process.stderr


def test_unwritable_data_folder_is_reported_without_traceback(tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "data"
    environment = os.environ | {"ISOSCOPE_DATA_DIR": str(folder), "ISOSCOPE_PORT": str(free_port())}
    web = subprocess.run(
        [sys.executable, "-m", "app"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    commands = [isoscope(tmp_path / "file", words, ISOSCOPE_PORT=str(free_port())) for words in ("serve", "migrate")]
    for process in (web, *commands):
        assert process.returncode == 1
        assert f"{folder} cannot be written to: Not a directory. Give this user" in process.stderr
        assert "Traceback" not in process.stderr


@pytest.mark.long
def test_log_has_time_and_level_and_ctrl_c_ends_quietly(context):
    log_line = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO   |WARNING|ERROR  ) web  ")
    port = free_port()
    environment = os.environ | {"ISOSCOPE_DATA_DIR": str(context.settings.data_dir), "ISOSCOPE_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "app"], env=environment, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: is_healthy(url), 120)
        with httpx2.Client() as client, ThreadPoolExecutor(4) as threads:
            client.get(f"{url}/static/app.css")
            list(threads.map(lambda _: httpx2.get(url, timeout=60).status_code, range(8)))
            with socket.create_connection(("127.0.0.1", port)) as stuck:
                stuck.send(b"POST /api/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n--x\r\n")
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Task was destroyed" not in errors
    assert "Traceback" not in errors
    assert all(log_line.match(line) for line in errors.splitlines()), errors
