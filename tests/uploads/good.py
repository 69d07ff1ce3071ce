"""A small valid file of every embedding format; hostile files are made from these."""

import io
import json
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

N, D = 12, 4
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
WORDS = [f"w{i}" for i in range(N)]
Upload = tuple[str, bytes]  # file name and bytes
COLUMNS = [f"x{j}" for j in range(D)]


class Explosive:
    """Raises when unpickled."""

    def __reduce__(self):
        return exec, ("raise AssertionError('a pickle was loaded')",)


def noise(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


def npy(array: np.ndarray, **kwargs) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **kwargs)
    return buffer.getvalue()


def npz(compression: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def parquet(table: pa.Table, **kwargs) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **kwargs)
    return buffer.getvalue()


def hdf5(**datasets) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return buffer.getvalue()


def delimited(separator: str, rows=X, header=("word", *COLUMNS)) -> bytes:
    lines = [separator.join(header)]
    lines += [separator.join([word, *(f"{value:.6f}" for value in row)]) for word, row in zip(WORDS, rows, strict=True)]
    return "\n".join([*lines, ""]).encode()


def jsonl(rows=X) -> bytes:
    objects = [{"word": f"w{i}", "vector": list(map(float, row))} for i, row in enumerate(rows)]
    return "".join(f"{json.dumps(document)}\n" for document in objects).encode()


def word2vec(header: str = f"{N} {D}\n", rows=X) -> bytes:
    lines = [" ".join([f"w{i}", *(f"{value:.6f}" for value in row)]) for i, row in enumerate(rows)]
    return (header + "\n".join([*lines, ""])).encode()


def word2vec_binary(header: str = f"{N} {D}\n", rows=X) -> bytes:
    records = [f"w{i} ".encode() + row.astype("<f4").tobytes() for i, row in enumerate(rows)]
    return header.encode() + b"".join(records)


GOOD = {
    "x.npy": npy(X), "x.npz": npz(x=npy(X), words=npy(np.array(WORDS))),
    "x.safetensors": save({"x": X, "label": np.arange(N) % 3}),
    "wide.parquet": parquet(pa.table({"word": WORDS} | {name: X[:, j] for j, name in enumerate(COLUMNS)})),
    "list.parquet": parquet(pa.table({"word": WORDS, "vector": list(map(list, X.tolist()))})),
    "x.h5": hdf5(x=X, word=WORDS), "x.csv": delimited(","), "x.tsv": delimited("\t"), "x.jsonl": jsonl(),
    "x.vec": word2vec(), "x.bin": word2vec_binary(),
}  # fmt: skip
