import hashlib
import os
import time
from io import BytesIO

import pytest

from app.errors import InvalidError, NotFoundError, TooLargeError
from app.storage import BLOCK_BYTES, TEMPORARY_SECONDS, Storage


@pytest.fixture
def storage(tmp_path):
    return Storage(tmp_path)


def names(storage):
    return sorted(path.name for path in storage.folder.iterdir())


def test_bytes_are_kept_under_their_hash(storage):
    content = os.urandom(3 * BLOCK_BYTES + 17)

    stored = storage.write(BytesIO(content), max_bytes=len(content))

    assert stored.sha256 == hashlib.sha256(content).hexdigest()
    assert stored.size_bytes == len(content)
    assert storage.path(stored.sha256).read_bytes() == content
    assert names(storage) == [stored.sha256]


def test_identical_bytes_are_kept_once(storage):
    assert storage.write(BytesIO(b"same"), 10) == storage.write(BytesIO(b"same"), 10)
    assert len(names(storage)) == 1


def test_one_byte_above_the_cap_is_refused_and_leaves_nothing(storage):
    with pytest.raises(TooLargeError, match="more than 1,048,576 bytes, the limit here: upload a part of it"):
        storage.write(BytesIO(bytes(BLOCK_BYTES + 1)), max_bytes=BLOCK_BYTES)
    assert names(storage) == []


def test_an_empty_file_is_refused_and_leaves_nothing(storage):
    with pytest.raises(InvalidError, match="The file is empty: 0 bytes"):
        storage.write(BytesIO(), 10)
    assert names(storage) == []


def test_an_upload_that_breaks_off_leaves_nothing(storage):
    class Broken(BytesIO):
        def read(self, size=-1):
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        storage.write(Broken(), 10)
    assert names(storage) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "abc", "A" * 64, "0" * 64 + "\n", "/" + "0" * 63])
def test_a_name_that_is_not_a_hash_never_reaches_the_file_system(storage, name):
    with pytest.raises(NotFoundError, match="Expected a file's SHA-256"):
        storage.path(name)


def test_deleting_twice_is_fine(storage):
    stored = storage.write(BytesIO(b"gone"), 10)
    storage.delete(stored.sha256)
    storage.delete(stored.sha256)
    assert names(storage) == []


def test_only_old_temporaries_are_swept(storage):
    stored = storage.write(BytesIO(b"kept"), 10)
    old, fresh = storage.folder / "upload-old", storage.folder / "upload-fresh"
    for path in (old, fresh):
        path.touch()
    for path in (old, storage.path(stored.sha256)):
        os.utime(path, (time.time() - TEMPORARY_SECONDS - 60,) * 2)

    storage.sweep_temporary()

    assert names(storage) == sorted([stored.sha256, "upload-fresh"])
