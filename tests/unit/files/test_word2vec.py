import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import word2vec
from isoscope.files.contents import Part
from isoscope.files.word2vec import Word2VecBinary, Word2VecText


def opened(tmp_path, content):
    path = tmp_path / "x.vec"
    path.write_text(content, newline="", encoding="utf-8")
    return Word2VecText(path)


def matrix(contents):
    return np.concatenate(list(contents.rows("vectors", 2))).tolist()


@pytest.mark.parametrize(
    ("content", "words", "x"),
    [
        ("king 0.5 -1e-3\nqueen 1 2\n", ["king", "queen"], [[0.5, -0.001], [1, 2]]),
        ("3 2\nking 0.5 1.5 \nqueen 1 2 \r\n</s> 0 0\n\n", ["king", "queen", "</s>"], [[0.5, 1.5], [1, 2], [0, 0]]),
        (
            "the 0.5 1\n. . . 2 3\n2004 4 5\nat name@domain.com 6 7\n\u00a0 8 9\n",
            ["the", ". . .", "2004", "at name@domain.com", "\u00a0"],
            [[0.5, 1], [2, 3], [4, 5], [6, 7], [8, 9]],
        ),
        ("new york\t0.5\t1\nparis\t2\t3\n", ["new york", "paris"], [[0.5, 1], [2, 3]]),
        ("2 2\nchapter 4 0.5 1\nking 2 3\n", ["chapter 4", "king"], [[0.5, 1], [2, 3]]),
    ],
    ids=["plain", "header with n and d", "spaces and numbers in words", "tabs", "number in the first word"],
)
def test_each_line_holds_word_and_numbers(tmp_path, content, words, x):
    contents = opened(tmp_path, content)
    assert contents.parts == [Part(name="vectors", n=len(x), d=2, dtype="float64")]
    assert (list(contents.values("words")), matrix(contents)) == (words, x)
    assert contents.annotations[0].n_distinct == len(words)


def test_lines_starting_with_decimals_have_no_words(tmp_path):
    np.savetxt(tmp_path / "saved.txt", [[1, -2.5], [0.25, 4]])
    for content in ((tmp_path / "saved.txt").read_text(), "   1.0  -2.5\n  .25   4\n", "1e0\t-2.5\n0.25\t4\n"):
        contents = opened(tmp_path, content)
        assert contents.parts == [Part(name="vectors", n=2, d=2, dtype="float64")]
        assert (matrix(contents), contents.annotations) == ([[1, -2.5], [0.25, 4]], [])
    for content in ("2 1\n0.5 1\n1.5 2\n", "0.5 1\nking 2\n"):
        assert len(list(opened(tmp_path, content).values("words"))) == 2
    with pytest.raises(InvalidError, match="Line 2 has 3 numbers, expected 2 as in the first line"):
        opened(tmp_path, "0.5 1\n0.5 1 2\n")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "not a file of word vectors: after '' its first line has 0 numbers, not 1 to 65,536"),
        ("\x1e", "not a file of word vectors: after .* its first line has 0 numbers"),
        ("word\nother\n", "after 'word' its first line has 0 numbers, .* If it is a table, name it .csv or .tsv"),
        ("3 2\nking 1 2\nqueen 3 4\n", "The first line declares 3 words, and 2 lines follow: the file was cut off"),
        ("0 2\n", "The first line declares 0 words, and 0 lines follow"),
        ("1 2\nking 1 2 3 4\n", "The first line declares 2 numbers a word, but 4 follow each word"),
        ("2 3\nking 1 2\nqueen 3 4\n", "Line 2 has 2 numbers behind its word, expected 3 as in the first line"),
        ("king 1 2\nqueen 3\n", "Line 2 has 1 number behind its word, expected 2"),
        ("king 1 2\n\nqueen 3 4\n", "Line 2 has 0 numbers behind its word, expected 2"),
        ("9 999999\nking 1 2\n", "its first line has 999,999 numbers, not 1 to 65,536"),
    ],
)
def test_inconsistent_counts_are_refused(tmp_path, content, sentence):
    with pytest.raises(InvalidError, match=sentence):
        opened(tmp_path, content)


def test_plain_text_is_referred_to_encodings(tmp_path):
    contents = opened(tmp_path, "hello world\n")
    sentence = r"a word and 1 number with .* If these are texts, encode them under Encodings\."
    with pytest.raises(InvalidError, match=sentence):
        list(contents.rows("vectors", 10))
    with pytest.raises(InvalidError, match=r"If these are texts, encode them under Encodings\."):
        opened(tmp_path, "hello\n")


@pytest.mark.parametrize("line", ["pawn 1 x", "pawn 1  2", "hello great world"])
def test_word_in_place_of_number_is_refused_by_line(tmp_path, line):
    with pytest.raises(InvalidError, match=r"Line 2 has '.*' where a number belongs. A line of word vectors is a word"):
        matrix(opened(tmp_path, f"king 1 2\n{line}\n"))


X = np.random.default_rng(0).standard_normal((50, 6)).astype("<f4")


def content(words, newline=b"\n", n=None, d=6):
    records = (word.encode() + b" " + row.tobytes() + newline for word, row in zip(words, X, strict=True))
    return f"{len(words) if n is None else n} {d}\n".encode() + b"".join(records)


WORDS = [f"wört_{i}" for i in range(50)]


def opened_binary(tmp_path, content):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    return Word2VecBinary(path)


@pytest.mark.parametrize("newline", [b"\n", b""])
@pytest.mark.parametrize("read_bytes", [1, 2**20])
def test_words_and_vectors_are_read_with_and_without_newlines(tmp_path, monkeypatch, newline, read_bytes):
    monkeypatch.setattr(word2vec, "READ_BYTES", read_bytes)
    contents = opened_binary(tmp_path, content(WORDS, newline))
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
def test_inconsistent_binary_counts_are_refused(tmp_path, changed, sentence):
    with pytest.raises(InvalidError, match=sentence):
        list(opened_binary(tmp_path, changed).rows("vectors", 100))
