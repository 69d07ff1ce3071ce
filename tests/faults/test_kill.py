import pytest
from sqlalchemy import select

from app.core.settings import Settings
from app.db.models.embeddings import FigureFile
from app.db.session import create_sessions
from tests.texts import FILM_FILES

STEPS = 120
EXPERIMENT = {
    "model": "tiny-bert", "text_columns": ["sentence"], "label_column": "label", "lambdas": [-1, 1], "zetas": [0.2],
    "seeds": [0], "epochs": None, "max_steps": STEPS,
}  # fmt: skip
TEXTS = "".join(f"the {'good' if i % 2 else 'bad'} film {i} was so very great and dull\n" for i in range(20_000))
CONFIG = {"model": "tiny-bert", "text_columns": ["line"], "layers": [1, 2], "max_rows": None, "batch_size": 1}


@pytest.mark.long
def test_every_run_ends_once_despite_kills(serving, models_dir):
    server = serving(
        ISOSCOPE_RUNS_PER_DEVICE="1", ISOSCOPE_CHECKPOINT_SECONDS="0.5", ISOSCOPE_MODELS_DIR=str(models_dir)
    )
    dataset = server.post("/api/datasets", files=FILM_FILES)
    created = server.post("/api/experiments", json=EXPERIMENT | {"dataset_id": dataset["id"]})
    experiment = f"/api/experiments/{created['id']}"

    def runs():
        return server.get(experiment)["runs"]

    def training(position):
        run = runs()[position]
        return run["status"] == "running" and run["phase"] == "training" and run["phase_done"] > 0

    server.wait_for(lambda: training(0), "the first run to train")
    server.child("-m workers").kill()
    server.wait_for(lambda: training(1), "the second run to train, after the worker was killed")
    assert server.stop() == 0
    server.start()
    server.wait_for(lambda: training(1), "the second run to train, after Ctrl-C and another start")
    server.run_processes()[runs()[1]["id"]].kill()
    server.wait_for(lambda: training(2), "the third run to train, after the training process was killed")
    server.child("-m app").kill()
    server.wait_for(server.answers, "the web process to be back")
    server.wait_for(lambda: all(run["status"] == "finished" for run in runs()), "the end of the sweep")

    for run in runs():
        assert run["performance"] is not None
        assert 0 < run["isoscore_star"] < 1
        steps = [step["step"] for step in server.get(f"/api/runs/{run['id']}")["steps"]]
        assert steps == sorted(set(steps))
        assert steps[-1] == STEPS
    server.wait_for(lambda: not list((server.data_dir / "runs").iterdir()), "the removal of the folders of ended runs")
    children = [server.child("-m workers"), server.child("-m app")]
    server.process.kill()
    server.process.wait()
    for child in children:
        child.wait(30)


@pytest.mark.long
def test_encoding_restarts_after_kill_and_stops_on_cancel(serving, models_dir):
    server = serving(ISOSCOPE_MODELS_DIR=str(models_dir))
    draft = server.post("/api/encodings", files={"file": ("t.txt", TEXTS.encode())})
    path = f"/api/encodings/{draft['id']}"
    server.post(f"{path}/launch", json=CONFIG)
    server.wait_for(lambda: server.get(path)["done"] > 0, "the first texts")
    begun = server.get(path)["started_at"]
    server.child("multiprocessing.forkserver").kill()
    server.wait_for(lambda: server.get(path)["started_at"] != begun, "another attempt, after its process was killed")
    begun = server.get(path)["started_at"]
    assert server.stop() == 0
    server.start()
    server.wait_for(lambda: server.get(path)["started_at"] != begun, "another attempt, after Ctrl-C")

    assert server.post(f"{path}/cancel")["status"] == "cancelled"
    server.post(f"{path}/launch", json=CONFIG | {"max_rows": 50, "batch_size": 16})
    server.wait_for(lambda: server.get(path)["status"] == "finished", "the end of a smaller one", seconds=60)
    layers = server.get(f"{path}/layers")
    assert [row["layer"] for row in layers] == [1, 2]
    embeddings = [server.get(f"/api/embeddings/{row['embedding_id']}") for row in layers]
    vector_files = {file["file_sha256"] for row in embeddings for file in row["files"]}
    sessions = create_sessions(Settings(data_dir=server.data_dir).database)

    def remaining_files():
        stored_files = {file.name for file in (server.data_dir / "files").iterdir()}
        with sessions() as session:
            return stored_files - vector_files - set(session.scalars(select(FigureFile.file_sha256)))

    server.wait_for(lambda: len(remaining_files()) == 1, "only the texts beside vectors and figures")
    assert server.stop() == 0
