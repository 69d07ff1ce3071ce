"""The readers of uploads under a fuzzer, for ISOSCOPE_FUZZ_SECONDS (60) each."""

import os
import random
import re
import subprocess
import sys

import pytest

from app.sandbox import run_in_sandbox
from isoscope.core.errors import InvalidError
from tests.uploads.good import GOOD
from tests.uploads.mutation import mutate
from tests.uploads.reading import read_uploads

SECONDS = int(os.environ.get("ISOSCOPE_FUZZ_SECONDS", "60"))
LIBRARY_FORMATS = ("wide.parquet", "list.parquet", "x.h5")
# Small, because files after one that ends the process are not read. A batch takes about a second.
BATCH = 20
BATCHES = max(SECONDS, 1)
GIB = 2**30


@pytest.mark.parametrize("name", [name for name in GOOD if name not in LIBRARY_FORMATS])
def test_own_reader_reads_or_refuses_fuzzed_files(name, figures):
    pytest.importorskip("atheris", reason="atheris, the fuzzer, has no build for this system")
    command = [sys.executable, "-m", "tests.uploads.fuzz", name, f"-max_total_time={SECONDS}", "-seed=1"]
    process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS + 120)
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-6000:]
    runs, branches = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+)", process.stderr)[0]
    figures.append(f"fuzzer, {name}: {int(runs):,} files, {branches} branches, none failed")


@pytest.mark.parametrize("name", LIBRARY_FORMATS)
def test_library_reader_reads_refuses_or_ends_its_process(name, tmp_path, figures):
    chance = random.Random(name)
    counts = {"taken for data": 0, "refused": 0}
    ended = 0
    for _ in range(BATCHES):
        for i in range(BATCH):
            (tmp_path / str(i)).write_bytes(mutate(GOOD[name], chance))
        try:
            results, _ = run_in_sandbox(read_uploads, tmp_path, [name] * BATCH, memory_bytes=4 * GIB, seconds=20)
        except InvalidError:  # the process died or hung, as HDF5 may
            ended += 1
            continue
        assert set(results) <= counts.keys()
        for outcome in results:
            counts[outcome] += 1
    read = sum(counts.values())
    figures.append(f"mutations, {name}: {read:,} files, {counts}, the process ended {ended} times")
    assert read > BATCHES * BATCH / 2
