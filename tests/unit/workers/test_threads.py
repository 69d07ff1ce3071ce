import os

from isoscope.threads import limit_thread_spinning


def test_threads_wait_briefly_unless_the_user_says_how_long(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # so that what follows is undone
    monkeypatch.delenv("GOMP_SPINCOUNT")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "5"
