import asyncio
import dataclasses

import pytest
import torch

from app.core.devices import TorchDevice
from app.db.job_kinds import CURVE, Job
from app.db.models import RunStatus
from isoscope.core.errors import UnavailableError
from workers import failure
from workers.failure import DeviceLostError
from workers.process import DEVICE_LOST, JobProcesses
from workers.training.job import fine_tune
from workers.training.trainer import IsotropyTrainer

GPU_ERROR = torch.AcceleratorError("CUDA error: unspecified launch failure")
NO_GPU = RuntimeError("No CUDA GPUs are available")


@pytest.fixture
def lose_device(monkeypatch):
    """Make training fail as on a GPU; a new process then gets these devices, or this error."""

    def lose_device(answer, error=GPU_ERROR):
        def compute_loss(*_, **__):
            raise error

        def ask_torch():
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(IsotropyTrainer, "compute_loss", compute_loss)
        monkeypatch.setattr(failure, "ask_torch", ask_torch)

    return lose_device


@pytest.mark.parametrize("error", [GPU_ERROR, NO_GPU])
@pytest.mark.parametrize("answer", [[TorchDevice("cpu")], UnavailableError("Torch is installed and does not start.")])
def test_run_on_lost_device_is_not_failed(settings, make_run, get_run, lose_device, answer, error):
    lose_device(answer, error)
    run_id = make_run()
    with pytest.raises(DeviceLostError):
        fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error) == (RunStatus.RUNNING, None)


def raise_lost_device(*_):
    raise DeviceLostError


def test_process_on_lost_device_has_its_exit_code(settings):
    kind = dataclasses.replace(CURVE, work=f"{__name__}:{raise_lost_device.__name__}")
    assert asyncio.run(JobProcesses(settings, "cpu").run(Job(kind, "row"))) == DEVICE_LOST


def test_error_on_working_device_fails_run(settings, make_run, get_run, lose_device):
    lose_device([TorchDevice("cuda:0"), TorchDevice("cpu")])
    fine_tune(run_id := make_run(), settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error) == (RunStatus.FAILED, f"AcceleratorError: {GPU_ERROR}")


def test_run_never_falls_back_to_cpu(settings, make_run):
    with pytest.raises(DeviceLostError):
        fine_tune(make_run(), settings, "xpu")  # which this machine lacks
