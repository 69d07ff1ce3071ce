"""Tests that take minutes (``make faults``). Their measurements are printed at the end."""

from pathlib import Path
from typing import Any

import pytest

_FIGURES = pytest.StashKey[list[str]]()


def pytest_configure(config):
    config.stash[_FIGURES] = []


def pytest_terminal_summary(terminalreporter, config):
    if figures := config.stash[_FIGURES]:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def figures(request):
    return request.config.stash[_FIGURES]


@pytest.fixture
def database(models_dir: Path, postgresql_url: str) -> dict[str, Any]:
    return {"models_dir": models_dir, "database_url": postgresql_url}
