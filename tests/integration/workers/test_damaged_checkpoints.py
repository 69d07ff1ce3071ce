import shutil
from pathlib import Path

from app.core.process import COMPLETE_MARKER
from app.db.models import RunStatus
from tests.integration.workers.conftest import CONFIG, outcome, queue_again, stop_after, watch_steps
from workers.training.checkpoints import SelectionCallback
from workers.training.folder import RunFolder, find_damage
from workers.training.job import fine_tune

CHOOSING = CONFIG | {"checkpoint": "best", "evaluate_every": 2, "selection": "validation"}


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # in the last weight: the file still loads
    path.write_bytes(content)


DAMAGES = [
    (truncate, "optimizer.pt", "optimizer.pt has"),
    (flip_a_bit, "model.safetensors", "model.safetensors has changed since it was saved"),
    (Path.unlink, "rng_state.pth", "rng_state.pth is missing"),
    (truncate, COMPLETE_MARKER, "complete cannot be read"),
    (flip_a_bit, "trainer_state.json", "trainer_state.json has changed"),
]


def test_every_damage_is_described_and_its_checkpoint_dropped(settings, kill):
    run_id = kill(7)
    for checkpoint in (settings.runs / run_id).glob("checkpoint-*"):
        assert find_damage(checkpoint) is None
        for path in checkpoint.iterdir():
            if path.name != COMPLETE_MARKER:
                content = path.read_bytes()
                flip_a_bit(path)
                assert find_damage(checkpoint) == f"{path.name} has changed since it was saved"
                path.write_bytes(content)
    for damage, file, words in DAMAGES:
        folder = RunFolder(settings, f"with damaged {file}")
        shutil.copytree(settings.runs / run_id, folder.path)
        damage(folder.path / "checkpoint-7" / file)
        checkpoint, [(step, description)] = folder.find_sound_checkpoint()
        assert (checkpoint, step) == (folder.path / "checkpoint-6", 7)
        assert description.startswith(words)
        assert not (folder.path / "checkpoint-7").exists()


def test_run_resumes_before_damaged_checkpoint(settings, kill, resume, uninterrupted, monkeypatch):
    run_id = kill(7)
    flip_a_bit(settings.runs / run_id / "checkpoint-7" / "model.safetensors")
    trained = watch_steps(monkeypatch)
    run = resume(run_id)
    assert trained == list(range(7, 11))
    assert outcome(run) == outcome(uninterrupted())
    (note,) = run.notes
    words = "model.safetensors has changed since it was saved"
    assert note.startswith(f"The checkpoint of step 7 was damaged on the disk ({words}")
    assert note.endswith("Training resumed from step 6.")
    assert note in run.log


def test_run_restarts_if_both_checkpoints_are_damaged(settings, kill, resume, uninterrupted, monkeypatch):
    run_id = kill(7)
    for step in (6, 7):
        truncate(settings.runs / run_id / f"checkpoint-{step}" / "model.safetensors")
    trained = watch_steps(monkeypatch)
    run = resume(run_id)
    assert trained == list(range(1, 11))
    assert outcome(run) == outcome(uninterrupted())
    assert [note.rpartition(". ")[2] for note in run.notes] == ["Training started again from step 0."] * 2


def test_failed_run_resumes_before_damaged_checkpoint(
    settings, frequent_settings, make_run, resume, uninterrupted, sessions, monkeypatch
):
    run_id = make_run(**CONFIG)
    with monkeypatch.context() as patch:
        stop_after(patch, sessions, run_id, 4, RunStatus.FAILED)
        fine_tune(run_id, frequent_settings, "cpu")
    truncate(settings.runs / run_id / "checkpoint-4" / "optimizer.pt")
    queue_again(sessions, run_id)
    trained = watch_steps(monkeypatch)
    resumed = resume(run_id)
    assert trained == list(range(4, 11))
    assert outcome(resumed) == outcome(uninterrupted())


def test_last_two_checkpoints_are_kept_and_dropped_with_damaged_best_weights(
    settings, kill, resume, uninterrupted, monkeypatch
):
    run_id = kill(7, CHOOSING)
    checkpoints = RunFolder(settings, run_id).checkpoints()
    assert [path.name for path in checkpoints] == ["checkpoint-7", "checkpoint-6"]
    assert [find_damage(checkpoint) for checkpoint in checkpoints] == [None, None]
    best = list((settings.runs / run_id).glob("best-*.safetensors"))
    assert best
    for path in best:
        flip_a_bit(path)
    trained = watch_steps(monkeypatch)
    run = resume(run_id)
    assert trained == list(range(1, 11))
    assert outcome(run) == outcome(uninterrupted(CHOOSING))
    assert f"{best[0].name} has changed since it was saved" in run.notes[0]


def test_damaged_best_weights_are_not_chosen(frequent_settings, make_run, get_run, uninterrupted, monkeypatch):
    choose, damaged = SelectionCallback.load_selected_weights, []

    def choose_damaged(self):
        if not damaged:
            damaged.extend(self.folder.path.glob("best-*.safetensors"))
            for path in damaged:
                truncate(path)
        return choose(self)

    monkeypatch.setattr(SelectionCallback, "load_selected_weights", choose_damaged)
    fine_tune(run_id := make_run(**CHOOSING), frequent_settings, "cpu")
    assert damaged
    assert outcome(get_run(run_id)) == outcome(uninterrupted(CHOOSING))
