"""Bring the metrics database to the newest schema."""

from pathlib import Path

from alembic.config import Config
from sqlalchemy import Engine

from alembic import command
from app.db.session import hold

ALEMBIC_INI = Path(__file__).parents[2] / "alembic.ini"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or upgrade the tables; does nothing where they are up to date."""
    with engine.begin() as connection:
        hold(connection, "migration")  # several processes may start at one moment
        command.upgrade(_config(connection=connection), revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to ``revision``; ``base`` is the empty database."""
    with engine.begin() as connection:
        command.downgrade(_config(connection=connection), revision)


def _config(**attributes: object) -> Config:
    config = Config(ALEMBIC_INI)
    config.attributes.update(attributes)
    return config
