"""The one device that a run trains on."""

import os
import platform

import torch


def choose_device(device: str) -> None:
    """Make a GPU the only one that this process sees; otherwise the Trainer would spread each batch over all.

    For the job's own process, before CUDA is used in it.
    """
    if device.startswith("cuda"):
        number = torch.device(device).index or 0
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number] if visible else str(number)


def device_name(device: torch.device) -> str:
    """Return the name of the GPU or processor, as its maker calls it if that can be told."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()
