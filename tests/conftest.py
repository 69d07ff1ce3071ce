import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app.context import Context, create_context
from app.core.process import enable_rare_garbage_collection
from app.core.settings import Settings
from app.db.migration import upgrade
from app.db.session import create_database_engine
from app.main import create_app
from app.queue import migrate
from tests.ports import free_port
from tests.postgresql import NotHereError, PostgreSQL
from tests.serving import Serving, empty_settings

if HAS_WORKER := find_spec("torch") is not None:
    from tests.worker_fixtures import forked, limit_threads, machine, models_dir, train_on, work

    __all__ = ["forked", "machine", "models_dir", "train_on", "work"]


def pytest_configure() -> None:
    # The disk may be nearly full. Tests of the reserve set it.
    os.environ.setdefault("ISOSCOPE_RESERVE_BYTES", "0")
    if HAS_WORKER:
        limit_threads()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Import tests without garbage collection, and keep what they import out of later collections."""
    gc.disable()
    outcome = yield
    enable_rare_garbage_collection()
    return outcome


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    try:
        server = PostgreSQL()
    except NotHereError as error:
        pytest.skip(str(error))
    yield server
    server.close()


@pytest.fixture
def postgresql_url(postgresql: PostgreSQL) -> Iterator[str]:
    yield from postgresql.lend_database()


@pytest.fixture
def empty_postgresql_url(postgresql: PostgreSQL) -> Iterator[str]:
    yield from postgresql.lend_database(empty=True)


@pytest.fixture
def database() -> dict[str, Any]:
    return {}


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path, database: dict[str, Any]) -> Settings:
    models = {name: request.getfixturevalue(name) for name in {"models_dir"} & {*request.fixturenames}}
    return Settings(data_dir=tmp_path / "data", sample=False, **models | database)


@pytest.fixture(scope="session")
def empty_databases(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The SQLite files of an empty dashboard. Copying them is faster than migrating."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("empty") / "data", sample=False)
    settings.create_folders()
    engine = create_database_engine(settings.database)
    upgrade(engine)
    engine.dispose()
    migrate(settings.queue)
    return list(settings.root.glob("*.sqlite*"))


@pytest.fixture
def migrated(settings: Settings, empty_databases: list[Path]) -> Settings:
    settings.create_folders()
    if settings.database.startswith("sqlite"):  # PostgreSQL copies a template
        for file in empty_databases:
            shutil.copy(file, settings.root)
    return settings


@pytest.fixture
def context(migrated: Settings) -> Iterator[Context]:
    context = create_context(migrated)
    yield context
    context.close()


@pytest.fixture
def empty_dashboard(tmp_path, empty_databases):
    return empty_settings(tmp_path / "empty", empty_databases)


@pytest.fixture
def client(context: Context) -> Iterator[TestClient]:
    """The web application in this process. Enqueued jobs wait for `work`."""
    with TestClient(create_app(context.settings), base_url="http://localhost", follow_redirects=False) as client:
        yield client


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def start(**environment: str) -> Serving:
        started.append(Serving(tmp_path / "data", free_port(), environment))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def bench_data() -> Path:
    folder = os.environ.get("ISOSCOPE_BENCH_DATA")
    if folder is None:
        pytest.skip("ISOSCOPE_BENCH_DATA is unset: no reference data")
    return Path(folder)


@pytest.fixture
def cloud() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(400, 8)) * np.array([10.0] + [1.0] * 7)
