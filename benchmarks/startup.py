"""How long the web process takes until it answers, beside the bare imports it cannot do without.

Run: python -m benchmarks.startup
"""

import subprocess
import sys
import tempfile
import time

from app.core.settings import Settings
from app.db.migration import upgrade
from app.db.session import create_database_engine
from benchmarks._rounds import machine, rounds_asked, table
from benchmarks._web import web_process


def bare_imports() -> float:
    """Seconds of a process that imports FastAPI, SQLAlchemy and uvicorn and ends."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, sqlalchemy.orm, uvicorn"], check=True)
    return time.perf_counter() - began


def first_answer(folder: str) -> float:
    """Seconds from the start of the web process to its first answer of the health route."""
    began = time.perf_counter()
    with web_process(folder):
        return time.perf_counter() - began


def main() -> None:
    """Print the medians of interleaved rounds and their ratio, after one that is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=folder)
        settings.create_folders()
        upgrade(create_database_engine(settings.database))
        _, *rounds = [(bare_imports(), first_answer(folder)) for _ in range(1 + rounds_asked())]
    times = dict(zip(("bare imports", "first answer"), map(list, zip(*rounds, strict=True)), strict=True))
    print(machine("fastapi", "sqlalchemy", "uvicorn"))
    print(f"{len(rounds)} rounds\n")
    print(table(times, base="bare imports"))


if __name__ == "__main__":
    main()
