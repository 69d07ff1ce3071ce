import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Iterator

import numpy as np

from tests.uploads.good import GOOD, WORDS, Explosive, Upload, X, npy, npz

PATHS = ("../x", "..\\x", "/etc/x", "C:\\x", "a/../../x")


def hostile_npz() -> Iterator[tuple[str, Upload]]:
    good = npz(zipfile.ZIP_STORED, x=npy(X))
    directory = good.index(b"PK\x01\x02")
    fields = {
        "encrypted": (8, "<H", 1), "compressed by nothing known": (10, "<H", 99), "of another checksum": (16, "<L", 1),
        "of 2 GiB unpacked": (24, "<L", 2**31), "beginning beyond the end": (42, "<L", 10**6),
    }  # fmt: skip
    for case, (offset, form, value) in fields.items():
        content = bytearray(good)
        struct.pack_into(form, content, directory + offset, value)
        yield f"npz with a member {case}", ("x.npz", bytes(content))
    end = good.index(b"PK\x05\x06")
    for case, offset, value in (("directory of 4 GiB", 12, 2**32 - 1), ("directory beyond the end", 16, 10**6)):
        content = bytearray(good)
        struct.pack_into("<L", content, end + offset, value)
        yield f"npz with a {case}", ("x.npz", bytes(content))
    content = bytearray(npz(x=npy(np.zeros((2000, 1000), dtype=np.float32))))
    struct.pack_into("<L", content, content.index(b"PK\x01\x02") + 24, 2**31)
    yield "npz that is a bomb", ("x.npz", bytes(content))
    yield "npz of zeros that unpack 1,000 to 1", ("x.npz", npz(x=npy(np.zeros((20_000, 1000), dtype=np.float32))))
    for path in PATHS:
        yield f"npz with a member called {path!r}", ("x.npz", archive({f"{path}.npy": npy(X)}))
    yield "npz with two members of a name", ("x.npz", archive([("x.npy", npy(X)), ("x.npy", npy(X))]))
    yield "npz with a member that is no array", ("x.npz", archive({"x.npy": npy(X), "run.sh": b"rm -rf /"}))
    yield "npz with a pickled member", ("x.npz", npz(x=pickle.dumps(Explosive())))
    objects = npy(np.array([Explosive()], dtype=object), allow_pickle=True)
    yield "npz with an array of objects", ("x.npz", npz(x=objects))
    yield "npz in an npz", ("x.npz", npz(x=GOOD["x.npz"]))
    yield "npz of 1,001 members", ("x.npz", npz(**{f"m{i}": b"" for i in range(1001)}))
    yield "npz without members", ("x.npz", archive({}))
    yield "npz compressed by bzip2", ("x.npz", npz(zipfile.ZIP_BZIP2, x=npy(X)))
    yield "npz compressed by lzma", ("x.npz", npz(zipfile.ZIP_LZMA, x=npy(X)))
    yield "npz whose member is longer than it says", ("x.npz", npz(x=npy(X) + b"1234"))
    yield "npz of text alone", ("x.npz", npz(words=npy(np.array(WORDS))))


def archive(members) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as file:
        warnings.simplefilter("ignore")  # duplicate names are intended
        for name, content in dict(members).items() if isinstance(members, dict) else members:
            file.writestr(name, content)
    return buffer.getvalue()
