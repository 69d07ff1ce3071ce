import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy_format

from isotropy.cloud import PAIR_ROWS

ROWS, DIMENSIONS, BLOCK_ROWS = 5_000_000, 768, 50_000
DISK_BYTES = 20 * 10**9
MAX_ANONYMOUS_BYTES = 1.5 * 10**9
SPREADS = np.linspace(0.5, 1.5, DIMENSIONS, dtype=np.float32)
MEAN = 0.25


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
