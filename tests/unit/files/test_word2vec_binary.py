import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import word2vec
from isoscope.files.contents import Part
from isoscope.files.word2vec import Word2VecBinary

X = np.random.default_rng(0).standard_normal((50, 6)).astype("<f4")


def content(words, newline=b"\n", n=None, d=6):
    records = (word.encode() + b" " + row.tobytes() + newline for word, row in zip(words, X, strict=True))
    return f"{len(words) if n is None else n} {d}\n".encode() + b"".join(records)


WORDS = [f"wört_{i}" for i in range(50)]


def opened(tmp_path, content):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    return Word2VecBinary(path)


@pytest.mark.parametrize("newline", [b"\n", b""])
@pytest.mark.parametrize("read_bytes", [1, 2**20])
def test_words_and_vectors_are_read_with_and_without_newlines(tmp_path, monkeypatch, newline, read_bytes):
    monkeypatch.setattr(word2vec, "READ_BYTES", read_bytes)
    contents = opened(tmp_path, content(WORDS, newline))
    assert contents.parts == [Part(name="vectors", n=50, d=6, dtype="float32")]
    np.testing.assert_array_equal(np.concatenate(list(contents.rows("vectors", 7))), X)
    assert list(contents.values("words")) == WORDS


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (content(WORDS)[:-30], "Word 50 of 50 is cut off or longer than 10,000 bytes"),
        (content(WORDS, n=49), "The first line declares 49 words, but more follow"),
        (content(WORDS, n=10**9), "declares 1,000,000,000 words of 6 numbers, which [0-9,]+ bytes cannot hold"),
        (content(WORDS, n=0), "declares 0 words of 6 numbers"),
        (content(WORDS, d=0), "declares 50 words of 0 numbers"),
        (content(WORDS, d=99_999), "declares 50 words of 99,999 numbers"),
        (content([*WORDS[:1], "x" * 20_000, *WORDS[2:]]), "Word 2 of 50 is cut off or longer than 10,000 bytes"),
    ],
)
def test_inconsistent_counts_are_refused(tmp_path, changed, sentence):
    with pytest.raises(InvalidError, match=sentence):
        list(opened(tmp_path, changed).rows("vectors", 100))
