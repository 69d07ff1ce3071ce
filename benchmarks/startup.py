"""How long the web process takes until it answers, beside the bare imports it cannot do without.

Run: python -m benchmarks.startup
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROUNDS = 7


def bare_imports() -> float:
    """Seconds of a process that imports FastAPI, SQLAlchemy and uvicorn and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, sqlalchemy.orm, uvicorn"], check=True)
    return time.perf_counter() - began


def until_it_answers(folder: str) -> float:
    """Seconds from the start of the web process to its first answer of /api/health."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"ISOSCOPE_DATA_DIR": folder, "ISOSCOPE_PORT": str(port)}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "app"], env=environment)
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health").close()
            break
        except urllib.error.URLError:
            if process.poll() is not None:
                raise RuntimeError(f"the web process ended with {process.returncode}") from None
            time.sleep(0.005)
    took = time.perf_counter() - began
    process.terminate()
    process.wait()
    return took


def main() -> None:
    """Print the medians of interleaved rounds and their ratio."""
    from app.db.migration import upgrade  # noqa: PLC0415 - so that importing this module stays light
    from app.db.session import create_database_engine  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder)
        settings.create_folders()
        upgrade(create_database_engine(settings.database))
        rounds = [(bare_imports(), until_it_answers(folder)) for _ in range(ROUNDS)]
    bare, answering = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(
        f"bare imports {bare:.2f} s, first answer {answering:.2f} s, ratio {answering / bare:.2f}, of {ROUNDS} rounds"
    )


if __name__ == "__main__":
    main()
