import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

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


def fill(engine):
    """The rows of a measured embedding as they were before an embedding could have several files."""
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO files VALUES ('abc', 10, '2026-01-01')",
            "INSERT INTO embeddings (id, name, filename, file_sha256, format, status, commit_when_inspected, attempts,"
            " created_at) VALUES ('e', 'cloud', 'cloud.npy', 'abc', 'npy', 'ready', false, 0, '2026-01-01')",
            "INSERT INTO measurements (embedding_id, measure, status, n) VALUES ('e', 'isoscore', 'ok', 400)",
            "INSERT INTO zeta_curves (id, embedding_id, source, source_id, status, attempts, seed, created_at)"
            " VALUES ('c', 'e', 'embedding', 'e', 'ready', 0, 0, '2026-01-01')",
        ):
            connection.execute(text(statement))


def rows(engine, table):
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))]


def test_an_embedding_keeps_its_file_measurements_and_curves_through_an_upgrade_and_back(engine):
    upgrade(engine, "0001")
    fill(engine)
    before = {table: rows(engine, table) for table in ("embeddings", "measurements", "zeta_curves")}

    upgrade(engine)
    assert rows(engine, "embedding_files") == [("e", 0, "vectors", "cloud.npy", "abc")]
    assert rows(engine, "measurements") == before["measurements"]
    assert rows(engine, "zeta_curves") == before["zeta_curves"]

    with engine.begin() as connection:
        connection.execute(text("INSERT INTO embedding_files VALUES ('e', 1, 'annotations', 'labels.csv', 'abc')"))
    downgrade(engine, "0001")
    assert {name: rows(engine, name) for name in ("measurements", "zeta_curves")} == {
        name: before[name] for name in ("measurements", "zeta_curves")
    }
    with engine.connect() as connection:
        kept = connection.execute(text("SELECT id, filename, file_sha256 FROM embeddings")).all()
    assert [tuple(row) for row in kept] == [("e", "cloud.npy", "abc")]


def test_foreign_keys_are_kept_again_after_a_migration(engine):
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_migration_that_breaks_a_reference_is_undone(engine):
    upgrade(engine, "0001")
    fill(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.execute(text("DELETE FROM files"))
        connection.commit()
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
    with pytest.raises(RuntimeError, match="rows refer to rows that are gone"):
        upgrade(engine)
    assert "embedding_files" not in inspect(engine).get_table_names()


def test_sqlite_writes_ahead_waits_when_busy_and_keeps_foreign_keys(engine):
    with engine.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "busy_timeout", "foreign_keys")]  # fmt: skip
    assert found == ["wal", 30_000, 1]
