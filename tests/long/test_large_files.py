import hashlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.lib import format as npy_format

from isotropy.cloud import PAIR_ROWS

ROWS, DIMENSIONS, BLOCK_ROWS = 5_000_000, 768, 50_000
DISK_BYTES = 20 * 10**9
MAX_ANONYMOUS_BYTES = 1.5 * 10**9
SPREADS = np.linspace(0.5, 1.5, DIMENSIONS, dtype=np.float32)
MEAN = 0.25
UPLOADED_ROWS, UPLOADED_DIMENSIONS = 262_144, 1024
SHARD_ROWS = 4096
MAX_GROWTH_BYTES = 100 * 10**6
BOUNDARY = "isoscope-boundary"
HEAD = (
    f"--{BOUNDARY}\r\n"
    'Content-Disposition: form-data; name="file"; filename="large.npy"\r\n'
    "Content-Type: application/octet-stream\r\n\r\n"
).encode()
TAIL = f"\r\n--{BOUNDARY}--\r\n".encode()


@pytest.fixture
def large_file(tmp_path):
    if (free := shutil.disk_usage(tmp_path).free) < DISK_BYTES:
        pytest.skip(f"20 GB of disk are needed, {free / 10**9:.0f} GB are free")
    path = tmp_path / "large.npy"
    header = npy_format.header_data_from_array_1_0(np.empty((1, DIMENSIONS), "<f4")) | {"shape": (ROWS, DIMENSIONS)}
    with path.open("wb") as stream:
        npy_format.write_array_header_1_0(stream, header)
        for block in range(ROWS // BLOCK_ROWS):
            generator = np.random.default_rng([7, block])
            rows = generator.standard_normal((BLOCK_ROWS, DIMENSIONS), dtype=np.float32)
            stream.write((rows * SPREADS + np.float32(MEAN)).tobytes())
    yield path
    path.unlink()


def anonymous_bytes(pid: int) -> int:
    """Return the memory of a process that no file backs, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="anonymous memory is read from /proc")
def test_five_million_rows_are_scored_in_bounded_memory(large_file, tmp_path, figures):
    began, highest = time.monotonic(), 0
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "isoscope", "score", str(large_file), "--json"]
    # A pipe that is read only at the end would fill up.
    with report.open("w") as out, subprocess.Popen(command, stdout=out) as process:
        while process.poll() is None:
            highest = max(highest, anonymous_bytes(process.pid))
            time.sleep(0.05)
    document = json.loads(report.read_text())
    seconds = time.monotonic() - began
    figures.append(f"{ROWS:,} x {DIMENSIONS}: {highest / 10**9:.2f} GB of anonymous memory, {seconds:.0f} s")
    assert highest < MAX_ANONYMOUS_BYTES

    variances = SPREADS.astype(float) ** 2
    ratio = variances.sum() ** 2 / (variances**2).sum()
    assert document["n"]["value"] == ROWS
    assert document["isoscore"]["value"] == pytest.approx((ratio - 1) / (DIMENSIONS - 1), rel=1e-3)
    assert document["isoscore_unbiased"]["value"] == pytest.approx((ratio - 1) / (DIMENSIONS - 1), rel=1e-3)
    energy = DIMENSIONS * MEAN**2
    assert document["mean_share"]["value"] == pytest.approx(energy / (energy + variances.sum()), rel=1e-3)
    # Along the mean, Z is exp(±|mean|) times a common factor; all other directions lie between.
    assert document["partition_log"]["value"] == pytest.approx(-2 * energy**0.5, rel=1e-2)
    assert document["twonn"]["n"] == PAIR_ROWS


def large_npy() -> Iterator[bytes]:
    header = npy_format.header_data_from_array_1_0(np.empty((1, UPLOADED_DIMENSIONS), "<f4")) | {
        "shape": (UPLOADED_ROWS, UPLOADED_DIMENSIONS)
    }
    text = repr(header).encode()
    yield b"\x93NUMPY\x01\x00" + (len(text)).to_bytes(2, "little") + text
    block = np.random.default_rng(0).standard_normal((SHARD_ROWS, UPLOADED_DIMENSIONS)).astype("<f4")
    for i in range(UPLOADED_ROWS // SHARD_ROWS):
        yield (block + i).tobytes()


def body() -> Iterator[bytes]:
    yield HEAD
    yield from large_npy()
    yield TAIL


@contextmanager
def watched_memory(process: psutil.Process) -> Iterator[list[int]]:
    """Yield a growing list of the resident memory of a process, in bytes."""
    samples, ended = [process.memory_info().rss], threading.Event()

    def sample() -> None:
        while not ended.wait(0.05):
            samples.append(process.memory_info().rss)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def server(serving, tmp_path):
    (tmp_path / "spool").mkdir()
    return serving(TMPDIR=str(tmp_path / "spool"))


def test_large_upload_is_stored_once_in_little_memory(server, figures):
    web = server.child("-m app")
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    hashed = hashlib.sha256()
    for block in large_npy():
        hashed.update(block)
    with watched_memory(web) as samples:
        for _ in range(2):
            answer = server.post("/api/embeddings", content=body(), headers=headers, seconds=600)
    growth = max(samples) - samples[0]
    figures.append(f"upload of 1.07 GB, twice: the web process grew by {growth / 10**6:.0f} MB at most")
    assert growth < MAX_GROWTH_BYTES
    assert answer["files"][0]["file_sha256"] == hashed.hexdigest()
    stored = list((server.data_dir / "files").iterdir())
    assert [path.name for path in stored] == [hashed.hexdigest()]
    assert stored[0].stat().st_size > 10**9


def begin_upload(server, megabytes: int) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    head = f"POST /api/embeddings HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 1000000000\r\n"
    connection.sendall(f"{head}Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode() + HEAD)
    for _ in range(megabytes):
        connection.sendall(bytes(10**6))
    return connection


def spooled_files(process: psutil.Process, folder: Path) -> list[str]:
    files = []
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            files.append(str(descriptor.readlink()))
    return [file for file in files if file.startswith(str(folder))]


@pytest.mark.skipif(sys.platform != "linux", reason="open files are read from /proc")
@pytest.mark.parametrize("ending", ["aborted", "killed"])
def test_broken_upload_leaves_nothing(server, tmp_path, ending):
    folder = tmp_path / "spool"
    web = server.child("-m app")
    with begin_upload(server, megabytes=50) as connection:
        server.wait_for(lambda: spooled_files(web, folder), "the upload to be spooled")
        if ending == "aborted":
            connection.close()
            server.wait_for(lambda: not spooled_files(web, folder), "the spooled bytes to go")
        else:
            web.kill()
            server.wait_for(server.answers, "the web process to be back")
    assert [path for path in folder.iterdir() if path.is_file()] == []
    assert list((server.data_dir / "files").iterdir()) == []
    assert server.get("/api/embeddings") == []
