import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx2

from app.db.work import FileLocks
from tests.commands import isoscope
from tests.ports import free_port
from tests.waiting import wait_for


def serve(tmp_path, **environment: str):
    return isoscope(tmp_path, "serve", **environment)


def test_a_wrong_setting_a_taken_port_and_a_silent_database_are_said_before_anything_is_started(tmp_path):
    cases = [
        ("ISOSCOPE_HOST", "0.0.0.0", "ISOSCOPE_ACCESS_TOKEN is not set"),
        ("ISOSCOPE_PORT", "many", "ISOSCOPE_PORT: Input should be a valid integer"),
        ("ISOSCOPE_STORAGE_URL", "ftp://files", "ISOSCOPE_STORAGE_URL: Expected file:///folder or s3://bucket/prefix"),
        ("ISOSCOPE_DATABASE_URL", "mysql://db/x", "ISOSCOPE_DATABASE_URL: expected postgresql://user:password@host/"),
    ]  # fmt: skip
    for setting, value, sentence in cases:
        ended = serve(tmp_path, **{setting: value})
        assert ended.returncode == 2
        assert sentence in ended.stderr
        assert not (tmp_path / "data").exists()
    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        ended = serve(tmp_path, ISOSCOPE_PORT=str(busy_socket.getsockname()[1]))
    assert ended.returncode == 1
    assert "Something else already listens at 127.0.0.1" in ended.stdout
    assert not (tmp_path / "data").exists()
    ended = serve(tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_DATABASE_URL="postgresql://u:secret@127.0.0.1:1/x")
    assert ended.returncode == 1
    assert "The database postgresql+psycopg://u:***@127.0.0.1:1/x cannot be opened: " in ended.stderr
    assert "Start it, or correct ISOSCOPE_DATABASE_URL." in ended.stderr


def test_second_serve_on_a_folder_is_refused_and_leaves_the_mark_of_the_first(tmp_path):
    (locks := tmp_path / "data" / "locks").mkdir(parents=True)
    (locks / "serve.running").touch()
    with FileLocks(locks).held("serve"):
        ended = serve(tmp_path, ISOSCOPE_PORT=str(free_port()))
    assert ended.returncode == 1
    assert f"Another isoscope serve uses {tmp_path}/data. Stop it first" in ended.stderr
    assert (locks / "serve.running").exists()


def test_a_storage_that_is_away_when_the_sample_is_queued_is_said_in_a_sentence(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": url}
        ended = serve(tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_STORAGE_URL="s3://bucket", **credentials)
    assert ended.returncode == 1
    assert "The storage of files cannot be reached at the moment." in ended.stderr
    assert "Traceback" not in ended.stderr


LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO   |WARNING|ERROR  ) web  ")


def test_a_data_folder_that_cannot_be_written_to_is_said_in_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "data"
    environment = os.environ | {"ISOSCOPE_DATA_DIR": str(folder), "ISOSCOPE_PORT": str(free_port())}
    web = subprocess.run(
        [sys.executable, "-m", "app"], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    commands = [isoscope(tmp_path / "file", words, ISOSCOPE_PORT=str(free_port())) for words in ("serve", "migrate")]
    for ended in (web, *commands):
        assert ended.returncode == 1
        assert f"{folder} cannot be written to: Not a directory. Give this user" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_its_log_has_time_and_level_and_ctrl_c_ends_it_in_silence(context):
    port = free_port()
    environment = os.environ | {"ISOSCOPE_DATA_DIR": str(context.settings.data_dir), "ISOSCOPE_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "app"], env=environment, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return httpx2.head(f"{url}/api/health").is_success
        except httpx2.TransportError:
            return False

    try:
        wait_for(answers, 120)
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
    assert all(LINE.match(line) for line in errors.splitlines()), errors
