import os
import re

import pytest

from app.core.settings import Settings
from app.operations.backup import make_backup, restore_backup
from tests.faults.test_kill import EXPERIMENT, STEPS
from tests.ports import free_port
from tests.serving import Serving
from tests.texts import FILM_FILES

SECONDS = 300
COMPARED = ("performance", "isoscore_star", "metrics", "validation_loss", "results")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_restored_runs_end_with_the_same_numbers(serving, models_dir, postgresql, tmp_path, monkeypatch, kind):
    databases = ["", ""]
    if kind == "postgresql":
        databases = [postgresql.url(postgresql.create_database(empty=True)) for _ in range(2)]
    environment = {"ISOSCOPE_CHECKPOINT_SECONDS": "0.5", "ISOSCOPE_MODELS_DIR": str(models_dir)}
    server = serving(**environment, ISOSCOPE_DATABASE_URL=databases[0])
    dataset = server.post("/api/datasets", files=FILM_FILES)
    experiment = server.post("/api/experiments", json=EXPERIMENT | {"dataset_id": dataset["id"], "lambdas": [1]})
    address = f"/api/experiments/{experiment['id']}"

    def has_checkpoint():
        return any(server.data_dir.glob("runs/*/checkpoint-*/complete"))

    def finished_runs(dashboard):
        runs = dashboard.get(address)["runs"]
        return all(run["status"] == "finished" for run in runs) and runs

    server.wait_for(has_checkpoint, "a checkpoint")
    monkeypatch.setenv("PATH", f"{postgresql.programs}{os.pathsep}{os.environ['PATH']}")
    backed_up = Settings(data_dir=server.data_dir, database_url=databases[0])

    def backup_has_checkpoint():
        """Return whether a new backup holds a checkpoint of a run that had not finished by then, so that it resumes."""
        backup = make_backup(backed_up, tmp_path / "backups")
        unfinished = {run["id"] for run in server.get(address)["runs"] if run["status"] != "finished"}
        return any(path.parts[-3] in unfinished for path in backup.folder.glob("runs/*/checkpoint-*/complete"))

    server.wait_for(backup_has_checkpoint, "a backup with a checkpoint")
    uninterrupted = server.wait_for(lambda: finished_runs(server), "the end of the sweep", SECONDS)
    server.stop()

    second_folder = tmp_path / "second"
    settings = Settings(data_dir=second_folder, database_url=databases[1], port=free_port())
    restore_backup(settings, tmp_path / "backups")
    assert any(second_folder.glob("runs/*/checkpoint-*/complete"))
    restored = Serving(second_folder, free_port(), environment | {"ISOSCOPE_DATABASE_URL": databases[1]})
    try:
        resumed = restored.wait_for(lambda: finished_runs(restored), "the end of the restored sweep", SECONDS)
        for before, after in zip(uninterrupted, resumed, strict=True):
            for name in COMPARED:
                assert before.get(name) == after.get(name), name
            steps = [step["step"] for step in restored.get(f"/api/runs/{after['id']}")["steps"]]
            assert steps == sorted(set(steps))
            assert steps[-1] == STEPS
        logs = [restored.get(f"/api/runs/{run['id']}")["log"] or "" for run in resumed]
        assert any(re.search(r"training resumes from step [1-9]", log) for log in logs), logs
    finally:
        restored.stop()
