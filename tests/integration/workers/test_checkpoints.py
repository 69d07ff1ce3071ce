import shutil
from pathlib import Path

import pytest
import torch

from app.core.process import COMPLETE_MARKER
from app.db.models import RunStatus
from isoscope.core.errors import InvalidError
from tests.integration.workers.conftest import CONFIG, outcome, queue_again, stop_after, watch_steps
from tests.long_cases import mark_long
from tests.unit.workers.test_placement import config
from workers.training import checkpoints as module
from workers.training.checkpoints import History, SelectionCallback, split_selection_rows
from workers.training.folder import RunFolder, find_damage
from workers.training.job import fine_tune

# Four steps an epoch, of all 60 rows or of the 54 that are not held out.
BEST = {"checkpoint": "best", "epochs": 3, "learning_rate": 5e-3}
REGRESSION = {"task": "regression", "metric": "pearson", "label_names": []}
CHOOSING = CONFIG | {"checkpoint": "best", "evaluate_every": 2, "selection": "validation"}


@pytest.fixture
def play_metrics(monkeypatch):
    """Make evaluations return these values, in order; each call starts over."""

    def play_metrics(*values):
        remaining = list(values)

        def metric(self):
            module.SelectionCallback.real_metric(self)
            return remaining.pop(0)

        monkeypatch.setattr(module.SelectionCallback, "_evaluate", metric)

    monkeypatch.setattr(module.SelectionCallback, "real_metric", module.SelectionCallback._evaluate, raising=False)
    return play_metrics


def test_best_weights_are_evaluated_and_recorded(settings, train, play_metrics):
    play_metrics(0.5, 0.9, 0.7)
    chosen = train(**BEST)
    play_metrics(0.5, 0.4)  # stops after epoch 2, which has the best weights of the other run
    stopped = train(**BEST | {"checkpoint": "last", "patience": 1})
    assert chosen.results.selection.dump() == {
        "split": "held_out", "n": 6, "metric": "accuracy", "best_step": 8, "best": 0.9,
        "history": [[4, 0.5], [8, 0.9], [12, 0.7]], "stopped_early": False,
    }  # fmt: skip
    assert stopped.results.selection.stopped_early
    assert chosen.results.loss == stopped.results.loss
    assert list(settings.runs.iterdir()) == []


def test_first_of_equals_is_best_and_undefined_metric_keeps_last(train, play_metrics):
    play_metrics(None, None, 0.5, 0.5, 0.5, 0.5)
    selection = train(**BEST, evaluate_every=2).results.selection
    assert (selection.best_step, selection.history[:3]) == (6, [(2, None), (4, None), (6, 0.5)])
    play_metrics(None, None, None)
    undefined = train(**BEST)
    play_metrics(1.0, 0.0, 0.0)
    plain = train(**BEST | {"patience": 9, "checkpoint": "last"})
    assert undefined.results.selection.best_step is None
    assert undefined.results.loss == plain.results.loss


def test_run_stops_early_without_improvement(train, play_metrics):
    play_metrics(0.5, 0.6, 0.6, 0.1)
    run = train(checkpoint="best", patience=2, evaluate_every=1, epochs=3)
    assert (run.results.selection.stopped_early, run.results.selection.best_step) == (True, 2)
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]
    assert run.steps[-1].layers is not None


def test_evaluation_does_not_change_training(train):
    plain, watched = train(), train(selection="validation", patience=1000, evaluate_every=1)
    results = watched.results.dump()
    assert len(results.pop("selection")["history"]) == 8
    assert results == plain.results.dump()
    assert outcome(watched)[-1] == outcome(plain)[-1]


@pytest.mark.parametrize(
    ("step", "probe_every"),
    [(3, 2), *(pytest.param(*case, marks=pytest.mark.long) for case in [(4, None), (5, 1), (9, 2)])],
)
def test_resumed_run_chooses_like_uninterrupted_run(kill, resume, uninterrupted, step, probe_every):
    changes = BEST | {"evaluate_every": probe_every, "patience": 20}
    assert outcome(resume(kill(step, changes))) == outcome(uninterrupted(changes))


def test_best_weights_of_checkpoint_survive_a_better_one(settings, kill, resume, play_metrics, monkeypatch):
    """Saved at step 1, better at step 2, killed at 3: resumed from step 1 it differs, and step 1 is best."""
    monkeypatch.setattr("workers.training.checkpoints.MIN_TRAINING_PER_SAVING", 1e9)  # only one checkpoint
    play_metrics(0.8, 0.9, 0.1)
    run_id = kill(2, {"checkpoint": "best", "evaluate_every": 1, "epochs": None, "max_steps": 4})
    best = {path.name for path in (settings.runs / run_id).glob("best-*")}
    assert best == {"best-1.safetensors", "best-2.safetensors"}
    play_metrics(0.1, 0.1, 0.1)
    selection = resume(run_id).results.selection
    assert selection.history == [(1, 0.8), (2, 0.1), (3, 0.1), (4, 0.1)]
    assert selection.best_step == 1


def test_held_out_tenth_is_the_same_in_every_run():
    columns = {"text": [str(number) for number in range(25)], "label": list(range(25))}
    remaining, held = split_selection_rows(columns, {"text": []}, config(seed=1))
    assert split_selection_rows(columns, {"text": []}, config(seed=2)) == (remaining, held)
    assert (len(held["label"]), len(remaining["label"])) == (3, 22)
    assert sorted(remaining["label"] + held["label"]) == list(range(25))
    assert held["text"] == [str(number) for number in held["label"]]
    assert held["label"] == sorted(held["label"])
    with pytest.raises(InvalidError, match=r"Holding out a tenth of the training rows needs at least 2 rows, got 1\."):
        split_selection_rows({"text": ["a"]}, {"text": ["b"]}, config())


@pytest.mark.parametrize("options", mark_long([{}, REGRESSION], {}.__eq__))
def test_diverged_model_is_never_the_best(train, monkeypatch, options):
    """The argmax of NaN is class 0, as if it had been predicted."""
    evaluate = module.SelectionCallback.on_step_end

    def on_step_end(self, args, state, control, **_):
        if state.global_step == state.max_steps:
            with torch.no_grad():
                self.model.classifier.weight.fill_(float("nan"))
        evaluate(self, args, state, control)

    monkeypatch.setattr(module.SelectionCallback, "on_step_end", on_step_end)
    run = train(**BEST | options | {"selection": "validation"})
    chosen = run.results.selection
    assert chosen.history[-1] == (12, None)
    assert chosen.best_step in (4, 8)
    assert run.performance == chosen.best


def test_nan_is_never_the_best_of_a_history():
    assert History([(1, float("nan")), (2, 0.5), (3, float("nan"))]).best() == (2, 0.5)
    history = History([(1, None), (2, None)])
    assert (history.best(), history.evaluations_since_best()) == (None, 2)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # in the last weight: the file still loads
    path.write_bytes(content)


def make_unreadable(path):
    path.unlink()
    path.symlink_to("/proc/self/mem")  # as on a bad sector, reading its start is an input/output error


def test_every_damage_is_described_and_its_checkpoint_dropped(settings, kill):
    damages = [
        (truncate, "optimizer.pt", "optimizer.pt has"),
        (flip_a_bit, "model.safetensors", "model.safetensors has changed since it was saved"),
        (Path.unlink, "rng_state.pth", "rng_state.pth is missing"),
        (truncate, COMPLETE_MARKER, "complete cannot be read"),
        (make_unreadable, COMPLETE_MARKER, "the disk cannot read one of its files"),
        (flip_a_bit, "trainer_state.json", "trainer_state.json has changed"),
    ]
    run_id = kill(7)
    for checkpoint in (settings.runs / run_id).glob("checkpoint-*"):
        assert find_damage(checkpoint) is None
        for path in checkpoint.iterdir():
            if path.name != COMPLETE_MARKER:
                content = path.read_bytes()
                flip_a_bit(path)
                assert find_damage(checkpoint) == f"{path.name} has changed since it was saved"
                path.write_bytes(content)
    for damage, file, words in damages:
        folder = RunFolder(settings, f"{damage.__name__} {file}")
        shutil.copytree(settings.runs / run_id, folder.path)
        damage(folder.path / "checkpoint-7" / file)
        checkpoint, [(step, description)] = folder.keep_sound_checkpoint()
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
