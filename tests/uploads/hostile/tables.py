import json
import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tests.uploads.good import GOOD, WORDS, D, N, Upload, delimited, jsonl, noise, parquet, word2vec, word2vec_binary

FORMULAS = ("=1+1", "@SUM(A1:A9)", "+cmd|' /C calc'!A0", "-2+3", "=HYPERLINK(0)", "\t=1", "1;=2")
WORD2VEC_HEADERS = {
    "too many rows": f"{N + 1} {D}\n", "too few rows": f"{N - 1} {D}\n", "another width": f"{N} {D + 1}\n",
    "no width": f"{N} 0\n", "a negative width": f"{N} -{D}\n", "a petabyte": f"{10**15} {D}\n",
    "a width of a billion": f"{N} {10**9}\n",
}  # fmt: skip


def hostile_parquet() -> Iterator[tuple[str, Upload]]:
    ragged = [list(map(float, range(1 + i % 3))) for i in range(N)]
    tables = {
        "ragged lists": {"v": ragged}, "lists of text": {"v": [["a", "b"]] * N}, "lists of lists": {"v": [[[1.0]]] * N},
        "a missing list": {"v": [[1.0, 2.0]] * (N - 1) + [None]}, "text alone": {"w": WORDS},
        "structs": {"v": [{"a": 1.0}] * N}, "bytes": {"v": [b"\0\0\0\0"] * N},
        "empty lists": {"v": pa.array([[]] * N, pa.list_(pa.float32()))}, "no rows": {"x": pa.array([], pa.float32())},
    }  # fmt: skip
    for case, columns in tables.items():
        yield f"parquet of {case}", ("x.parquet", parquet(pa.table(columns)))
    good = GOOD["wide.parquet"]
    (length,) = struct.unpack("<L", good[-8:-4])
    for case, declared in (("4 GiB", 2**32 - 1), ("no bytes", 0), ("one byte", 1), ("more than the file", len(good))):
        yield f"parquet with a footer of {case}", ("x.parquet", good[:-8] + struct.pack("<L", declared) + b"PAR1")
    yield "parquet with an encrypted footer", ("x.parquet", good[:-4] + b"PARE")
    yield "parquet that is magic alone", ("x.parquet", b"PAR1PAR1")
    yield "parquet with a footer of zeros", ("x.parquet", good[: -8 - length] + bytes(length) + good[-8:])
    yield "parquet with a footer of noise", ("x.parquet", good[: -8 - length] + noise(length) + good[-8:])
    yield "parquet with values of noise", ("x.parquet", b"PAR1" + noise(len(good) - length - 12) + good[-8 - length :])
    bomb = pa.table({"v": pa.array(np.zeros(30_000_000), pa.float64())})
    yield "parquet that is a bomb of one column", ("x.parquet", parquet(bomb, row_group_size=30_000_000))


def hostile_delimited() -> Iterator[tuple[str, Upload]]:
    for kind, separator in (("csv", ","), ("tsv", "\t")):
        good = delimited(separator)
        name = f"x.{kind}"
        lines = good.splitlines(keepends=True)
        row = separator.join(["w", "1", "2", "3", "4"]).encode()
        for formula in FORMULAS:
            cell = f'"{formula}"' if kind == "csv" else formula.replace("\t", " ")
            broken = separator.join(["w", cell, "2", "3", "4"]).encode()
            yield f"{kind} with {formula!r} for a number", (name, good + broken + b"\n")
        yield f"{kind} with a short line", (name, good + row[:-2] + b"\n")
        yield f"{kind} with a long line", (name, good + row + separator.encode() + b"5\n")
        yield f"{kind} with a NUL", (name, good + row[:-1] + b"\0\n")
        yield f"{kind} in latin-1", (name, good + "é".encode("latin-1") + row[1:] + b"\n")
        yield f"{kind} in UTF-16", (name, good.decode().encode("utf-16"))
        yield f"{kind} of blank lines", (name, b"\n" * 50)
        yield f"{kind} of a header alone", (name, lines[0])
        yield f"{kind} with a column twice", (name, good.replace(b"x1", b"x0", 1))
        yield f"{kind} with 70,000 columns", (name, separator.join(["1"] * 70_000).encode() + b"\n")
        yield f"{kind} that is one line of 20 MB", (name, b"1" * 20_000_000)
        yield f"{kind} of hexadecimal numbers", (name, good.replace(b"0.", b"0x"))
        yield f"{kind} with a word where a number was", (name, good + row.replace(b"3", b"three") + b"\n")
        yield f"{kind} that is a web page", (name, b"<!doctype html>\n<title>Not found</title>\n")
    yield "csv with an open quote", ("x.csv", delimited(",") + b'"w,1,2,3,4\n' * 3)
    yield "csv with a quote inside", ("x.csv", delimited(",") + b'"w"x",1,2,3,4\n')


def hostile_jsonl() -> Iterator[tuple[str, Upload]]:
    good = jsonl()
    lines = {
        "deep JSON": b'{"vector": ' + b"[" * 50_000, "deep objects": b'{"a":' * 50_000, "a list": b"[1, 2, 3, 4]",
        "a number": b"5", "no JSON": b"{vector: [1]}", "a short vector": b'{"word": "w", "vector": [1, 2, 3]}',
        "a long vector": b'{"word": "w", "vector": [1, 2, 3, 4, 5]}', "no vector": b'{"word": "w"}',
        "a vector of text": b'{"word": "w", "vector": ["1", "2", "3", "4"]}',
        "a vector of lists": b'{"word": "w", "vector": [[1], [2], [3], [4]]}',
        "a vector of truth values": b'{"word": "w", "vector": [true, true, true, true]}',
        "a number of 10,000 digits": b'{"word": "w", "vector": [1, 2, 3, ' + b"9" * 10_000 + b"]}",
        "a key twice": b'{"word": "w", "word": "v", "vector": [1, 2, 3, 4]}',
        "a half character": b'{"word": "\xff", "vector": [1, 2, 3, 4]}',
        "a NUL": b'{"word": "\0", "vector": [1, 2, 3, 4]}', "half an object": b'{"word": "w", "vector": [1, 2',
        "two objects": b"{} {}", "a comment": b"// {}",
    }  # fmt: skip
    for case, line in lines.items():
        yield f"jsonl with a line that is {case}", ("x.jsonl", good + line + b"\n")
    yield "jsonl of text alone", ("x.jsonl", b'{"word": "w"}\n' * N)
    yield "jsonl of empty objects", ("x.jsonl", b"{}\n" * N)
    yield "a JSON document", ("x.json", json.dumps([{"vector": [1.0, 2.0]}]).encode())


def hostile_word2vec() -> Iterator[tuple[str, Upload]]:
    for case, header in WORD2VEC_HEADERS.items():
        yield f"word2vec that declares {case}", ("x.vec", word2vec(header))
    good = word2vec()
    for case, line in {
        "too few numbers": b"w 1 2 3",
        "a word for a number": b"w 1 2 3 four",
        "a formula": b"w 1 2 3 =4",
        "a NUL": b"w 1 2 3 \0",
        "latin-1": b"\xe9 1 2 3 4",
        "a token alone": b"w",
    }.items():
        yield f"word2vec with a line of {case}", ("x.vec", word2vec(f"{N + 1} {D}\n") + line + b"\n")
    yield "word2vec that is a header alone", ("x.vec", f"{N} {D}\n".encode())
    yield "word2vec cut off in a line", ("x.vec", good[:-20])
    yield "word2vec that is prose", ("x.txt", b"Isotropy is how evenly\nthe variance is spread.\n")


def hostile_word2vec_binary() -> Iterator[tuple[str, Upload]]:
    for case, header in WORD2VEC_HEADERS.items():
        yield f"binary word2vec that declares {case}", ("x.bin", word2vec_binary(header))
    good = word2vec_binary()
    end_of_line = good.index(b"\n") + 1
    contents = {
        "without a newline after its header": word2vec_binary(f"{N} {D}"), "that is a header alone": good[:end_of_line],
        "with a word of 20,000 bytes": good[:end_of_line] + b"w" * 20_000 + good[end_of_line:],
        "with words that never end": good[:end_of_line] + b"\xff" * 100_000, "with a tail": good + b"w",
    }  # fmt: skip
    for case, content in contents.items():
        yield f"binary word2vec {case}", ("x.bin", content)
