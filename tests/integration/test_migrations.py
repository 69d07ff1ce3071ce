import json
from datetime import UTC, datetime
from multiprocessing import get_context

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.orm import Session

from app.core.settings import Settings
from app.db.migration import downgrade, upgrade
from app.db.models import Base, Run
from app.db.session import create_database_engine
from tests.factories import PLAIN, SHARED

pytestmark = pytest.mark.both_databases

NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat(" ")
EMBEDDING = text(
    "insert into embeddings (id, name, filename, file_sha256, format, status, commit_when_inspected, attempts, "
    "created_at) values (:id, 'e', 'e.npy', :hash, 'npy', 'ready', false, 0, :now)"
)
CURVE = text(
    "insert into zeta_curves (id, embedding_id, source, source_id, status, attempts, seed, created_at) "
    "values (:id, 'x', 'embedding', 'y', 'queued', 0, 0, :now)"
)


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path}/test.sqlite"


@pytest.fixture(params=["sqlite_url", "empty_postgresql_url"], ids=["sqlite", "postgresql"])
def engine(request):
    """A database without a table."""
    engine = create_database_engine(Settings(database_url=request.getfixturevalue(request.param)).database)
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


def test_several_processes_may_upgrade_at_one_moment(engine):
    url = engine.url.render_as_string(hide_password=False)
    processes = [get_context("spawn").Process(target=upgrade_at, args=(url,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert set(Base.metadata.tables) < set(inspect(engine).get_table_names())


def upgrade_at(url):
    engine = create_database_engine(url)
    upgrade(engine)
    engine.dispose()


def test_downgrading_to_base_leaves_nothing(engine):
    upgrade(engine)
    downgrade(engine, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]


def test_downgrading_step_by_step_and_upgrading_again_makes_the_models_tables(engine):
    upgrade(engine)
    downgrade(engine, "0001")
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_of_curves_that_were_asked_for_twice_one_is_kept(engine):
    upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.execute(text("insert into files values (:hash, 1, :now)"), {"hash": "0" * 64, "now": NOW})
        connection.execute(EMBEDDING, [{"id": name, "hash": "0" * 64, "now": NOW} for name in ("x", "y")])
        connection.execute(CURVE, [{"id": name, "now": NOW} for name in ("first", "second")])
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.scalars(text("select id from zeta_curves")).all() == ["first"]


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
    assert rows(engine, "measurements") == [(*row, None, None) for row in before["measurements"]]
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


def test_standard_errors_come_with_an_upgrade_and_go_with_the_way_back(engine):
    upgrade(engine, "0001")
    fill(engine)
    upgrade(engine, "0003")
    before = rows(engine, "measurements")
    upgrade(engine)
    with engine.begin() as connection:
        assert connection.scalar(text("SELECT se FROM measurements")) is None
        connection.execute(text("UPDATE measurements SET value = 0.5, se = 0.0123456789012345"))
        assert connection.scalar(text("SELECT se FROM measurements")) == 0.0123456789012345
        connection.execute(text("UPDATE measurements SET value = NULL"))
    downgrade(engine, "0003")
    assert rows(engine, "measurements") == before


def test_errors_that_were_none_of_the_population_are_dropped(engine):
    upgrade(engine, "0001")
    fill(engine)
    upgrade(engine, "0007")
    with engine.begin() as connection:
        connection.execute(text("UPDATE measurements SET measure = 'isoscore', value = 0.5, se = 0.01"))
    upgrade(engine)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT value, se, resampled FROM measurements")).one() == (0.5, None, None)


@pytest.fixture
def sqlite(sqlite_url):
    engine = create_database_engine(sqlite_url)
    yield engine
    engine.dispose()


def test_foreign_keys_are_kept_again_after_a_migration(sqlite):
    upgrade(sqlite)
    with sqlite.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_migration_that_breaks_a_reference_is_undone(sqlite):
    upgrade(sqlite, "0001")
    fill(sqlite)
    with sqlite.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.execute(text("DELETE FROM files"))
        connection.commit()
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
    with pytest.raises(RuntimeError, match="rows refer to rows that are gone"):
        upgrade(sqlite)
    assert "embedding_files" not in inspect(sqlite).get_table_names()


def test_sqlite_writes_ahead_waits_when_busy_and_keeps_foreign_keys(sqlite):
    with sqlite.connect() as connection:
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "busy_timeout", "foreign_keys")]  # fmt: skip
    assert found == ["wal", 30_000, 1]


def test_a_probe_of_old_becomes_one_measure_of_several_and_back(engine):
    upgrade(engine, "0005")
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO datasets (id, name, origin, glue_name, columns, created_at)"
            " VALUES ('d', 'CoLA', 'glue', 'cola', '[]', '2026-01-01')",
            "INSERT INTO experiments (id, name, dataset_id, config, created_at)"
            " VALUES ('e', 'x', 'd', :shared, '2026-01-01')",
            "INSERT INTO runs (id, experiment_id, position, config, regularizer, lam, zeta, seed, status, phase_done,"
            " attempts, queued_at) VALUES ('r', 'e', 0, :plain, 'istar', 1, 0.2, 0, 'finished', 0, 0, '2026-01-01')",
            "INSERT INTO steps (run_id, step, layers) VALUES ('r', 0, '[0.5, null]'), ('r', 1, NULL)",
        ):
            configs = {"shared": SHARED.model_dump_json(), "plain": PLAIN.model_dump_json()}
            connection.execute(text(statement), {name: one for name, one in configs.items() if f":{name}" in statement})
    upgrade(engine)
    with Session(engine) as session:
        run = session.get_one(Run, "r")
        assert [step.layers for step in run.steps] == [{"isoscore_star": [0.5, None]}, None]
        assert (run.notes, run.experiment.grid) == ([], {})
        assert (run.experiment.dataset.origin, run.experiment.dataset.hub_name) == ("hub", "cola")
    downgrade(engine, "0005")
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT glue_name FROM datasets WHERE origin = 'glue'")).all() == ["cola"]
        layers = connection.scalars(text("SELECT CAST(layers AS text) FROM steps ORDER BY step")).all()
    assert [json.loads(one) if one else one for one in layers] == [[0.5, None], None]
