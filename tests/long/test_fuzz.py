"""The readers of uploads under a fuzzer, for ISOSCOPE_FUZZ_SECONDS (60) each."""

import os
import random
import re
import struct
import subprocess
import sys

import pytest

from app.errors import InvalidError
from app.sandbox import run_in_sandbox
from tests.uploads.good import GOOD
from tests.uploads.reading import outcomes

SECONDS = int(os.environ.get("ISOSCOPE_FUZZ_SECONDS", "60"))
OF_LIBRARIES = ("wide.parquet", "list.parquet", "x.h5")
MUTANTS = 200
ROUNDS = max(SECONDS // 10, 1)
GIB = 2**30


@pytest.mark.parametrize("name", [name for name in GOOD if name not in OF_LIBRARIES])
def test_a_reader_of_ours_reads_or_refuses_whatever_the_fuzzer_finds(name, figures):
    pytest.importorskip("atheris", reason="atheris, the fuzzer, has no build for this system")
    command = [sys.executable, "-m", "tests.uploads.fuzz", name, f"-max_total_time={SECONDS}", "-seed=1"]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS + 120)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-6000:]
    runs, branches = re.findall(r"#(\d+)\s+DONE\s+cov: (\d+)", found.stderr)[0]
    figures.append(f"fuzzer, {name}: {int(runs):,} files, {branches} branches, none failed")


def mutated(content, chance):
    """The bytes with a few changed, cut out, doubled, or replaced by the numbers that break counters."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        i = chance.randrange(len(changed))
        match chance.randrange(5):
            case 0:
                changed[i] = chance.randrange(256)
            case 1:
                changed[i] ^= 1 << chance.randrange(8)
            case 2 if i:
                del changed[i : i + chance.randint(1, 16)]
            case 3:
                changed[i:i] = changed[i : i + chance.randint(1, 16)]
            case _:
                changed[i : i + 4] = struct.pack("<L", chance.choice([0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1]))
    return bytes(changed)


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_a_reader_of_a_library_reads_or_refuses_and_at_worst_its_process_ends(name, tmp_path, figures):
    chance = random.Random(name)
    counts = {"taken for data": 0, "refused": 0}
    ended = 0
    for _ in range(ROUNDS):
        for i in range(MUTANTS):
            (tmp_path / str(i)).write_bytes(mutated(GOOD[name], chance))
        try:
            found, _ = run_in_sandbox(outcomes, str(tmp_path), [name] * MUTANTS, memory_bytes=4 * GIB, seconds=120)
        except InvalidError:  # the sentence by which the sandbox tells that its process died
            ended += 1
            continue
        assert set(found) <= counts.keys()
        for came in found:
            counts[came] += 1
    figures.append(f"mutations, {name}: {ROUNDS * MUTANTS:,} files, {counts}, the process ended {ended} times")
    assert ended < ROUNDS
