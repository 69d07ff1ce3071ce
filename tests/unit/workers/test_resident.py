import os
import subprocess
import sys

import pytest

from app.core.process import machine_memory
from workers.process import read_group_memory


def test_machine_memory_matches_kernel_and_missing_group_has_none():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 50_000_000 < machine_memory() <= pages * 1.01
    assert read_group_memory(2**22 + 1) == (None, None)


@pytest.mark.slow
def test_group_memory_gives_current_and_peak():
    hold = "import sys; x = bytearray(80_000_000); del x; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        now, peak = read_group_memory(process.pid)
        process.stdin.close()
    assert peak > 80_000_000
    assert 1_000_000 < now < 80_000_000
