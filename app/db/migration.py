"""Bring the metrics database to the newest schema."""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from alembic import command

ALEMBIC_INI = Path(__file__).parents[2] / "alembic.ini"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or upgrade the tables; does nothing where they are up to date."""
    with engine.begin() as connection:
        command.upgrade(_config(connection=connection), revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to ``revision``; ``base`` is the empty database."""
    with engine.begin() as connection:
        command.downgrade(_config(connection=connection), revision)


def current_revision(engine: Engine) -> str | None:
    """The revision that the tables are at; null where there are none of ours."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def known_revisions() -> list[str]:
    """All revisions of this version of Isoscope, newest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config(**attributes: object) -> Config:
    config = Config(ALEMBIC_INI)
    config.attributes.update(attributes)
    return config
