import os

import torch

from isoscope.threads import wait_briefly
from workers.training.ddp_sync import sharing_cores


def test_threads_wait_briefly_unless_the_user_says_how_long(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # so that what follows is undone
    monkeypatch.delenv("GOMP_SPINCOUNT")
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "5"


def test_steps_that_are_tried_have_the_threads_of_one_of_several_processes():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        with sharing_cores(2):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 4
        with sharing_cores(9):
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
