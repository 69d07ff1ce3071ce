import pytest

from app.core.settings import Settings
from app.operations.doctor import OK, PROBLEM, check_storage
from tests.ports import free_port
from tests.s3 import CREDENTIALS, Bucket, Line, S3Server


@pytest.fixture
def line(tmp_path, monkeypatch):
    server = S3Server(free_port(), tmp_path / "log")
    line = Line(server.port)
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": line.url}.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(server, "bucket")
    yield line
    assert bucket.keys() == []
    bucket.close()
    line.stop()
    server.stop()


def test_unreadable_bucket_is_problem(tmp_path, line):
    settings = Settings(data_dir=tmp_path / "data", storage_url="s3://bucket/prefix")
    settings.create_folders()
    assert list(check_storage(settings)) == [(OK, "A file was written, read back and removed.")]
    line.refused = b"GET /bucket/prefix/"
    [(level, sentence, _)] = check_storage(settings)
    assert level == PROBLEM
    assert sentence.startswith("A file could not be kept and read back: The storage of files cannot be reached")
    assert list(settings.cache.iterdir()) == []
