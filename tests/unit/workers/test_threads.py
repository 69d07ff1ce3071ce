import os

from isoscope.threads import limit_thread_spinning


def test_threads_spin_briefly_unless_configured(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")  # registers the variable for cleanup
    monkeypatch.delenv("GOMP_SPINCOUNT")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "5")
    limit_thread_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "5"
