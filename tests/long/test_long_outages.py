import pytest

from tests.crowd import import_among_writers, read_while_writers_wait
from tests.outages import fill_disk, freeze, lock_sqlite, small_disk, write_at_once
from tests.slow_clients import withstand_slow_clients


def report(figures, label, runs):
    for run in runs:
        figures.append(f"{label}: {', '.join(str(attempt['outcome']) for attempt in run['attempts'])}")


def test_runs_outlast_20_seconds_of_a_full_disk(train_on, tmp_path, figures):
    with small_disk(tmp_path / "data", 48 * 2**20):
        sweep = train_on()
        fill_disk(sweep.server.data_dir, seconds=20)
        report(figures, "disk full for 20 s", sweep.check())
        assert sweep.server.stop() == 0


def test_runs_and_writers_outlast_45_seconds_of_lock(train_on, figures):
    sweep = train_on()
    answers = write_at_once(sweep.server, 40, during=lambda: lock_sqlite(sweep.server.data_dir, seconds=45))
    assert set(answers) <= {201, 503}
    figures.append(f"SQLite locked for 45 s, 40 writers: {answers.count(201)} wrote, {answers.count(503)} had a 503")
    report(figures, "SQLite locked for 45 s", sweep.check())


def test_runs_outlast_40_seconds_of_a_frozen_database(train_on, postgresql, postgresql_url, figures):
    if not postgresql.is_own:
        pytest.skip("only a PostgreSQL server started for the tests can be frozen")
    sweep = train_on(ISOSCOPE_DATABASE_URL=postgresql_url)
    freeze(postgresql, seconds=40)
    report(figures, "PostgreSQL frozen for 40 s", sweep.check())


def test_readers_are_answered_while_writers_wait(empty_dashboard, figures):
    slowest = read_while_writers_wait(empty_dashboard, seconds=20)
    figures.append(f"SQLite locked for 20 s, 60 writers: slowest reader {slowest:.2f} s")


def test_slow_clients_keep_nobody_out(empty_dashboard, figures):
    figures.extend(withstand_slow_clients(empty_dashboard, seconds=30))


@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "killed in the middle"])
def test_others_write_during_a_large_import(serving, tmp_path, empty_dashboard, figures, kill):
    steps = 1_900_000
    import_among_writers(serving(), empty_dashboard, tmp_path, steps=steps, kill=kill, figures=figures)
