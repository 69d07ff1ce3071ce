import io
import logging
import os
import pickle
import sys
import time

import psutil
import pytest
import sandboxed

from app.core.settings import Settings
from app.sandbox import OutcomePickler, OutcomeUnpickler, read_in_sandbox, run_in_sandbox
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.text import Quoting
from isoscope.files.upload import NamedFile, Upload

pytestmark = pytest.mark.slow

GIB = 2**30


def run(function, *args, memory_bytes=GIB, seconds=60):
    return run_in_sandbox(function, *args, memory_bytes=memory_bytes, seconds=seconds)


def test_sandbox_returns_result_with_limits_and_without_torch():
    assert run(sandboxed.add, [1], [2, 3]) == [1, 2, 3]
    assert not {"torch", "transformers"} & set(run(sandboxed.modules))
    limits = run(sandboxed.limits, memory_bytes=GIB, seconds=7)
    assert 7 <= limits["RLIMIT_CPU"] <= 30  # the time to start counts
    assert limits["RLIMIT_CORE"] == 0
    if sys.platform == "linux":
        assert GIB < limits["RLIMIT_AS"] < 4 * GIB


def test_sandbox_passes_our_errors_and_hides_others(caplog):
    with pytest.raises(TooLargeError, match="too many rows") as raised:
        run(sandboxed.refuse)
    assert raised.value.field == "vectors"
    with pytest.raises(InvalidError, match=r"stopped unexpectedly \(its process ended with code -6\): check that"):
        run(os.abort)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(InvalidError, match=r"stopped unexpectedly \(it raised KeyError\)") as raised,
    ):
        run(sandboxed.fail)
    assert "a mistake of ours" in caplog.text
    assert "a mistake of ours" not in str(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce RLIMIT_AS")
def test_memory_limit_is_reported():
    with pytest.raises(InvalidError, match=r"needed more than 0\.5 GiB of memory, the limit here: upload a part"):
        run(sandboxed.allocate, 2 * GIB, memory_bytes=GIB // 2)
    assert run(sandboxed.allocate, GIB // 4, memory_bytes=GIB // 2) == GIB // 4


def test_time_limit_ends_process_and_is_reported():
    started = time.monotonic()
    with pytest.raises(InvalidError, match=r"took longer than 1\.5 s, the limit here: upload a part"):
        run(time.sleep, 60, seconds=1.5)
    assert time.monotonic() - started < 30
    assert not [p for p in psutil.Process().children() if "app.sandbox" in " ".join(p.cmdline())]
    with pytest.raises(InvalidError, match="took longer than 2 s"):
        run(sandboxed.spin, seconds=2)


def test_small_files_get_thirty_cpu_seconds(tmp_path):
    path = tmp_path / "a.h5"
    for size_bytes, minimum, maximum in ((10 * 2**20 - 1, 30, 60), (10 * 2**20, 300, 330)):
        with path.open("wb") as file:
            file.truncate(size_bytes)
        limits = read_in_sandbox(Settings(data_dir=tmp_path), sandboxed.limits, Upload((NamedFile(path, path.name),)))
        assert minimum <= limits["RLIMIT_CPU"] <= maximum


@pytest.mark.parametrize(
    "name",
    ["os\nsystem", "isoscope.__main__\nmain", "app.sandbox\nPath", "app.sandbox\nrun_in_sandbox", "datetime\nsys"],
)
def test_result_unpickles_only_our_records(name):
    with pytest.raises(pickle.UnpicklingError, match="is not one of our records"):
        OutcomeUnpickler(io.BytesIO(f"c{name}\n.".encode())).load()
    assert "isoscope.__main__" not in sys.modules


def test_members_of_enums_are_passed_by_every_python(monkeypatch):
    monkeypatch.setattr(Quoting, "__reduce_ex__", lambda member, _: (getattr, (Quoting, member.name)))  # as in 3.11.3
    file = io.BytesIO()
    OutcomePickler(file).dump([Quoting.TEXT])
    assert OutcomeUnpickler(io.BytesIO(file.getvalue())).load() == [Quoting.TEXT]
