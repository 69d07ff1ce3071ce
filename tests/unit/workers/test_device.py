import os

import pytest
import torch

from workers.models import device_name, hide_other_gpus


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
