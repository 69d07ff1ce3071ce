"""Bring the metrics database to the newest schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, insert

from alembic import command
from app.db.models import Dataset, DatasetOrigin
from app.db.session import hold, shown
from app.errors import ConflictError

ALEMBIC_INI = Path(__file__).parents[2] / "alembic.ini"
INSTALL_NEWER = "Install the version of Isoscope that made it, or a newer one."


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or upgrade the tables; does nothing where they are up to date.

    Raises ConflictError where a newer version of Isoscope made them.
    """
    if (found := unknown_revision(engine)) is not None:
        raise ConflictError(f"{found} {INSTALL_NEWER}")
    with altering(engine) as connection:
        command.upgrade(_config(connection=connection), revision)


def try_insert(engine: Engine) -> None:
    """Write a row and take it back, in one transaction.

    Raises SQLAlchemyError where no row can be written.
    """
    with engine.connect() as connection:
        hold(connection, "rehearsal")
        connection.execute(insert(Dataset).values(name="rehearsal", origin=DatasetOrigin.NAMED, columns=[]))
        connection.rollback()


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to ``revision``; ``base`` is the empty database."""
    with altering(engine) as connection:
        command.downgrade(_config(connection=connection), revision)


@contextmanager
def altering(engine: Engine) -> Iterator[Connection]:
    """Open a transaction in which tables may be altered.

    SQLite alters a table by making it anew, and dropping the old one would delete all rows that refer to its rows:
    its foreign keys rest meanwhile, which has to be said before the transaction begins.
    """
    with engine.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        if is_sqlite:
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.commit()
        try:
            with connection.begin():
                hold(connection, "migration")  # several processes may start at one moment
                yield connection
                if is_sqlite and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
                    raise RuntimeError(f"after the migration rows refer to rows that are gone: {broken[:5]}")
        finally:
            if is_sqlite:
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")


def current_revision(engine: Engine) -> str | None:
    """The revision that the tables are at; null where there are none of ours."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def unknown_revision(engine: Engine) -> str | None:
    """What is wrong where a newer version of Isoscope made the tables; null where none did."""
    current, known = current_revision(engine), known_revisions()
    if current in (None, *known):
        return None
    return f"{shown(engine.url)} is at revision {current}, which this version does not know; its newest is {known[0]}."


def known_revisions() -> list[str]:
    """All revisions of this version of Isoscope, newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config(**attributes: object) -> Config:
    config = Config(ALEMBIC_INI)
    config.attributes.update(attributes)
    return config
