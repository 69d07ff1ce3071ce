"""Run migrations on the metrics database, over the caller's connection if there is one."""

from sqlalchemy import Connection

from alembic import context
from app.core.settings import Settings
from app.db.migration import alter_tables
from app.db.models import Base
from app.db.session import create_database_engine


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,  # SQLite cannot alter most things in place
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


if (connection := context.config.attributes.get("connection")) is not None:
    migrate(connection)
else:
    with alter_tables(create_database_engine(Settings().database)) as connection:
        migrate(connection)
