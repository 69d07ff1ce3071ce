"""Run a dashboard on a data folder as a separate process."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def web_process(folder: str) -> Iterator[str]:
    """Start the web process without a worker, wait for its first answer, yield its URL, and end it."""
    with _running("the web process", ["app"], folder) as url:
        yield url


@contextmanager
def dashboard(folder: str) -> Iterator[str]:
    """Make the databases, start web process and worker, wait for the first answer, yield the URL, and end both."""
    with _running("the dashboard", ["isoscope", "serve"], folder) as url:
        yield url


@contextmanager
def _running(name: str, module: list[str], folder: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"ISOSCOPE_DATA_DIR": folder, "ISOSCOPE_PORT": str(port), "ISOSCOPE_SAMPLE": "false"}
    url = f"http://127.0.0.1:{port}"
    # Its output must not mix with the tables on standard output.
    process = subprocess.Popen([sys.executable, "-m", *module], env=environment, stdout=sys.stderr)
    try:
        while not _answers(url):
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with {process.returncode}")
            time.sleep(0.005)
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/api/health").close()
    except OSError:  # refused or interrupted
        return False
    return True
