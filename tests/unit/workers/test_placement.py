import json
import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from app.core import devices
from app.core.devices import TorchDevice, ask_torch, list_devices
from app.core.process import machine_memory
from app.core.settings import Settings
from app.operations import serve
from isoscope.core.errors import UnavailableError
from isoscope.threads import limit_thread_spinning
from tests.unit.workers.batches import make_config
from workers import placement
from workers.models import device_name, hide_other_gpus
from workers.placement import Demand, Device, choose_device
from workers.process import read_group_memory
from workers.training.run_spec import describe_smaller_batch, with_smaller_batch

GIB = 2**30
GPUS = [TorchDevice("cuda:0", 80 * GIB, "GPU-a"), TorchDevice("cuda:1", 40 * GIB, "GPU-b"), TorchDevice("cpu")]


@pytest.fixture
def gpu_machine(monkeypatch):
    monkeypatch.setattr(placement, "list_devices", lambda: GPUS)
    monkeypatch.setattr(serve, "list_devices", lambda: GPUS)
    monkeypatch.setattr(placement, "machine_cores", lambda: 16)
    monkeypatch.setattr(placement, "machine_memory", lambda: 64 * GIB)


@pytest.mark.parametrize(
    ("neighbors", "peak_gib", "has_room"),
    [
        ([], 100, True),  # alone, it may always try
        ([8, 8, 8], 8, True),
        ([20, 20, 20], 20, False),  # of 80 GiB, 72 are used
        ([24, 24], 24, True),
        ([None], None, True),
        ([None, 1], None, False),
        ([1] * 7, 1, True),
        ([1] * 8, 1, False),
    ],
)
def test_runs_share_a_gpu_while_count_and_memory_allow(neighbors, peak_gib, has_room):
    def demand(gib):
        return Demand(peak_bytes=None if gib is None else gib * GIB)

    device = Device("here/cuda:0", max_runs=8, memory_bytes=80 * GIB, n_devices=2)
    running = {"here/cuda:0": [demand(gib) for gib in neighbors], "here/cuda:1": [Demand()] * 8}
    assert device.has_room(demand(peak_gib), running) is has_room


ONE_PROCESS, TWO_PROCESSES, WHOLE_DEVICE = Demand(peak_bytes=1), Demand(processes=2), Demand(whole_device=True)


@pytest.mark.parametrize(
    ("demand", "running", "has_room"),
    [
        (TWO_PROCESSES, {}, True),
        (TWO_PROCESSES, {"here/cuda:0": [ONE_PROCESS]}, True),  # it takes devices 1 and 2
        (TWO_PROCESSES, {"here/cuda:2": [ONE_PROCESS]}, False),
        (TWO_PROCESSES, {"there/cuda:1": [ONE_PROCESS], "there/cuda:2": [TWO_PROCESSES]}, True),
        (ONE_PROCESS, {"here/cuda:0": [TWO_PROCESSES]}, False),
        (ONE_PROCESS, {"here/cuda:2": [TWO_PROCESSES]}, True),
        (ONE_PROCESS, {"here/cuda:1": [WHOLE_DEVICE]}, False),
        (ONE_PROCESS, {"here/cuda:0": [WHOLE_DEVICE]}, True),
        (WHOLE_DEVICE, {"here/cuda:1": [ONE_PROCESS]}, False),
        (WHOLE_DEVICE, {"here/cuda:0": [ONE_PROCESS], "here/cuda:2": [ONE_PROCESS]}, True),
    ],
)
def test_exclusive_runs_wait_for_devices_and_keep_others_off(demand, running, has_room):
    device = Device("here/cuda:1", max_runs=4, memory_bytes=80 * GIB, n_devices=4)
    assert device.has_room(demand, running) is has_room


def test_run_of_several_processes_wraps_around_devices():
    last = Device("here/cuda:3", max_runs=4, n_devices=4)
    assert not last.has_room(TWO_PROCESSES, {"here/cuda:0": [ONE_PROCESS]})
    assert not Device("here/cuda:0", max_runs=4, n_devices=4).has_room(ONE_PROCESS, {"here/cuda:3": [TWO_PROCESSES]})
    assert not Device("here/cpu", max_runs=4).has_room(ONE_PROCESS, {"here/cpu": [TWO_PROCESSES]})


@pytest.mark.parametrize(
    ("requested", "runs_per_device", "device"),
    [
        ("auto", None, ("cuda:0", 8, 80 * GIB, 2, "GPU-a", 1)),
        ("cuda:1", None, ("cuda:1", 8, 40 * GIB, 2, "GPU-b", 1)),
        ("cuda", 3, ("cuda", 3, None, 2, "GPU-a", 2)),
        ("cpu", None, ("cpu", 4, 64 * GIB, 1, None, 4)),
        ("cpu", 1, ("cpu", 1, None, 1, None, None)),
        ("cpu", 32, ("cpu", 32, None, 1, None, 1)),
    ],
)
def test_device_and_its_share_of_threads(tmp_path, gpu_machine, requested, runs_per_device, device):
    settings = Settings(data_dir=tmp_path, worker_name="here", runs_per_device=runs_per_device)
    chosen = choose_device(settings, requested)
    values = (chosen.name, chosen.max_runs, chosen.memory_bytes, chosen.n_devices, chosen.uuid, chosen.threads_per_run)
    assert values == device


def test_serve_starts_worker_for_each_gpu(tmp_path, gpu_machine, monkeypatch):
    assert serve.choose_devices(Settings(data_dir=tmp_path)) == ["cuda:0", "cuda:1"]
    assert serve.choose_devices(Settings(data_dir=tmp_path, device="cuda:1")) == ["cuda:1"]
    monkeypatch.setattr(serve, "list_devices", lambda: [TorchDevice("mps"), TorchDevice("cpu")])
    assert serve.choose_devices(Settings(data_dir=tmp_path)) == ["mps"]

    def fail():
        raise UnavailableError("Torch is installed and does not start.")

    monkeypatch.setattr(serve, "list_devices", fail)
    assert serve.choose_devices(Settings(data_dir=tmp_path)) == ["auto"]


def test_torch_names_the_gpus_of_a_machine(tmp_path, monkeypatch):
    """A simulated torch, because a test machine may have no GPU."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("cuda = '13.0'\nhip = None\n")
    (tmp_path / "torch" / "__init__.py").write_text(
        "from types import SimpleNamespace as S\n"
        "cuda = S(device_count=lambda: 2, get_device_properties=lambda i: S(total_memory=i + 5, uuid=f'id{i}'))\n"
        "backends = S(mps=S(is_available=lambda: False))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = [("cuda:0", 5, "GPU-id0"), ("cuda:1", 6, "GPU-id1"), ("cpu", None, None)]
    assert ask_torch() == expected
    monkeypatch.setattr(devices, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py")))
    assert list_devices() == expected
    (tmp_path / "torch" / "version.py").write_text("cuda = None\n")
    assert list_devices() == [("cpu", None, None)]


def test_second_try_in_a_process_sees_the_same_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    hide_other_gpus("cuda:1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
    hide_other_gpus("cuda:1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"


def test_driver_tells_what_a_gpu_does(monkeypatch):
    driver = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-a": "handle"}[uuid],
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=5 * GIB, total=80 * GIB),
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=93),
    )
    monkeypatch.setattr(placement, "import_module", {"pynvml": driver}.__getitem__)
    load = Device("here/cuda:0", uuid="GPU-a").read_load()
    assert json.loads(load.model_dump_json()) == {
        "busy_percent": 93.0, "used_bytes": 5 * GIB, "total_bytes": 80 * GIB,
    }  # fmt: skip
    assert Device("here/cuda:1", uuid="GPU-unknown").read_load() is None
    assert Device("here/cpu").read_load() is None


@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [("cuda:0", None, "0"), ("cuda:1", None, "1"), ("cuda", "5", "5"), ("cuda:1", "4,7", "7"), ("cpu", "4,7", "4,7")],
)
def test_process_sees_only_its_gpu(monkeypatch, device, visible, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    hide_other_gpus(device)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


def test_device_has_a_name():
    assert device_name(torch.device("cpu"))


def test_threads_spin_briefly_unless_configured(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # registers the variable for cleanup
    monkeypatch.delenv("GOMP_SPINCOUNT")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "5"


config = partial(make_config, regularizer="istar", lam=1)


@pytest.mark.parametrize(
    ("rows", "accumulation", "expected"), [(16, 1, (8, 2)), (2, 4, (1, 8)), (15, 2, (5, 6)), (7, 1, (1, 7))]
)
def test_smaller_batches_keep_rows_per_step(rows, accumulation, expected):
    smaller = with_smaller_batch(config(batch_size=rows, accumulation=accumulation))
    assert (smaller.batch_size, smaller.accumulation) == expected
    assert smaller.batch_size * smaller.accumulation == rows * accumulation


def test_note_states_penalty_rows_and_single_row_cannot_shrink():
    assert with_smaller_batch(config(batch_size=1)) is None
    before = config(batch_size=16, processes=2)
    assert describe_smaller_batch(before, with_smaller_batch(before), 40) == (
        "Memory ran out with 32 rows per batch. From step 41 on, each batch has 16 rows, and each step averages 2 "
        "batches instead of 1, so that it still uses the same number of rows. From then on, each penalty is computed "
        "on 16 rows instead of 32, which changes its value."
    )


@pytest.mark.parametrize("changes", [{"regularizer": "none", "lam": 0}, {"regularizer": "spectrum"}])
def test_note_without_row_penalty_omits_it(changes):
    before = config(**changes)
    note = describe_smaller_batch(before, with_smaller_batch(before), 0)
    assert note.endswith("so that it still uses the same number of rows.")


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
