import io
from zipfile import ZIP_STORED, ZipFile

import pytest
import torch
from sqlalchemy import select
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from app.db.models import Run, StoredFile
from app.storage import open_storage
from tests.tiny import make_table
from workers.training.job import fine_tune


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
