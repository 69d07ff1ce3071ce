"""Machines that share a PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.context import Context
from app.settings import Settings
from tests.lab import Machine


@pytest.fixture
def settings(tmp_path: Path, models_dir: Path, postgresql_url: str) -> Settings:
    return Settings(data_dir=tmp_path / "web", models_dir=models_dir, database_url=postgresql_url, sample=False)


@pytest.fixture
def machine(context: Context, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Start a worker on a further machine."""
    started: list[Machine] = []

    def start(name: str, database_url: str | None = None) -> Machine:
        started.append(Machine(name, context, tmp_path, database_url))
        return started[-1]

    yield start
    for one in started:
        one.lose()
