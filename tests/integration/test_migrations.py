import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from app.db.migration import downgrade, upgrade
from app.db.models import Base
from app.db.session import create_database_engine


@pytest.fixture
def engine(tmp_path):
    engine = create_database_engine(f"sqlite:///{tmp_path}/test.sqlite")
    yield engine
    engine.dispose()


def test_migrations_make_exactly_the_models_tables(engine):
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_upgrading_twice_changes_nothing(engine):
    upgrade(engine)
    upgrade(engine)
    assert set(Base.metadata.tables) < set(inspect(engine).get_table_names())


def test_downgrading_to_base_leaves_nothing(engine):
    upgrade(engine)
    downgrade(engine, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]


def test_sqlite_writes_ahead_waits_when_busy_and_keeps_foreign_keys(engine):
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "busy_timeout", "foreign_keys")]  # fmt: skip
    assert found == ["wal", 30_000, 1]
