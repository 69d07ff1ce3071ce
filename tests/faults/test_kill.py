import pytest

from tests.texts import FILM_FILES

STEPS = 120
EXPERIMENT = {
    "model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "lambdas": [-1, 1], "zetas": [0.2],
    "seeds": [0], "epochs": None, "max_steps": STEPS,
}  # fmt: skip


@pytest.fixture
def sweep(serving, models_dir):
    server = serving(ISOSCOPE_CHECKPOINT_SECONDS="0.5", ISOSCOPE_MODELS_DIR=str(models_dir))
    dataset = server.post("/api/datasets", files=FILM_FILES)
    experiment = server.post("/api/experiments", json=EXPERIMENT | {"dataset_id": dataset["id"]})
    return server, f"/api/experiments/{experiment['id']}"


@pytest.mark.long
def test_every_run_ends_once_despite_kills(sweep):
    server, experiment = sweep

    def runs():
        return server.get(experiment)["runs"]

    def training(position):
        return lambda: (run := runs()[position])["phase"] == "training" and run["phase_done"] > 0 and run

    server.wait_for(training(0), "the first run to train")
    server.child("-m workers").kill()
    server.wait_for(training(1), "the second run to train, after the worker was killed")
    assert server.stop() == 0
    server.start()
    server.wait_for(training(1), "the second run to train, after Ctrl-C and another start")
    server.child("multiprocessing.forkserver").kill()
    server.wait_for(training(2), "the third run to train, after the training process was killed")
    server.child("-m app").kill()
    server.wait_for(server.answers, "the web process to be back")
    server.wait_for(lambda: all(run["status"] == "finished" for run in runs()), "the end of the sweep")

    for run in runs():
        assert run["performance"] is not None
        assert 0 < run["isoscore_star"] < 1
        steps = [step["step"] for step in server.get(f"/api/runs/{run['id']}")["steps"]]
        assert steps == sorted(set(steps))
        assert steps[-1] == STEPS
    assert not list((server.data_dir / "runs").iterdir())
    children = [server.child("-m workers"), server.child("-m app")]
    server.process.kill()
    server.process.wait()
    for child in children:
        child.wait(30)
