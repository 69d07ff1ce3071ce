"""Both databases of a dashboard, each by its engine's own means."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, Engine, Inspector, inspect, make_url, text

from app.db.session import create_database_engine
from app.operations.backup import postgresql
from app.operations.backup.manifest import Engine as EngineName
from app.operations.backup.sqlite import copy_database
from app.queue import ENGINE_SCHEMA
from app.settings import Settings

ASIDE = "_before_restore"


class Database(NamedTuple):
    """A database of the settings, and the name of its copy in a backup."""

    name: str
    url: str

    @property
    def engine(self) -> EngineName:
        """What it runs on."""
        return "sqlite" if self.url.startswith("sqlite") else "postgresql"

    @property
    def filename(self) -> str:
        """Of its copy."""
        return f"{self.name}.{'sqlite' if self.engine == 'sqlite' else 'dump'}"

    @property
    def file(self) -> Path:
        """Of a SQLite database."""
        return Path(str(make_url(self.url).database)).absolute()

    @contextmanager
    def copied(self, folder: Path) -> Iterator[tuple[Path, Connection]]:
        """Write what is in it at one moment into a folder; yield where, and a connection that sees the same."""
        target = folder / self.filename
        if self.engine == "postgresql":
            with _connected(self) as engine, postgresql.snapshot(engine) as (moment, connection):
                postgresql.dump(self.url, target, moment)
                yield target, connection
            return
        copy_database(self.file, target)
        with _connected(self._replace(url=f"sqlite:///{target}")) as engine, engine.connect() as connection:
            yield target, connection


def databases_of(settings: Settings) -> list[Database]:
    """Return the job engine's database, where that is one of its own, and then the metrics database.

    In this order they are copied: a job that ends in between then waits in the one and has ended in the other, which
    its worker sees when it takes it up.
    """
    metrics, queue = Database("metrics", settings.database), Database("queue", settings.queue)
    same = metrics.engine == queue.engine == "postgresql" and _plain(metrics.url) == _plain(queue.url)
    return [metrics] if same else [queue, metrics]


def require_programs(databases: list[Database]) -> None:
    """Raise ConflictError where a database needs programs that are not here."""
    if any(one.engine == "postgresql" for one in databases):
        postgresql.require_programs()


def tables_in(database: Database) -> bool:
    """Whether a PostgreSQL database has tables of ours or of the job engine."""
    with _connected(database) as engine:
        found = inspect(engine)
        return found.has_table("alembic_version") or ENGINE_SCHEMA in found.get_schema_names()


def others_connected(database: Database) -> int:
    """Count the other sessions on a PostgreSQL database."""
    others = text(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
    with _connected(database) as engine, engine.connect() as connection:
        return int(connection.scalar(others) or 0)


def load(database: Database, dumped: Path) -> None:
    """Put a dump in the place of what a PostgreSQL database has, which comes back if that fails."""
    with _connected(database) as engine:
        kept = _put_aside(engine)
        try:
            postgresql.load(database.url, dumped)
        except BaseException:
            _bring_back(engine, kept)
            raise
        with engine.begin() as connection:
            for schema in kept:
                connection.execute(text(f'drop schema "{schema}{ASIDE}" cascade'))


def _put_aside(engine: Engine) -> list[str]:
    """Rename the schemas that have tables; those that are empty stay."""
    with engine.begin() as connection:
        found = inspect(connection)
        used = [one for one in ("public", ENGINE_SCHEMA) if one in found.get_schema_names() and _is_used(found, one)]
        for schema in used:
            connection.execute(text(f'alter schema "{schema}" rename to "{schema}{ASIDE}"'))
        if "public" in used:
            connection.execute(text("create schema public"))
    return used


def _is_used(found: Inspector, schema: str) -> bool:
    return schema == ENGINE_SCHEMA or bool(found.get_table_names(schema))


def _bring_back(engine: Engine, kept: list[str]) -> None:
    with engine.begin() as connection:
        for schema in kept:
            connection.execute(text(f'drop schema if exists "{schema}" cascade'))
            connection.execute(text(f'alter schema "{schema}{ASIDE}" rename to "{schema}"'))


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


@contextmanager
def _connected(database: Database) -> Iterator[Engine]:
    engine = create_database_engine(database.url.replace("postgresql://", "postgresql+psycopg://", 1))
    try:
        yield engine
    finally:
        engine.dispose()
