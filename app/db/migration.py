"""Upgrade the metrics database to the newest schema."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, insert

from alembic import command
from app.core.process import FILES
from app.db.models import Dataset, DatasetOrigin
from app.db.session import acquire_locks, redacted, temporary_engine
from isoscope.core.errors import ConflictError

# At level INFO, Alembic would log two lines about the database at every start.
logging.getLogger("alembic.runtime.migration").setLevel(logging.WARNING)

SCRIPTS = FILES / "alembic"
MIGRATE_ADVICE = "Run: isoscope migrate"
INSTALL_ADVICE = "Install the version of Isoscope that made it, or a newer one."
UPGRADE_ADVICE = "Start it once with Isoscope 0.1 (commit 1909e121), then with this version."
OLDEST_REVISION = "0029"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or upgrade the tables. Raise ConflictError if a newer version, or one before 0.1, created them."""
    if (problem := schema_problem(engine)) is not None and problem.advice != MIGRATE_ADVICE:
        raise ConflictError(str(problem))
    with alter_tables(engine) as connection:
        command.upgrade(_config(connection=connection), revision)


def try_insert(engine: Engine) -> None:
    """Insert a row and roll it back. Raise SQLAlchemyError if no row can be written."""
    with engine.connect() as connection:
        acquire_locks(connection, "rehearsal")
        connection.execute(insert(Dataset).values(name="rehearsal", origin=DatasetOrigin.BY_NAME, columns=[]))
        connection.rollback()


@contextmanager
def alter_tables(engine: Engine) -> Iterator[Connection]:
    """Open a transaction in which tables may be altered.

    SQLite alters a table by copying it, and dropping the old one would delete all rows that refer to it. Foreign keys
    are therefore off, which must be set before the transaction begins.
    """
    with engine.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.commit()
        try:
            with connection.begin():
                acquire_locks(connection, "migration")  # several processes may start at the same time
                yield connection
                if is_sqlite and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
                    raise RuntimeError(f"after the migration rows refer to rows that are gone: {broken[:5]}")
        finally:
            if is_sqlite:
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")


def current_revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


class SchemaProblem(NamedTuple):
    """Why this version cannot use the tables, and what to do."""

    problem: str
    advice: str

    def __str__(self) -> str:
        return f"{self.problem} {self.advice}"


def schema_problem(engine: Engine) -> SchemaProblem | None:
    """Return why this version cannot use the tables of a database; None if it can."""
    current, revisions = current_revision(engine), known_revisions()
    database, newest = redacted(engine.url), revisions[0]
    if current is None:
        return SchemaProblem(f"{database} has no tables yet.", MIGRATE_ADVICE)
    state = f"{database} is at schema revision {current}"
    if current < OLDEST_REVISION:
        return SchemaProblem(f"{state}, from before Isoscope 0.1.", UPGRADE_ADVICE)
    if current not in revisions:
        return SchemaProblem(f"{state}, which this version does not know; its newest is {newest}.", INSTALL_ADVICE)
    return None if current == newest else SchemaProblem(f"{state}, and this version needs {newest}.", MIGRATE_ADVICE)


def require_schema(url: str) -> None:
    with temporary_engine(url) as engine:
        problem = schema_problem(engine)
    if problem is not None:
        raise ConflictError(str(problem))


def known_revisions() -> list[str]:
    """Return the schema revisions of this version, newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config(**attributes: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes.update(attributes)
    return config
