import pytest

from tests.outages import fill_disk, freeze, lock_sqlite, small_disk, write_at_once


@pytest.mark.long
def test_runs_outlast_a_full_disk(train_on, tmp_path):
    with small_disk(tmp_path / "data", 48 * 2**20):
        sweep = train_on()
        fill_disk(sweep.server.data_dir, seconds=4)
        sweep.check()
        assert sweep.server.stop() == 0


@pytest.mark.long
def test_runs_and_writers_outlast_a_locked_database(train_on):
    sweep = train_on(ISOSCOPE_BUSY_TIMEOUT="2")
    answers = write_at_once(sweep.server, 40, during=lambda: lock_sqlite(sweep.server.data_dir, seconds=3))
    assert set(answers) <= {201, 503}
    runs = sweep.check()
    assert "Traceback" not in sweep.server.log()
    assert runs


@pytest.mark.long
def test_runs_outlast_a_frozen_database(train_on, postgresql, postgresql_url):
    if not postgresql.is_own:
        pytest.skip("only a PostgreSQL server started for the tests can be frozen")
    sweep = train_on(ISOSCOPE_DATABASE_URL=postgresql_url)
    freeze(postgresql, seconds=4)
    sweep.check()


@pytest.mark.long
def test_damaged_checkpoint_falls_back_to_previous(train_on):
    sweep = train_on()
    run = sweep.runs()[0]
    path = f"/api/runs/{run['id']}"
    folder = sweep.server.data_dir / "runs" / run["id"]
    for number in (1, 2):  # an attempt saves its first checkpoint early
        sweep.server.wait_for(lambda n=number: len(list(folder.glob("*/complete"))) >= n, "a checkpoint")
        sweep.server.post(f"{path}/pause")
        sweep.server.wait_for(lambda: not sweep.server.run_processes(), "the end of its process")
        if number == 1:
            sweep.server.post(f"{path}/resume")
    newest = max(folder.glob("checkpoint-*"), key=lambda checkpoint: int(checkpoint.name.rpartition("-")[2]))
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    sweep.server.post(f"{path}/resume")
    (run,) = sweep.check()
    (note,) = run["notes"]
    assert f"The checkpoint of step {newest.name.rpartition('-')[2]} was damaged on the disk" in note
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["paused", "paused", "finished"]
