"""What a job that runs a model ran on: with its configuration, all that is needed to repeat it."""

import platform
from importlib.metadata import version
from typing import Any

import torch

from workers.device import device_name
from workers.models import Source

PACKAGES = ("accelerate", "datasets", "numpy", "scikit-learn", "tokenizers", "torch", "transformers")


def describe_environment(source: Source, device: torch.device, max_length: int) -> dict[str, Any]:
    """Return versions, hashes and the device, as they go into the row."""
    return {
        "model": {"revision": source.revision, "weights_sha256": source.weights_sha256()},
        "max_length": max_length,
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: version(package) for package in PACKAGES},
    }
