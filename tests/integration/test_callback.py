import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from isoscope.callback import IsoscopeCallback
from isoscope.track import SECONDS_AT_EXIT

WORDS = torch.randint(5, 100, (16, 8), generator=torch.Generator().manual_seed(0))
ROWS = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] > 50)} for row in WORDS]
PROBE = {"input_ids": WORDS[:2], "attention_mask": torch.ones_like(WORDS[:2])}


@pytest.fixture
def callback(server):
    return IsoscopeCallback(
        "e", dataset="d", model="m", metric="accuracy", probe=PROBE, every=5, stop_when_cancelled=True, url=server.url
    )


@pytest.fixture
def trainer(tmp_path):
    def trainer(*callbacks, metrics=lambda _: {"accuracy": 0.5}, **arguments):
        size = {"vocab_size": 100, "hidden_size": 16, "intermediate_size": 32}
        config = BertConfig(**size, num_hidden_layers=1, num_attention_heads=2)
        quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
        return Trainer(
            model=BertForSequenceClassification(config),
            args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True, **quiet | arguments),
            train_dataset=ROWS,
            eval_dataset=ROWS,
            compute_metrics=metrics,
            callbacks=list(callbacks),
        )

    return trainer


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step == self.step


def steps(server):
    return [step for body in server.bodies("steps") for step in body["steps"]]


def layers(server):
    return {step["step"]: step["layers"] for step in steps(server) if "layers" in step}


def by_layer(ended):
    return {measure: entry["values"] for measure, entry in ended["by_layer"].items()}


def test_second_training_begins_independent_run(server, trainer):
    callback = IsoscopeCallback("e", dataset="d", model="m", metric="accuracy", url=server.url)
    runs, arguments = [], {"eval_strategy": "steps", "eval_steps": 2, "logging_strategy": "steps", "logging_steps": 1}
    for seed, metric in ((0, {"accuracy": 0.25, "rougeL": 0.5}), (1, {"accuracy": 0.75})):
        trainer(callback, metrics=lambda _, metric=metric: metric, seed=seed, max_steps=2, **arguments).train()
        runs.append(callback.run)
    assert runs[0].id != runs[1].id
    assert [body["seed"] for body in server.bodies("runs")] == [0, 1]
    first, second = server.bodies("finish")
    assert [first["metrics"], second["metrics"]] == [{"accuracy": 0.25}, {"accuracy": 0.75}]
    assert ["rouge_l" in body["results"] for body in (first, second)] == [True, False]
    assert [step["step"] for step in steps(server)] == [1, 2, 1, 2]


def test_early_stop_is_measured_at_last_step(server, callback, trainer):
    trained = trainer(callback, StopAt(7), max_steps=20)
    trained.train()
    trained.evaluate()
    [ended] = server.bodies("finish")
    assert list(layers(server)) == [0, 5, 7]
    assert by_layer(ended) == layers(server)[7]
    assert (ended["metrics"], ended["notes"]) == ({"accuracy": 0.5}, [])
    reason = "The bias-corrected IsoScore needs at least 4 points; there are 2."
    assert ended["by_layer"]["isoscore_unbiased"] == {"values": [None], "n": 2, "reasons": [reason]}
    assert ended["by_layer"]["mean_cosine"]["reasons"] == [None]


def test_best_model_reports_its_layers_and_metrics(server, callback, trainer):
    values = iter([0.9, 0.2, 0.1])
    common = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "accuracy"}
    stopping = EarlyStoppingCallback(2)
    trainer(callback, stopping, metrics=lambda _: {"accuracy": next(values)}, max_steps=20, **common, **best).train()
    [ended] = server.bodies("finish")
    assert list(layers(server)) == [0, 5, 2]
    assert by_layer(ended) == layers(server)[2]
    assert (ended["metrics"], ended["notes"]) == ({"accuracy": 0.9}, [])


def test_missing_final_evaluation_is_noted_with_step(server, callback, trainer):
    trainer(callback, StopAt(3), max_steps=20, eval_strategy="steps", eval_steps=2).train()
    assert server.bodies("finish") == []
    callback.run._end_at_exit()
    [ended] = server.bodies("finish")
    assert ended["metrics"] == {"accuracy": 0.5}
    assert ended["notes"] == ["Its metrics are of step 2, its trained model is of step 3."]
    assert by_layer(ended) == layers(server)[3]


def test_exit_hook_of_callback_has_timeout_of_loop(server, callback, trainer, monkeypatch):
    trainer(callback, max_steps=1).train()
    waited = []
    monkeypatch.setattr(callback.run, "finish", lambda *_, timeout, **__: waited.append(timeout))
    callback.run._end_at_exit()
    assert waited == [SECONDS_AT_EXIT]


def test_resumed_training_is_second_run(server, callback, trainer, tmp_path):
    trainer(callback, StopAt(2), max_steps=6, save_strategy="steps", save_steps=2).train()
    again = trainer(callback, max_steps=6)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    again.evaluate()
    assert len({body["id"] for body in server.bodies("runs")}) == 2
    assert [step["step"] for step in steps(server)] == [0, 2, 5, 6]
    assert [body["metrics"] for body in server.bodies("finish")] == [{}, {"accuracy": 0.5}]


def test_cancelled_run_stops_training_if_requested(server, callback, trainer):
    gone = {"detail": "It is cancelled.", "field": "status"}
    server.answer = lambda path, _: (409, gone) if path == "steps" else (200, {})
    trained = trainer(callback, max_steps=5000)
    trained.train()
    assert callback.run.cancelled
    assert 0 < trained.state.global_step < 5000
    assert server.bodies("finish") == []


def test_other_refusals_do_not_cancel_training(server, trainer):
    for status, field in ((404, None), (409, None), (422, "status")):
        problem = {"detail": "There is none that could be cancelled.", "field": field}
        server.answer = lambda *_, answer=(status, problem): answer
        callback = IsoscopeCallback(
            "e", dataset="d", model="m", metric="accuracy", stop_when_cancelled=True, url=server.url
        )
        trained = trainer(callback, max_steps=2)
        trained.train()
        assert not callback.run.finish()
        assert not callback.run.cancelled
        assert trained.state.global_step == 2
