import socket

import pytest
from pydantic import ValidationError

from app.core.settings import Settings, is_loopback
from app.db.work import slot_name
from isoscope.core.errors import InvalidError


def test_public_host_requires_token_of_sixteen_characters():
    with pytest.raises(ValidationError, match="ISOSCOPE_ACCESS_TOKEN is not set"):
        Settings(host="0.0.0.0")
    with pytest.raises(ValidationError, match="shorter than 16 characters"):
        Settings(host="0.0.0.0", access_token="short")
    assert Settings(host="0.0.0.0", access_token="0123456789abcdef").host == "0.0.0.0"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [*((host, True) for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1")),
     *((host, False) for host in ("0.0.0.0", "192.0.2.1", "localhost.example.org", "127.0.0.1.example.org", ""))],
)  # fmt: skip
def test_is_loopback_accepts_only_loopback_hosts(host, loopback):
    assert is_loopback(host) is loopback


def test_databases_default_to_data_folder_and_environment_is_read(tmp_path, monkeypatch):
    settings = Settings(data_dir=tmp_path)
    assert settings.database == f"sqlite:///{tmp_path}/isoscope.sqlite"
    assert settings.queue == f"sqlite:///{tmp_path}/queue.sqlite"
    monkeypatch.setenv("ISOSCOPE_ALLOWED_HOSTS", '["lab.example.org"]')
    monkeypatch.setenv("ISOSCOPE_PORT", "9001")
    settings = Settings()
    assert (settings.allowed_hosts, settings.port) == (["lab.example.org"], 9001)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_url_sets_database_and_queue(scheme):
    settings = Settings(database_url=f"{scheme}://user:p%40ss@db.example.org:5433/isoscope?sslmode=require")
    location = "user:p%40ss@db.example.org:5433/isoscope?sslmode=require"
    assert settings.database == f"postgresql+psycopg://{location}"
    assert settings.queue == f"postgresql://{location}"


def test_url_schemes_ignore_case_and_queue_can_have_its_own_url(tmp_path):
    settings = Settings(database_url=" POSTGRES://user@db/isoscope\n", queue_url=f"SQLITE:///{tmp_path}/SQLITE.db")
    assert settings.database == "postgresql+psycopg://user@db/isoscope"
    assert settings.queue == f"sqlite:///{tmp_path}/SQLITE.db"
    settings = Settings(database_url="postgresql://db/isoscope", queue_url="postgres://db/queue", data_dir=tmp_path)
    assert settings.queue == "postgresql://db/queue"
    assert Settings(queue_url="postgres:///queue?host=/run", data_dir=tmp_path).database.startswith("sqlite:///")
    assert Settings(queue_url="sqlite:////x/queue.sqlite").queue == "sqlite:////x/queue.sqlite"


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("mysql://user:secret@db/isoscope", "got one that begins with 'mysql'"),
        ("isoscope.sqlite", "got one that begins with 'isoscope.sqlite'"),
        ("sqlite://secret.sqlite", "without three slashes"),
        ("sqlite:///", "without three slashes"),
        ("postgresql://user:secret@db", "without a host or without the database's name"),
        ("postgresql:///isoscope", "without a host"),
        ("postgresql://user:secret@db:many/isoscope", "cannot be read"),
        ("postgresql://[secret/isoscope", "cannot be read"),
        ("postgresql://user:sec/ret@host/isoscope", "write special characters of a password as %2F and the like"),
        ("postgresql://user:12/secret@host/isoscope", "write special characters of a password as %2F"),
        ("postgresql://user:secret%@host/isoscope", "write special characters of a password as %2F"),
        ("postgresql://user:secret\N{CARE OF}@host/isoscope", "write special characters of a password as %2F"),
    ],
)
def test_invalid_database_url_is_refused_without_its_password(url, cause):
    for name in ("database_url", "queue_url"):
        with pytest.raises(ValidationError, match="postgresql://user:password@host/name or sqlite:///") as refused:
            Settings(**{name: url})
        sentence = refused.value.errors()[0]["msg"]
        assert cause in sentence
        assert not any(part in sentence for part in ("secret", "sec/ret", "'sec'"))


def test_slot_name_uses_worker_name_or_host(tmp_path):
    assert slot_name(Settings(worker_name="lab-7"), "cuda:0") == "lab-7/cuda:0"
    assert slot_name(Settings(), "cpu") == f"{socket.gethostname()}/cpu"
    with pytest.raises(InvalidError, match="at most 100 characters"):
        slot_name(Settings(worker_name="lab-7"), "x" * 100)
    with pytest.raises(ValidationError, match="worker_name"):
        Settings(worker_name="a/b")
