"""Real runs that are paused at awkward moments, or fail and are retried on another worker."""

import pytest

from app.core.settings import Settings
from app.db.models import Phase, Run, RunStatus
from tests.tiny import make_table
from workers.training import training
from workers.training.folder import remove_unneeded_folders
from workers.training.job import fine_tune
from workers.training.metrics import MetricsCallback
from workers.training.progress import Progress


@pytest.fixture
def settings(tmp_path, models_dir, database):
    return Settings(
        data_dir=tmp_path / "data", models_dir=models_dir, sample=False, checkpoint_seconds=1e-9, **database
    )


@pytest.fixture
def always_checkpoint(monkeypatch):
    monkeypatch.setattr("workers.training.checkpoints.MIN_TRAINING_PER_SAVING", 0)


@pytest.fixture
def launch(client):
    files = {"train": ("train.tsv", make_table(40, 1)), "validation": ("validation.tsv", make_table(20, 2))}
    dataset = client.post("/api/datasets", files=files).json()
    body = {
        "model": "tiny-bert", "dataset_id": dataset["id"], "text_columns": ["sentence"], "label_column": "label",
        "epochs": None, "max_steps": 4, "batch_size": 8, "lambdas": [1], "shrinkage_points": 200,
    }  # fmt: skip

    def launch():
        answer = client.post("/api/experiments", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["runs"][-1]["id"]

    return launch


@pytest.fixture
def uninterrupted(module_cache, launch, context):
    if "uninterrupted" not in module_cache:
        fine_tune(run_id := launch(), context.settings, "cpu")
        module_cache["uninterrupted"] = outcome(context, run_id)
    return module_cache["uninterrupted"]


def outcome(context, run_id):
    with context.sessions() as session:
        run = session.get_one(Run, run_id)
        steps = [(step.step, step.task_loss, step.penalty, step.layers) for step in run.steps]
        return run.status, run.error, run.performance, run.results, steps


def during_loading(monkeypatch, act):
    load = training._load
    monkeypatch.setattr(training, "_load", lambda *arguments: (load(*arguments), act())[0])


def during_evaluation(monkeypatch, act):
    advance = Progress.advance

    def advance_after_act(self, done):
        with self.sessions() as session:
            if session.get_one(Run, self.run_id).phase is Phase.EVALUATING:
                act()
        self._written_at = 0.0
        advance(self, done)

    monkeypatch.setattr(Progress, "advance", advance_after_act)


@pytest.mark.usefixtures("always_checkpoint")
@pytest.mark.parametrize(
    ("moment", "keeps_folder"), [(during_loading, False), (during_evaluation, True)], ids=["loading", "evaluating"]
)
def test_run_paused_at_any_moment_ends_like_uninterrupted_run(
    client, context, launch, uninterrupted, monkeypatch, moment, keeps_folder
):
    run_id, answers = launch(), []
    with monkeypatch.context() as patch:
        moment(patch, lambda: answers.append(client.post(f"/api/runs/{run_id}/pause").status_code))
        fine_tune(run_id, context.settings, "cpu")
    assert answers == [200], "paused once"
    paused = client.get(f"/api/runs/{run_id}").json()
    assert [paused[name] for name in ("status", "worker", "phase", "error")] == ["paused", None, None, None]
    assert (context.settings.runs / run_id).exists() is keeps_folder
    client.post(f"/api/runs/{run_id}/resume")
    fine_tune(run_id, context.settings, "cpu")
    assert outcome(context, run_id) == uninterrupted
    assert not (context.settings.runs / run_id).exists()


@pytest.mark.usefixtures("always_checkpoint")
def test_failed_run_is_retried_on_another_worker(client, context, launch, uninterrupted, tmp_path, monkeypatch):
    home = context.settings.model_copy(update={"worker_name": "here"})
    away = home.model_copy(update={"worker_name": "there", "data_dir": tmp_path / "there"})
    (tmp_path / "there" / "runs").mkdir(parents=True)
    (tmp_path / "there" / "files").symlink_to(home.files)
    away = away.model_copy(update={"database_url": home.database})
    run_id = launch()
    write = MetricsCallback.on_step_end

    def fail(self, args, state, control, **keywords):
        if state.global_step == 3:
            raise RuntimeError("the disk is full")
        return write(self, args, state, control, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsCallback, "on_step_end", fail)
        fine_tune(run_id, home, "cpu")
    failed = client.get(f"/api/runs/{run_id}").json()
    assert (failed["status"], failed["worker"]) == ("failed", "here/cpu")
    assert "the disk is full" in failed["log"]
    assert {path.name for path in (home.runs / run_id).glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    client.post(f"/api/runs/{run_id}/retry")
    fine_tune(run_id, away, "cpu")
    assert outcome(context, run_id) == uninterrupted
    with context.sessions() as session:
        assert session.get_one(Run, run_id).worker == "there/cpu"
        assert session.get_one(Run, run_id).status is RunStatus.FINISHED
    remove_unneeded_folders(home, context.sessions)
    assert list(home.runs.iterdir()) == []
