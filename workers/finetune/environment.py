"""What a run ran on: with its configuration, all that is needed to repeat it."""

import platform
from importlib.metadata import version
from typing import Any

import torch

from app.db.models import Dataset, DatasetOrigin
from workers.finetune.data import GLUE, GLUE_REVISION
from workers.finetune.device import device_name
from workers.finetune.model import Source

PACKAGES = ("accelerate", "datasets", "numpy", "scikit-learn", "tokenizers", "torch", "transformers")


def describe_environment(source: Source, dataset: Dataset, device: torch.device, max_length: int) -> dict[str, Any]:
    """Return versions, hashes and the device, as they go into the run's row."""
    return {
        "model": {"revision": source.revision, "weights_sha256": source.weights_sha256()},
        "dataset": _dataset(dataset),
        "max_length": max_length,
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def _dataset(dataset: Dataset) -> dict[str, Any]:
    if dataset.origin is DatasetOrigin.GLUE:
        return {"hub": GLUE, "name": dataset.glue_name, "revision": GLUE_REVISION}
    return {"train_sha256": dataset.train_sha256, "validation_sha256": dataset.validation_sha256}
