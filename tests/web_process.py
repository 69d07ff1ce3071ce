"""The web process alone, as a subprocess: no worker is there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from app.settings import Settings
from tests.ports import free_port
from tests.waiting import wait_for


@contextmanager
def served(settings: Settings, port: int = 0) -> Iterator[str]:
    """The web process as it really runs; yields its address."""
    port = port or free_port()
    environment = os.environ | {
        "ISOSCOPE_DATA_DIR": str(settings.data_dir),
        "ISOSCOPE_DATABASE_URL": settings.database_url,
        "ISOSCOPE_QUEUE_URL": settings.queue_url,
        "ISOSCOPE_PORT": str(port),
        "HF_HUB_OFFLINE": "1",
    }
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "-m", "app"], env=environment) as process:

        def answers() -> bool:
            assert process.poll() is None, f"the web process ended with {process.returncode}"
            try:
                return httpx2.get(f"{address}/api/health").is_success
            except httpx2.TransportError:
                return False

        try:
            wait_for(answers, 60)
            yield address
        finally:
            process.terminate()
