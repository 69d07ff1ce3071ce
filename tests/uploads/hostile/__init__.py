import pickle
from collections.abc import Iterator

from tests.uploads.good import GOOD, Explosive, Upload, delimited, noise
from tests.uploads.hostile import tables
from tests.uploads.hostile.archives import archive, hostile_npz
from tests.uploads.hostile.arrays import hostile_hdf5, hostile_npy, hostile_safetensors

BINARY = ("x.npy", "x.npz", "x.safetensors", "wide.parquet", "list.parquet", "x.h5", "x.bin")
CUTS = (1, 3, 7, 8, 12, 64, 100)
PATHS = ("../../etc/passwd", "/etc/passwd", "..\\..\\boot.ini", "x.npy/../passwd", ".", "..", "CON", "x.npy\0.exe")


def hostile() -> dict[str, Upload]:
    uploads: dict[str, Upload] = {}
    for make in MAKERS:
        for case, upload in make():
            assert case not in uploads, case
            uploads[case] = upload
    return uploads


def _truncated() -> Iterator[tuple[str, Upload]]:
    for name in BINARY:
        content = GOOD[name]
        for cut in CUTS:
            yield f"{name} without its last {cut} bytes", (name, content[:-cut])
        for part in (4, 2):
            yield f"the first 1/{part} of {name}", (name, content[: len(content) // part])


def _something_else() -> Iterator[tuple[str, Upload]]:
    for name in ("x.npy", "x.csv", "x.jsonl", "x.h5", "x.vec"):
        yield f"nothing, named {name}", (name, b"")
    for name in ("x.pt", "x.pkl", "x.npy", "x.csv", "x.bin", "x.joblib"):
        yield f"a pickle named {name}", (name, pickle.dumps(Explosive()))
    kinds = {
        "a program": b"\x7fELF\x02\x01\x01", "gzip": b"\x1f\x8b\x08\0", "zstd": b"\x28\xb5\x2f\xfd",
        "xz": b"\xfd7zXZ\0", "a PDF": b"%PDF-1.7\n", "an image": b"\x89PNG\r\n\x1a\n", "SQLite": b"SQLite format 3\0",
        "GGUF": b"GGUF\x03\0\0\0", "an Arrow file": b"ARROW1\0\0",
        "an Office document": b"PK\x03\x04" + bytes(22) + b"\x13\0\0\0[Content_Types].xml",
        "a zip of something": archive({"readme.txt": b"hello"}), "noise": noise(4000), "zeros": bytes(4000),
    }  # fmt: skip
    for case, head in kinds.items():
        for name in ("x.npy", "x.csv"):
            yield f"{case} named {name}", (name, head + (b"" if case == "a zip of something" else bytes(500)))
    for path in PATHS:
        yield f"a file called {path!r}", (path, delimited(","))


MAKERS = (
    _truncated, hostile_npy, hostile_npz, hostile_safetensors, tables.hostile_parquet, hostile_hdf5,
    tables.hostile_delimited, tables.hostile_jsonl, tables.hostile_word2vec, tables.hostile_word2vec_binary,
    _something_else,
)  # fmt: skip
