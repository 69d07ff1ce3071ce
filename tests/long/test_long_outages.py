"""The outages of tests/faults at the length at which they were seen to cost work."""

import os

import pytest

from tests.outages import ENVIRONMENT, Sweep, fill_disk, freeze, lock_sqlite, small_disk, write_at_once


@pytest.fixture
def start(serving, models_dir):
    """Start a dashboard with a sweep that trains."""

    def start(**environment):
        sweep = Sweep(serving(ISOSCOPE_MODELS_DIR=str(models_dir), **ENVIRONMENT, **environment))
        sweep.wait_until_it_trains()
        return sweep

    return start


def tell(figures, what, struck):
    """Say how often each run was begun, and why."""
    for run in struck:
        figures.append(f"{what}: {', '.join(str(one['outcome']) for one in run['attempts'])}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_runs_outlast_twenty_seconds_of_a_full_disk(start, tmp_path, figures):
    with small_disk(tmp_path / "data"):
        sweep = start()
        fill_disk(sweep.server.data_dir, seconds=20)
        tell(figures, "disk full for 20 s", sweep.check())
        assert sweep.server.stop() == 0


def test_runs_and_forty_writers_outlast_a_database_that_is_locked_for_45_seconds(start, figures):
    sweep = start()
    answers = write_at_once(sweep.server, 40, during=lambda: lock_sqlite(sweep.server.data_dir, seconds=45))
    assert set(answers) <= {201, 503}
    figures.append(f"SQLite locked for 45 s, 40 writers: {answers.count(201)} wrote, {answers.count(503)} had a 503")
    tell(figures, "SQLite locked for 45 s", sweep.check())


def test_runs_outlast_forty_seconds_of_a_frozen_database(start, postgresql, postgresql_url, figures):
    if not postgresql.own:
        pytest.skip("the PostgreSQL server that is named is not the tests' own, so it is not frozen")
    sweep = start(ISOSCOPE_DATABASE_URL=postgresql_url)
    freeze(postgresql, seconds=40)
    tell(figures, "PostgreSQL frozen for 40 s", sweep.check())
