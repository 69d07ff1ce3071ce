import os
import subprocess
import sys

import pytest

from app.core.process import machine_memory
from workers.process import group_memory


def test_the_machine_has_as_much_memory_as_the_kernel_says_and_a_group_that_is_gone_none():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 50_000_000 < machine_memory() <= pages * 1.01
    assert group_memory(2**22 + 1) == (None, None)


@pytest.mark.slow
def test_a_group_s_memory_is_that_of_all_its_processes_now_and_at_most():
    hold = "import sys; x = bytearray(80_000_000); del x; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        now, peak = group_memory(process.pid)
        process.stdin.close()
    assert peak > 80_000_000
    assert 1_000_000 < now < 80_000_000
