import gzip

import pytest

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import compressed
from isoscope.files.compressed import is_gzipped, open_unpacked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "content"


def read(path):
    with open_unpacked(path) as stream:
        return stream.read()


def test_gzip_members_are_read_as_one_stream(path):
    for content in (b"", b"a", "schön\n".encode() * 10_000):
        path.write_bytes(content)
        assert (read(path), is_gzipped(path)) == (content, False)
        path.write_bytes(gzip.compress(content))
        assert (read(path), is_gzipped(path)) == (content, True)
    path.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read(path) == b"one\ntwo\n"


def damaged():
    content = bytearray(gzip.compress(b"some text " * 1000, mtime=0))
    content[20:30] = b"\xff" * 10
    return content


@pytest.mark.parametrize(
    "content", [*(gzip.compress(bytes(range(256)) * 40, mtime=0)[:end] for end in (2, 9, 15, -1, -8)), damaged()]
)
def test_truncated_or_damaged_gzip_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(InvalidError, match="The gzip file ends early or is damaged: compress it again, or upload it"):
        read(path)


@pytest.mark.slow
def test_gzip_bomb_is_refused_and_text_within_limit_is_read(path, monkeypatch):
    path.write_bytes(gzip.compress(bytes(65 * 2**20)))
    with open_unpacked(path) as stream:
        assert sum(len(stream.read(2**20)) for _ in range(64)) == 64 * 2**20
        with pytest.raises(TooLargeError, match=r"unpacks to more than 67,108,864, which could"):
            stream.read(2**20)
    monkeypatch.setattr(compressed, "MAX_DECOMPRESSED_BYTES", 1000)
    path.write_bytes(gzip.compress(b"x" * 1000))
    assert len(read(path)) == 1000
    path.write_bytes(gzip.compress(b"x" * 1001))
    with pytest.raises(TooLargeError, match=r"of \d+ bytes unpacks to more than 1,000, which could exhaust mem"):
        read(path)
