import hashlib
import os
import re
import time
from io import BytesIO
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.core.settings import Settings, parse_storage_url
from app.storage import open_storage
from app.storage.s3 import IN_USE_SECONDS, Cache
from app.storage.storage import BLOCK_BYTES, TEMPORARY_SECONDS, FolderStorage, sweep_folders
from isoscope.core.errors import InvalidError, NotFoundError, TooLargeError


@pytest.fixture
def storage(tmp_path):
    return FolderStorage(tmp_path)


def names(storage):
    return sorted(path.name for path in storage.folder.iterdir())


def test_files_are_stored_once_by_hash_and_delete_is_idempotent(storage):
    content = os.urandom(3 * BLOCK_BYTES + 17)
    stored = storage.write(BytesIO(content), max_bytes=len(content))
    assert stored.sha256 == hashlib.sha256(content).hexdigest()
    assert stored.size_bytes == len(content)
    assert storage.exists(stored.sha256)
    assert storage.local_path(stored.sha256).read_bytes() == content
    assert names(storage) == [stored.sha256]
    same = storage.write(BytesIO(b"same"), 10)
    assert storage.write(BytesIO(b"same"), 10) == same
    assert names(storage) == sorted([stored.sha256, same.sha256])
    for _ in range(2):
        storage.delete(same.sha256)
        assert names(storage) == [stored.sha256]


def test_refused_upload_leaves_no_file(storage):
    class Broken(BytesIO):
        def read(self, size=-1):
            raise ConnectionResetError

    for stream, limit, error, sentence in (
        (BytesIO(bytes(BLOCK_BYTES + 1)), BLOCK_BYTES, TooLargeError, "more than 1,048,576 bytes, the limit here"),
        (BytesIO(), 10, InvalidError, "The file is empty: 0 bytes"),
        (Broken(), 10, ConnectionResetError, None),
    ):
        with pytest.raises(error, match=sentence):
            storage.write(stream, max_bytes=limit)
        assert names(storage) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "abc", "A" * 64, "0" * 64 + "\n", "/" + "0" * 63])
def test_name_that_is_not_a_hash_is_refused(storage, name):
    for verb in (storage.local_path, storage.exists, storage.delete):
        with pytest.raises(NotFoundError, match="Expected a file's SHA-256"):
            verb(name)


def test_sweep_deletes_only_old_temporaries(storage):
    stored = storage.write(BytesIO(b"kept"), 10)
    old, fresh = storage.folder / "arriving-old", storage.folder / "arriving-fresh"
    for path in (old, fresh):
        path.touch()
    for path in (old, storage.local_path(stored.sha256)):
        os.utime(path, (time.time() - TEMPORARY_SECONDS - 60,) * 2)

    storage.sweep_temporary()

    assert names(storage) == sorted([stored.sha256, "arriving-fresh"])


def test_sweep_deletes_only_old_upload_folders(tmp_path):
    names = ["check-truth-abcd_123", "divide-abcd_123", "divide-fresh_12", "divided", "files"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "truth.jsonl").touch()
        if "fresh" not in name:
            os.utime(tmp_path / name, (time.time() - TEMPORARY_SECONDS - 60,) * 2)

    sweep_folders(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == names[2:]


def test_missing_file_is_reported(storage):
    assert not storage.exists("0" * 64)
    with pytest.raises(NotFoundError, match="The file 000000000000… is gone from the storage; upload it again"):
        storage.local_path("0" * 64)


def test_storage_url_folder_is_created_and_used(tmp_path):
    shared = tmp_path / "shared folder"
    settings = Settings(data_dir=tmp_path / "data", storage_url=shared.as_uri())
    settings.create_folders()
    stored = open_storage(settings).write(BytesIO(b"bytes"), 10)
    assert (shared / stored.sha256).read_bytes() == b"bytes"
    assert not (tmp_path / "data" / "files").exists()


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path, 10)


def put(cache, name, content, age_seconds=0):
    """Return a function that adds a file last used ``age_seconds`` ago."""
    temporary = cache.folder / "arriving-x"
    temporary.write_bytes(content)
    path = cache.add(temporary, name)
    os.utime(path, (time.time() - age_seconds,) * 2)
    return path


def test_full_cache_evicts_least_recently_used_file(cache):
    used, unused = put(cache, "a", b"1234", 3 * IN_USE_SECONDS), put(cache, "b", b"1234", 2 * IN_USE_SECONDS)
    assert cache.find("a") == used
    added = put(cache, "c", b"1234")
    assert [path.exists() for path in (used, unused, added)] == [True, False, True]
    assert cache.find("b") is None


def test_cache_keeps_files_in_use_and_drops_stale_downloads(cache):
    paths = [put(cache, name, b"1234567", IN_USE_SECONDS - 60) for name in "abc"]
    assert all(path.exists() for path in paths)
    leftover = cache.folder / "arriving-killed"
    leftover.write_bytes(b"123456789")
    os.utime(leftover, (time.time() - 2 * IN_USE_SECONDS,) * 2)
    put(cache, "a", b"12")
    assert not leftover.exists()


def test_cache_tolerates_vanished_files_and_open_readers(cache):
    (cache.folder / "vanished").symlink_to(cache.folder / "nothing")
    assert put(cache, "a", b"123456789012").exists()
    with put(cache, "a", b"123456789", 2 * IN_USE_SECONDS).open("rb") as reading:
        put(cache, "b", b"12")
        assert cache.find("a") is None
        assert reading.read() == b"123456789"


@pytest.mark.parametrize(
    ("url", "storage"),
    [
        ("s3://bucket", (None, "bucket")), ("s3://bucket/", (None, "bucket")), ("s3://bucket//", (None, "bucket")),
        ("s3://bucket/team/isoscope/", (None, "bucket/team/isoscope")),
        ("file:///srv/our%20files@lab", (Path("/srv/our files@lab"), None)),
    ],
)  # fmt: skip
def test_storage_url_names_bucket_or_folder(url, storage):
    assert parse_storage_url(url) == storage


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("gs://bucket", "Expected file:///folder or s3://bucket/prefix, got 'gs://bucket'"),
        ("/srv/files", "Expected file:///folder or s3://bucket/prefix, got '/srv/files'"),
        ("file://srv/files", "three slashes and its path from the root"),
        ("file:///", "three slashes and its path from the root"),
        ("s3:///prefix", "An endpoint goes into AWS_ENDPOINT_URL"),
        ("s3://minio:9000/bucket", "An endpoint goes into AWS_ENDPOINT_URL"),
        ("s3://bucket/prefix?endpoint=http://minio", "An endpoint goes into AWS_ENDPOINT_URL"),
        ("s3://[bucket", "Expected file:///folder or s3://bucket/prefix, got one that cannot be read"),
    ],
)
def test_invalid_storage_url_is_refused(url, sentence):
    with pytest.raises(ValidationError, match=re.escape(sentence)):
        Settings(storage_url=url)


@pytest.mark.parametrize(
    "url",
    ["s3://key:verysecret@bucket/prefix", "s3://key:very/verysecret@bucket", "gs:key:verysecret@bucket",
     "file://key:verysecret@host/folder"],
)  # fmt: skip
def test_credentials_in_storage_url_are_refused_and_not_repeated(url):
    with pytest.raises(ValidationError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as refused:
        Settings(storage_url=url)
    assert "verysecret" not in str(refused.value)


def test_bucket_without_s3fs_names_package_to_install(monkeypatch):
    monkeypatch.setattr("app.core.settings.find_spec", lambda name: None)
    with pytest.raises(ValidationError, match=re.escape("pip install s3fs")):
        Settings(storage_url="s3://bucket")
