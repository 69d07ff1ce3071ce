"""Everything here that has a database runs on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.db.migration import upgrade
from app.main import create_app, create_context
from app.queue import migrate
from app.settings import Settings


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgresql_url")}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[TestClient]:
    """Another dashboard on a database of its own, SQLite, that is empty; ``rows`` are its sessions."""
    settings = Settings(data_dir=tmp_path / "elsewhere", sample=False)
    settings.create_folders()
    context = create_context(settings)
    upgrade(context.sessions.kw["bind"])
    migrate(settings.queue)
    with TestClient(create_app(settings), base_url="http://localhost", follow_redirects=False) as client:
        client.rows = context.sessions
        yield client
    context.close()
