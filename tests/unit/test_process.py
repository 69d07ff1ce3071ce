import logging
import subprocess
import sys

import pytest

from app.core.process import RepeatFilter
from tests.stops import stop_bare_processes

LINGERING = """
import threading
from app.core.process import exit_within
exit_within(0.2)
threading.Thread(target=threading.Event().wait).start()
"""


@pytest.mark.slow
def test_process_stops_at_once_even_if_thread_hangs():
    assert stop_bare_processes(100) < 5
    assert subprocess.run([sys.executable, "-c", LINGERING], timeout=30, check=False).returncode == 1


def test_repeated_message_is_logged_once_in_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    repeats = RepeatFilter()

    def passes(message, error=None, **extra):
        return repeats.filter(
            logging.makeLogRecord({"msg": message, "exc_info": error and (None, error, None)} | extra)
        )

    assert [passes("full"), passes("full"), passes("other"), passes("full", OSError(24))] == [True, False, True, True]
    now[0] += 10
    assert [passes("full"), passes("full")] == [True, False]
    assert [passes(f"refused {n} ms", repeat_key="1.2.3.4 401") for n in range(2)] == [True, False]
    assert [passes("seen", repeat_key=None) for _ in range(2)] == [True, True]
