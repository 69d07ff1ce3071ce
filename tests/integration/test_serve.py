import socket

import pytest

from tests.commands import isoscope
from tests.ports import free_port


def serve(tmp_path, **environment: str):
    return isoscope(tmp_path, "serve", **environment)


def test_a_port_that_is_taken_is_said_before_anything_is_started(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ended = serve(tmp_path, ISOSCOPE_PORT=str(other.getsockname()[1]))
    assert ended.returncode == 1
    assert "Something else already listens at 127.0.0.1" in ended.stdout
    assert not (tmp_path / "data").exists()


def test_a_database_that_does_not_answer_is_said_before_anything_is_started(tmp_path):
    ended = serve(tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_DATABASE_URL="postgresql://u:secret@127.0.0.1:1/x")
    assert ended.returncode == 1
    assert "The database postgresql+psycopg://u:***@127.0.0.1:1/x cannot be opened: " in ended.stderr
    assert "Start it, or correct ISOSCOPE_DATABASE_URL." in ended.stderr


def test_one_setting_has_everything_served_from_postgresql(serving, empty_postgresql_url, cloud):
    server = serving(ISOSCOPE_DATABASE_URL=empty_postgresql_url)
    rows = "\n".join(",".join(f"{value:.6f}" for value in row) for row in cloud)
    created = server.post("/api/embeddings?commit=auto", files={"file": ("cloud.csv", rows)})
    path = f"/api/embeddings/{created['id']}"
    server.wait_for(lambda: server.get(path)["status"] == "ready", "the measurements")
    assert server.stop() == 0
    assert not list(server.data_dir.glob("*.sqlite"))


@pytest.mark.parametrize(("setting", "value", "sentence"), [
    ("ISOSCOPE_HOST", "0.0.0.0", "ISOSCOPE_ACCESS_TOKEN is not set"),
    ("ISOSCOPE_PORT", "many", "ISOSCOPE_PORT: Input should be a valid integer"),
    ("ISOSCOPE_STORAGE_URL", "ftp://files", "ISOSCOPE_STORAGE_URL: Expected file:///folder or s3://bucket/prefix"),
    ("ISOSCOPE_DATABASE_URL", "mysql://db/x", "ISOSCOPE_DATABASE_URL: expected postgresql://user:password@host/"),
])  # fmt: skip
def test_a_wrong_setting_is_named_and_nothing_is_started(tmp_path, setting, value, sentence):
    ended = serve(tmp_path, **{setting: value})
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert not (tmp_path / "data").exists()


def test_a_storage_that_is_away_when_the_sample_is_queued_is_said_in_a_sentence(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        here = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": here}
        ended = serve(tmp_path, ISOSCOPE_PORT=str(free_port()), ISOSCOPE_STORAGE_URL="s3://bucket", **credentials)
    assert ended.returncode == 1
    assert "The storage of files cannot be reached at the moment." in ended.stderr
    assert "Traceback" not in ended.stderr
