import io
import json
import struct
from collections.abc import Iterator

import h5py
import numpy as np
from safetensors.numpy import save

from tests.uploads.good import GOOD, WORDS, D, Explosive, N, Upload, X, hdf5, noise, npy


def hostile_npy() -> Iterator[tuple[str, Upload]]:
    shapes = {
        "negative": f"(-1, {D})", "of text": f"('{N}', {D})", "of fractions": f"({N}.0, {D})", "a number": f"{N}",
        "of truth values": f"(True, {D})", "nested": f"(({N},), {D})", "a list": f"[{N}, {D}]",
        "huge": f"(10**12, {D})", "beyond 64 bits": f"({2**64}, {D})", "of 33 dimensions": f"({'1, ' * 33})",
        "a product": f"({N}*1, {D})", "a call": f"(__import__('os').getpid(), {D})",
        "one row too many": f"({N + 1}, {D})", "one row too few": f"({N - 1}, {D})", "none": "None",
        "four dimensions": f"(2, {N // 2}, {D // 2}, 2)", "empty": f"(0, {D})", "overflowing": f"({2**62}, {2**62})",
    }  # fmt: skip
    for case, shape in shapes.items():
        yield f"npy with a shape {case}", ("x.npy", _npy_file(shape=shape))
    for dtype in ("O", "|O8", "V4", "U8", "<c8", "M8[ns]", "f4,f4", "<f4 ", "f99999999", "__import__", "<f16", ""):
        yield f"npy of dtype {dtype!r}", ("x.npy", _npy_file(descr=repr(dtype)))
    for descr in ("[('a', '<f4')]", "None", "4", "('<f4', (2,))", "{'names': []}"):
        yield f"npy of descr {descr}", ("x.npy", _npy_file(descr=descr))
    for order in ("1", "'no'", "None", "maybe"):
        yield f"npy with fortran_order {order}", ("x.npy", _npy_file(fortran=order))
    headers = {
        "nothing": "", "brackets": "(" * 9000, "a list": "[1, 2]", "no key": "{}",
        "a further key": f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({N}, {D}), 'x': 1}}",
        "a key twice missing": "{'descr': '<f4'}", "a lambda": "(lambda: 1)()", "NUL": "\0" * 60,
        "deep unary": "-" * 9000 + "1",
    }  # fmt: skip
    for case, text in headers.items():
        yield f"npy whose header is {case}", ("x.npy", _with_header(text))
    for version in (b"\0\0", b"\x04\0", b"\xff\xff"):
        yield f"npy of version {version!r}", ("x.npy", b"\x93NUMPY" + version + GOOD["x.npy"][8:])
    yield "npy with a header of 4 GiB", ("x.npy", b"\x93NUMPY\x02\0\xff\xff\xff\xff" + GOOD["x.npy"])
    yield "npy of objects", ("x.npy", npy(np.array([[Explosive()]], dtype=object), allow_pickle=True))
    yield "npy of text", ("x.npy", npy(np.array([["a", "b"]])))
    yield "npy of one dimension", ("x.npy", npy(X[0]))
    yield "npy followed by another", ("x.npy", GOOD["x.npy"] * 2)


def _npy_file(descr: str = "'<f4'", fortran: str = "False", shape: str = f"({N}, {D})") -> bytes:
    return _with_header(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")


def _with_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text.encode() + X.tobytes()


def hostile_safetensors() -> Iterator[tuple[str, Upload]]:
    def entry(dtype="F32", shape=(N, D), offsets=(0, X.nbytes)):
        return {"dtype": dtype, "shape": shape, "data_offsets": offsets}

    headers = {
        "an unknown type": {"x": entry(dtype="F33")}, "a type that is a list": {"x": entry(dtype=["F32"])},
        "a negative shape": {"x": entry(shape=(-N, -D))}, "a shape of text": {"x": entry(shape=(str(N), D))},
        "a shape of fractions": {"x": entry(shape=(N + 0.0, D))}, "a huge shape": {"x": entry(shape=(2**62, 2**62))},
        "too many rows": {"x": entry(shape=(N + 1, D))}, "too few rows": {"x": entry(shape=(N - 1, D))},
        "40 dimensions": {"x": entry(shape=(1,) * 40, offsets=(0, 4))},
        "offsets the wrong way": {"x": entry(offsets=(X.nbytes, 0))}, "one offset": {"x": entry(offsets=(0,))},
        "negative offsets": {"x": entry(offsets=(-4, X.nbytes - 4))},
        "values beyond the end": {"x": entry(offsets=(0, 10**9))}, "a gap": {"x": entry(offsets=(4, X.nbytes + 4))},
        "no entry": {}, "an entry that is a list": {"x": []}, "a missing key": {"x": {"dtype": "F32", "shape": [N, D]}},
        "a further key": {"x": entry() | {"code": "1"}}, "overlapping arrays": {"x": entry(), "y": entry()},
        "one dimension": {"x": entry(shape=(N * D,))},
        "1,001 arrays": {f"x{i}": entry(shape=(0,), offsets=(0, 0)) for i in range(1001)},
    }  # fmt: skip
    for case, header in headers.items():
        yield f"safetensors with {case}", ("x.safetensors", _tensors(json.dumps(header).encode()))
    texts = {
        "deep JSON": b'{"a":' * 9000, "no JSON": b"{" + b"x" * 99, "a JSON list": b"[1]", "latin-1": b'{"\xe9": 1}',
        "a name twice": b'{"x": 1, "x": 1}', "NaN": b'{"x": NaN}',
        "a number of 9,000 digits": b'{"x": ' + b"9" * 9000 + b"}",
    }  # fmt: skip
    for case, text in texts.items():
        yield f"safetensors whose header is {case}", ("x.safetensors", _tensors(text))
    for length in (0, 2**31, 2**63, 2**64 - 1):
        content = struct.pack("<Q", length) + b"{}" + X.tobytes()
        yield f"safetensors with a header of {length} bytes", ("x.safetensors", content)
    yield "safetensors followed by more", ("x.safetensors", save({"x": X}) + b"more")


def _tensors(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + X.tobytes()


def hostile_hdf5() -> Iterator[tuple[str, Upload]]:
    yield "hdf5 that is magic alone", ("x.h5", b"\x89HDF\r\n\x1a\n")
    yield "hdf5 with a superblock of noise", ("x.h5", b"\x89HDF\r\n\x1a\n" + noise(len(GOOD["x.h5"]) - 8))
    yield "hdf5 of text alone", ("x.h5", hdf5(word=WORDS))
    yield "hdf5 without a dataset", ("x.h5", hdf5())
    yield "hdf5 of three dimensions", ("x.h5", hdf5(x=X.reshape(2, -1, D)))
    for case, content in _made_hdf5():
        yield f"hdf5 with {case}", ("x.h5", content)


def _made_hdf5() -> Iterator[tuple[str, bytes]]:
    def content_of(build) -> bytes:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            build(file)
        return buffer.getvalue()

    def link(file):
        file["x"] = h5py.ExternalLink("/etc/passwd", "/x")

    def outside(file):
        file.create_dataset("x", (N, D), "f4", external=[("/etc/passwd", 0, 200)])

    def virtual(file):
        layout = h5py.VirtualLayout((N, D), "f4")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", (N, D))
        file.create_virtual_dataset("x", layout)

    def loop(file):
        file["a/b"] = h5py.SoftLink("/a")

    def hollow(file):
        file.create_dataset("x", (2**40, 768), "f4", chunks=(1024, 768))

    def compound(file):
        file.create_dataset("x", (N, D), np.dtype([("a", "f4")]))

    def references(file):
        file.create_dataset("x", (N, D), h5py.ref_dtype)

    for build, case in (
        (link, "a link to another file"),
        (outside, "values in another file"),
        (virtual, "a window on another file"),
        (loop, "a link to itself"),
        (hollow, "a petabyte that was never written"),
        (compound, "records"),
        (references, "references"),
    ):
        yield case, content_of(build)
