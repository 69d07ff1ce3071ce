import pytest
from pydantic import ValidationError

from app.settings import Settings, is_loopback


def test_off_loopback_a_secret_is_required():
    with pytest.raises(ValidationError, match="ISOSCOPE_ACCESS_TOKEN is not set"):
        Settings(host="0.0.0.0")


def test_off_loopback_a_short_secret_is_refused():
    with pytest.raises(ValidationError, match="shorter than 16 characters"):
        Settings(host="0.0.0.0", access_token="short")


def test_with_a_secret_it_may_listen_anywhere():
    assert Settings(host="0.0.0.0", access_token="0123456789abcdef").host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_loopback_names_are_known(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "localhost.example.org", "127.0.0.1.example.org", ""])
def test_other_names_are_not_loopback(host):
    assert not is_loopback(host)


def test_databases_default_to_files_in_the_data_folder(tmp_path):
    settings = Settings(data_dir=tmp_path)
    assert settings.database == f"sqlite:///{tmp_path}/isoscope.sqlite"
    assert settings.queue == f"sqlite:///{tmp_path}/queue.sqlite"


def test_the_environment_names_settings(monkeypatch):
    monkeypatch.setenv("ISOSCOPE_ALLOWED_HOSTS", '["lab.example.org"]')
    monkeypatch.setenv("ISOSCOPE_PORT", "9001")
    settings = Settings()
    assert (settings.allowed_hosts, settings.port) == (["lab.example.org"], 9001)
