"""Time the web process until its first response, compared with the imports that it needs.

Run: python -m benchmarks.startup
"""

import subprocess
import sys
import tempfile
import time

from app.core.settings import Settings
from app.db.migration import upgrade
from app.db.session import create_database_engine
from benchmarks._rounds import machine, requested_rounds, table
from benchmarks._web import web_process


def time_imports() -> float:
    """Return the seconds of a process that only imports FastAPI, SQLAlchemy and uvicorn."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, sqlalchemy.orm, uvicorn"], check=True)
    return time.perf_counter() - start


def time_first_response(folder: str) -> float:
    """Return the seconds from the start of the web process to its first response of the health route."""
    start = time.perf_counter()
    with web_process(folder):
        return time.perf_counter() - start


def main() -> None:
    """Print the medians of interleaved rounds and their ratio, after a warm-up round."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder)
        settings.create_folders()
        upgrade(create_database_engine(settings.database))
        _, *rounds = [(time_imports(), time_first_response(folder)) for _ in range(1 + requested_rounds())]
    times = dict(zip(("bare imports", "first answer"), map(list, zip(*rounds, strict=True)), strict=True))
    print(machine("fastapi", "sqlalchemy", "uvicorn"))
    print(f"{len(rounds)} rounds\n")
    print(table(times, base="bare imports"))


if __name__ == "__main__":
    main()
