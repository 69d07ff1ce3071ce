import io
import json

import numpy as np
import pytest

from workers.files import make_jsonl, make_npy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_npy_stream_reads_back_at_any_read_size(dtype, size):
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(dtype)
    stream = make_npy(10, 3, x.dtype, iter([x[:4], x[4:9], x[9:]]))
    content = b"".join(iter(lambda: stream.read(size), b""))
    read = np.load(io.BytesIO(content), allow_pickle=False)
    assert (read.dtype, read.flags.c_contiguous) == (x.dtype, True)
    assert np.array_equal(read, x)


def test_npy_blocks_are_row_major_and_lazy():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert np.load(io.BytesIO(make_npy(2, 3, x.dtype, [x]).read())).tolist() == x.tolist()
    received = []

    def blocks():
        for i in range(1000):
            received.append(i)
            yield np.zeros((1000, 10), np.float32)

    make_npy(10**6, 10, np.dtype(np.float32), blocks()).read(100_000)
    assert len(received) < 10


def test_jsonl_holds_every_row_and_refuses_unequal_columns():
    rows = [("a", "1"), ('"b"', ""), ("ü\n", "3")] * 3000
    stream = make_jsonl({"name": (row[0] for row in rows), "label": (row[1] for row in rows)})
    assert [tuple(json.loads(line).values()) for line in stream.read().splitlines()] == rows
    with pytest.raises(ValueError, match="shorter"):
        make_jsonl({"name": ["a", "b"], "label": ["c"]}).read()
