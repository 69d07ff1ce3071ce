"""Time a matrix product and a layer on a worker's device as it starts; estimates of sweeps use these times."""

import logging
import os
import time
from collections.abc import Callable
from functools import partial

import torch
from sqlalchemy import update
from torch import nn
from torch.nn import functional

from app.core.process import die_with_parent
from app.core.settings import Settings
from app.core.training_cost import MachineSpeed
from app.db.models import Worker
from app.db.session import error_line
from workers.failure import DATABASE_ERRORS
from workers.job_rows import job_sessions
from workers.models import device_name, hide_other_gpus

PRODUCT_SIZES = {"cpu": 1024, "cuda": 8192, "mps": 2048}
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
HIDDEN_STATE_SHAPES = {"cpu": (2048, 1024), "cuda": (8192, 1024), "mps": (4096, 1024)}
LAYERS = 20
REPEATS = 3
SLOW_SECONDS = 0.3
"""Work that takes longer is timed once: a product takes seconds on a processor without bfloat16."""

logger = logging.getLogger(__name__)


def write_speed(slot: str, device: str, settings: Settings) -> None:
    """Time this worker's device and store its speed in the worker's row; runs in its own process."""
    die_with_parent()
    os.nice(1)
    try:
        hide_other_gpus(device)
        torch_device = torch.device(device.partition(":")[0])
        speed = measure_speed(torch_device, device_name(torch_device))
        with job_sessions(settings).begin() as session:
            session.execute(update(Worker).where(Worker.slot == slot).values(speed=speed))
    except DATABASE_ERRORS as error:
        logger.warning("the speed of %s could not be stored: %s", device, error_line(error))
    except Exception:
        logger.warning("%s could not be timed, so there are no estimates for it", device, exc_info=True)


def measure_speed(device: torch.device, name: str) -> MachineSpeed:
    products = {}
    for precision, dtype in PRECISIONS.items():
        if device.type == "cpu" and precision == "fp16":
            continue
        size = PRODUCT_SIZES.get(device.type, 1024)
        if device.type == "cpu" and precision == "bf16":
            size //= 2
        matrix = torch.randn(size, size, device=device, dtype=dtype)
        products[precision] = 2 * size**3 / _time_best(device, partial(torch.matmul, matrix, matrix))
    shape = HIDDEN_STATE_SHAPES.get(device.type, HIDDEN_STATE_SHAPES["cpu"])
    states = torch.randn(shape, device=device, requires_grad=True)
    tiny_layer = nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32, device=device)
    tiny_states = torch.randn(4, 2, 16, device=device)

    def run_elementwise() -> None:
        normed = functional.layer_norm(functional.gelu(states) + states, shape[1:])
        torch.autograd.backward(functional.dropout(normed, 0.1).sum())

    def run_tiny_layers() -> None:
        for _ in range(LAYERS):
            torch.autograd.backward(tiny_layer(tiny_states).sum())

    return MachineSpeed(
        device_name=name,
        products=products,
        element_seconds=_time_best(device, run_elementwise) / states.numel(),
        layer_seconds=_time_best(device, run_tiny_layers) / LAYERS,
    )


def _time_best(device: torch.device, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest call after a first one that warms up, or of the first one if it is slow."""
    seconds: list[float] = []
    while len(seconds) <= REPEATS:
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
        if seconds[0] > SLOW_SECONDS:
            return seconds[0]
    return min(seconds[1:])


def synchronize(device: torch.device) -> None:
    """Wait for a GPU, whose calls return before the work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
