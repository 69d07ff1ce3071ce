import fcntl
import io
import os
import threading
import time
from zipfile import ZIP_STORED, ZipFile

import pytest
import torch
from sqlalchemy import delete, select, update
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from app.db.models import Experiment, Phase, Run, RunFigure, RunStatus, Step, StoredFile
from app.storage import open_storage
from tests.tiny import make_table
from tests.waiting import wait_for
from workers.training.job import fine_tune


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_sweep_records_all_results(settings, train):
    runs = {lam: train(lam=lam, learning_rate=5e-3) for lam in (-1.0, 0.0, 1.0)}
    for lam, run in runs.items():
        assert run.phase is None
        assert run.started_at <= run.finished_at
        assert run.performance == run.results.metrics["accuracy"]
        assert run.results.points == 2 * run.results.tokens
        assert (len(run.results.metrics), len(run.results.reference.layers)) == (3, 2)
        assert run.environment["threads"] >= 1
        assert (run.environment["probe"]["texts"], run.results.n_validation) == (40, 40)
        assert run.environment["probe"]["tokens"] == run.results.tokens
        assert list(run.environment["model"]["weights_sha256"]) == ["model.safetensors"]
        assert [step.step for step in run.steps] == list(range(9))
        assert run.steps[0].task_loss is None
        assert [len(run.steps[at].layers["isoscore_star"]) for at in (0, -1)] == [2, 2]
        assert all((step.penalty != 0) == (lam != 0) for step in run.steps[1:])
    assert runs[-1.0].isoscore_star < runs[0.0].isoscore_star < runs[1.0].isoscore_star
    assert list(settings.runs.iterdir()) == []


def test_layers_are_measured_every_n_steps_and_last_are_stored(train, sessions):
    run = train(lam=0, probe_every=3)
    measures = {"isoscore_star", "isoscore_unbiased", "mean_cosine"}
    measures |= {f"anisotropy_{points}_{k}" for points in ("raw", "centred") for k in (1, 2, 3)}
    layers_by_step = {step.step: step.layers for step in run.steps if step.layers is not None}
    assert list(layers_by_step) == [0, 3, 6, 8]
    for layers in layers_by_step.values():
        assert layers.keys() == measures
        assert all(value is not None for values in layers.values() for value in values)
    assert run.results.by_layer.keys() == measures | {"twonn", "persistent_entropy", "silhouette"}
    with sessions() as session:
        activation = session.get(RunFigure, (run.id, "activation")).data
    assert (activation["n"], len(activation["std"])) == (40, len(activation["mean"]))
    assert len(activation["mean"]) > 2
    assert all(value > 0 for value in activation["std"])


def test_constant_penalty_is_noted(train):
    """A batch of one vector has no spread, whatever the model does."""
    options = {"points": "mean", "zeta": 0, "epochs": None, "max_steps": 4}
    (note,) = train(**options, batch_size=1).notes
    assert note.startswith("The penalty was 1 in all 4 rows that were logged, so it had no gradient and the run was")
    assert note.endswith("Choose a larger batch size, every token instead of one vector per text, or all bars of the "
                         "persistent entropy.")  # fmt: skip
    assert train(**options, batch_size=8).notes == []


def test_final_deleted_or_foreign_run_is_left_alone(settings, make_run, get_run, sessions):
    final, foreign = make_run(), make_run()
    with sessions.begin() as session:
        session.get(Run, final).status = RunStatus.CANCELLED
        session.get(Run, foreign).worker = "there/cpu"
    for run_id in (final, foreign, "no such run"):
        assert fine_tune(run_id, settings, "cpu") == ()
    for run_id, status in ((final, RunStatus.CANCELLED), (foreign, RunStatus.QUEUED)):
        run = get_run(run_id)
        assert (run.status, run.started_at, run.steps) == (status, None, [])
    assert list(settings.runs.iterdir()) == []


@pytest.fixture
def begun(settings, make_run, get_run):
    run_id = make_run(epochs=None, max_steps=100_000)
    trainer = threading.Thread(target=fine_tune, args=(run_id, settings, "cpu"), daemon=True)
    trainer.start()
    wait_for(lambda: get_run(run_id).phase is Phase.TRAINING)
    return run_id, trainer


@pytest.mark.parametrize("stop", ["cancel", "delete"])
def test_cancelled_or_deleted_run_stops_soon(settings, begun, sessions, stop):
    run_id, trainer = begun
    with sessions.begin() as session:
        if stop == "cancel":
            session.execute(update(Run).where(Run.id == run_id).values(status=RunStatus.CANCELLED))
        else:
            session.execute(delete(Experiment))
    trainer.join(timeout=20)
    assert not trainer.is_alive()
    assert list(settings.runs.iterdir()) == []
    with sessions() as session:
        run = session.get(Run, run_id)
    assert (run is None) if stop == "delete" else (run.status is RunStatus.CANCELLED)


@pytest.mark.both_databases
def test_trainer_writes_nothing_after_losing_its_run(begun, get_run, sessions):
    run_id, trainer = begun
    with sessions.begin() as session:
        session.execute(delete(Step))
        lost = update(Run).where(Run.id == run_id)
        session.execute(lost.values(worker="there/cpu", phase=Phase.LOADING, phase_done=0))
    trainer.join(timeout=20)
    assert not trainer.is_alive()
    run = get_run(run_id)
    assert (run.status, run.phase, run.phase_done, run.error) == (RunStatus.RUNNING, Phase.LOADING, 0, None)
    assert run.steps == []


def test_run_without_its_checkpoints_starts_again(settings, make_run, get_run, train, sessions):
    lost = make_run(epochs=1)
    with sessions.begin() as session:
        run = session.get(Run, lost)
        run.status, run.phase, run.phase_done = RunStatus.RUNNING, Phase.EVALUATING, 4
        run.steps = [Step(step=0), *(Step(step=step, task_loss=99.0, penalty=0.0) for step in range(1, 7))]
    fine_tune(lost, settings, "cpu")
    outcomes = [
        (run.status, run.phase_done, run.results, [(step.step, step.task_loss) for step in run.steps])
        for run in (get_run(lost), train(epochs=1))
    ]
    assert outcomes[0] == outcomes[1]


def test_two_trainers_never_share_a_folder(settings, make_run, get_run):
    run_id = make_run(epochs=1)
    folder = settings.runs / run_id
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    trainer = threading.Thread(target=fine_tune, args=(run_id, settings, "cpu"), daemon=True)
    trainer.start()
    time.sleep(0.5)
    assert get_run(run_id).status is RunStatus.QUEUED
    os.close(handle)
    trainer.join(timeout=30)
    assert get_run(run_id).status is RunStatus.FINISHED


def test_evaluation_zeta_shrinks_isoscore_star(train):
    plain, half, full = runs = [train(epochs=1, lam=0, evaluation_zeta=zeta) for zeta in (0, 0.5, 1)]
    assert len({run.isoscore_star for run in runs}) == 3
    assert [run.results.zeta for run in runs] == [0, 0.5, 1]
    assert plain.results.loss == half.results.loss == full.results.loss


def test_row_limits_draw_the_same_rows_in_every_run(train):
    first, second = (train(epochs=1, lam=0, train_rows=16, validation_rows=10) for _ in range(2))
    assert first.results == second.results
    assert (first.results.n_validation, first.steps[-1].step) == (10, 1)


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2"])
def test_downloaded_model_predicts_the_same(client, train, tmp_path, model):
    run = train(export=True, model=model, checkpoint="best", learning_rate=5e-3)
    run_id = run.id
    answer = client.get(f"/runs/{run_id}/model.zip")
    assert answer.headers["content-disposition"] == (
        f"attachment; filename*=utf-8''sweep%2C%20istar%2C%20lambda%201%2C%20seed%200%2C%20{run_id[:8]}.zip"
    )
    assert client.get(f"/api/runs/{run_id}/model").content == answer.content
    assert client.get(f"/api/runs/{run_id}").json()["model_sha256"] == run.model_sha256
    assert f'href="/runs/{run_id}/model.zip"' in client.get(f"/runs/{run_id}?tab=results").text
    with ZipFile(io.BytesIO(answer.content)) as zip_file:
        assert {member.compress_type for member in zip_file.infolist()} == {ZIP_STORED}
        assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= set(zip_file.namelist())
        zip_file.extractall(tmp_path / "model")

    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    rows = [line.split("\t") for line in make_table(40, 2).decode().splitlines()[1:]]
    inputs = tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")
    labels = torch.tensor([int(label) for _, label in rows])
    with torch.no_grad():
        outputs = loaded(**{name: inputs[name] for name in ("input_ids", "attention_mask")}, labels=labels)
    assert outputs.loss.item() == pytest.approx(run.results.loss, rel=1e-5)
    assert (outputs.logits.argmax(1) == labels).double().mean().item() == run.performance
    assert loaded.config.id2label == {0: "0", 1: "1"}

    card = (tmp_path / "model" / "README.md").read_text()
    for clause in (
        f'base_model: "{model}"', "on tiny, seed 0", "I-STAR with lambda = 1 and zeta = 0.2",
        f"| accuracy | {run.performance} |", "Scores of the best (step", "on 6 held-out training rows) weights",
        'AutoModelForSequenceClassification.from_pretrained("model")', '"transformers": ',
    ):  # fmt: skip
        assert clause in card


def test_equal_models_share_a_file_until_last_is_deleted(client, settings, sessions, train):
    first, second = train(export=True, epochs=1), train(export=True, epochs=1)
    sha256 = first.model_sha256
    assert second.model_sha256 == sha256
    storage = open_storage(settings)
    for run, remains in ((first, True), (second, False)):
        assert client.delete(f"/api/experiments/{run.experiment_id}").status_code == 204
        assert storage.exists(sha256) == remains
        with sessions() as session:
            assert (session.get(StoredFile, sha256) is not None) == remains
    with sessions() as session:
        assert session.scalars(select(Run)).all() == []


def test_run_without_model_says_so(client, make_run):
    run_id = make_run()
    answer = client.get(f"/api/runs/{run_id}/model")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith("This run is queued and has kept no model: only a finished run of")


def test_storage_error_records_no_model(settings, make_run, get_run, monkeypatch):
    run_id = make_run(export=True, epochs=None, max_steps=1)
    monkeypatch.setattr("app.storage.ledger.Ledger.store", lambda *_: (_ for _ in ()).throw(OSError("full")))
    fine_tune(run_id, settings, "cpu")
    run = get_run(run_id)
    assert (run.status, run.error, run.model_sha256) == ("failed", "OSError: full", None)
    assert list(settings.runs.iterdir()) == []


def test_model_card_has_reasons_and_escapes_names(client, settings, sessions, make_run, get_run, monkeypatch):
    """All three validation rows have one class; several chat templates are stored in a folder."""
    save = PreTrainedTokenizerFast.save_pretrained

    def save_pretrained(self, folder, **_):
        self.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
        return save(self, folder)

    monkeypatch.setattr(PreTrainedTokenizerFast, "save_pretrained", save_pretrained)
    run_id = make_run(export=True, epochs=None, max_steps=1, validation_rows=3)
    with sessions.begin() as session:
        session.get(Run, run_id).experiment.name = "a\n# [b](c) <i>"
    fine_tune(run_id, settings, "cpu")
    reasons = get_run(run_id).results.metric_reasons
    with ZipFile(io.BytesIO(client.get(f"/api/runs/{run_id}/model").content)) as zip_file:
        card = zip_file.read("README.md").decode()
        assert zip_file.read("additional_chat_templates/tool_use.jinja") == b"{{ tools }}"
    assert r"# a \# \[b\]\(c\) \<i\>" in card
    assert f"| matthews | {reasons['matthews']} |" in card
    assert "None" not in card.split("## How to load it")[0]
