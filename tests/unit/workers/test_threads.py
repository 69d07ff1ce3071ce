import os

from isoscope.threads import wait_briefly


def test_threads_wait_briefly_unless_the_user_says_how_long(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # so that what follows is undone
    monkeypatch.delenv("GOMP_SPINCOUNT")
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    wait_briefly()
    assert os.environ["GOMP_SPINCOUNT"] == "5"
