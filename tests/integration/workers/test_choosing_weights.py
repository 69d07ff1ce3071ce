import pytest
import torch

from isoscope.core.errors import InvalidError
from tests.integration.workers.conftest import outcome
from tests.unit.workers.test_memory import config
from workers.training import checkpoints as module
from workers.training.checkpoints import History, split_selection_rows

# Four steps an epoch of all 60 rows, and of the 54 that are left where six are held out.
BEST = {"checkpoint": "best", "epochs": 3, "learning_rate": 5e-3}


@pytest.fixture
def play_metrics(monkeypatch):
    """Let the evaluations come to these values, in this order and again from the start after a call."""

    def play_metrics(*values):
        remaining = list(values)

        def metric(self):
            module.SelectionCallback.real_metric(self)
            return remaining.pop(0)

        monkeypatch.setattr(module.SelectionCallback, "_evaluate", metric)

    monkeypatch.setattr(module.SelectionCallback, "real_metric", module.SelectionCallback._evaluate, raising=False)
    return play_metrics


def test_the_best_weights_are_evaluated_and_the_choice_is_told(settings, train, play_metrics):
    play_metrics(0.5, 0.9, 0.7)
    chosen = train(**BEST)
    play_metrics(0.5, 0.4)  # stopped behind the second epoch, where the other's best weights are
    stopped = train(**BEST | {"checkpoint": "last", "patience": 1})
    assert chosen.results.selection.dump() == {
        "split": "held_out", "n": 6, "metric": "accuracy", "best_step": 8, "best": 0.9,
        "history": [[4, 0.5], [8, 0.9], [12, 0.7]], "stopped_early": False,
    }  # fmt: skip
    assert stopped.results.selection.stopped_early
    assert chosen.results.loss == stopped.results.loss
    assert list(settings.runs.iterdir()) == []


def test_of_equals_the_first_is_the_best_and_where_the_metric_is_undefined_the_last_weights_stay(train, play_metrics):
    play_metrics(None, None, 0.5, 0.5, 0.5, 0.5)
    selection = train(**BEST, evaluate_every=2).results.selection
    assert (selection.best_step, selection.history[:3]) == (6, [(2, None), (4, None), (6, 0.5)])
    play_metrics(None, None, None)
    undefined = train(**BEST)
    play_metrics(1.0, 0.0, 0.0)
    plain = train(**BEST | {"patience": 9, "checkpoint": "last"})
    assert undefined.results.selection.best_step is None
    assert undefined.results.loss == plain.results.loss


def test_a_run_stops_when_it_gets_no_better(train, play_metrics):
    play_metrics(0.5, 0.6, 0.6, 0.1)
    run = train(checkpoint="best", patience=2, evaluate_every=1, epochs=3)
    assert (run.results.selection.stopped_early, run.results.selection.best_step) == (True, 2)
    assert [step.step for step in run.steps] == [0, 1, 2, 3, 4]
    assert run.steps[-1].layers is not None


def test_evaluating_changes_nothing_of_the_training(train):
    plain, watched = train(), train(selection="validation", patience=1000, evaluate_every=1)
    results = watched.results.dump()
    assert len(results.pop("selection")["history"]) == 8
    assert results == plain.results.dump()
    assert outcome(watched)[-1] == outcome(plain)[-1]


@pytest.mark.parametrize(("step", "probe_every"), [(3, 2), (4, None), (5, 1), (9, 2)])
def test_a_run_killed_and_resumed_chooses_as_one_that_was_not(kill, resume, uninterrupted, step, probe_every):
    changes = BEST | {"evaluate_every": probe_every, "patience": 20}
    assert outcome(resume(kill(step, changes))) == outcome(uninterrupted(changes))


def test_the_best_of_a_checkpoint_is_kept_though_a_better_one_came(settings, kill, resume, play_metrics, monkeypatch):
    """Saved at step 1, better at step 2, killed at 3: from step 1 on the run goes other ways, and 1 is the best."""
    monkeypatch.setattr("workers.training.checkpoints.PAUSE_PER_SAVING", 1e9)  # one checkpoint, the first
    play_metrics(0.8, 0.9, 0.1)
    run_id = kill(2, {"checkpoint": "best", "evaluate_every": 1, "epochs": None, "max_steps": 4})
    best = {path.name for path in (settings.runs / run_id).glob("best-*")}
    assert best == {"best-1.safetensors", "best-2.safetensors"}
    play_metrics(0.1, 0.1, 0.1)
    selection = resume(run_id).results.selection
    assert selection.history == [(1, 0.8), (2, 0.1), (3, 0.1), (4, 0.1)]
    assert selection.best_step == 1


def test_a_tenth_is_held_out_the_same_in_every_run_and_one_row_cannot_be_divided():
    columns = {"text": [str(number) for number in range(25)], "label": list(range(25))}
    remaining, held = split_selection_rows(columns, {"text": []}, config(seed=1))
    assert split_selection_rows(columns, {"text": []}, config(seed=2)) == (remaining, held)
    assert (len(held["label"]), len(remaining["label"])) == (3, 22)
    assert sorted(remaining["label"] + held["label"]) == list(range(25))
    assert held["text"] == [str(number) for number in held["label"]]
    assert held["label"] == sorted(held["label"])
    with pytest.raises(InvalidError, match=r"Expected two training rows or more, to hold a tenth of them out, got 1\."):
        split_selection_rows({"text": ["a"]}, {"text": ["b"]}, config())


@pytest.mark.parametrize("options", [{}, {"task": "regression", "metric": "pearson", "label_names": []}])
def test_a_model_that_diverges_is_never_the_best(train, monkeypatch, options):
    """Of two classes NaN is the first of them, as if it had been predicted."""
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


def test_a_history_knows_no_best_that_is_not_a_number():
    assert History([(1, float("nan")), (2, 0.5), (3, float("nan"))]).best() == (2, 0.5)
    history = History([(1, None), (2, None)])
    assert (history.best(), history.evaluations_since_best()) == (None, 2)
