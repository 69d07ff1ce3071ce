"""The devices of this machine that torch can use."""

import json
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from isoscope.core.errors import UnavailableError

TORCH_SECONDS = 120
# Run in a separate process, because torch is heavy and may be broken.
TORCH_SCRIPT = """
import json, torch
gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
devices = [(f"cuda:{index}", gpu.total_memory, f"GPU-{gpu.uuid}") for index, gpu in enumerate(gpus)]
print(json.dumps([*devices, *[("mps", None, None)] * torch.backends.mps.is_available(), ("cpu", None, None)]))
"""


class TorchDevice(NamedTuple):
    """A device that torch can use, with its name in torch: cuda:0, mps or cpu."""

    name: str
    memory_bytes: int | None = None
    """None if it uses the memory of the machine."""
    uuid: str | None = None
    """The driver's name of a CUDA device; None for other devices."""


def ask_torch() -> list[TorchDevice]:
    """Start torch and return all devices, the best first. Raise UnavailableError if torch does not start."""
    command = [sys.executable, "-c", TORCH_SCRIPT]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_SECONDS, check=True)  # noqa: S603
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        reason = str(error.stderr or error).strip().splitlines()[-1]
        raise UnavailableError(f"Torch is installed and does not start: {reason}.") from error
    return [TorchDevice(*values) for values in json.loads(process.stdout)]


def list_devices() -> list[TorchDevice]:
    """Return all devices, the best first. Start torch, which takes seconds, only if it may find a GPU."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return [TorchDevice("cpu")]
    version = runpy.run_path(str(Path(torch.origin).with_name("version.py")))
    if sys.platform == "linux" and not version.get("cuda") and not version.get("hip"):
        return [TorchDevice("cpu")]
    return ask_torch()
