"""The callback of transformers' Trainer beside its document's example."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from isoscope.callback import IsoscopeCallback
from tests.listening import Server


@pytest.fixture
def server():
    server = Server()
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_a_callback_that_sees_a_second_training_begins_a_second_run_with_nothing_of_the_first(server, tmp_path):
    words = torch.randint(5, 100, (16, 8))
    rows = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row[0] > 50)} for row in words]
    config = BertConfig(
        vocab_size=100, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    callback = IsoscopeCallback("e", dataset="d", model="m", metric="accuracy", url=server.url)
    runs = []
    for seed, metric in ((0, {"accuracy": 0.25, "rougeL": 0.5}), (1, {"accuracy": 0.75})):
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=TrainingArguments(
                output_dir=str(tmp_path), max_steps=2, eval_strategy="steps", eval_steps=2, logging_steps=1,
                save_strategy="no", report_to=[], seed=seed, use_cpu=True, disable_tqdm=True,
            ),
            train_dataset=rows,
            eval_dataset=rows,
            compute_metrics=lambda _, metric=metric: metric,
            callbacks=[callback],
        )  # fmt: skip
        trainer.train()
        runs.append(callback.run)
    assert runs[0].id != runs[1].id
    assert [body["seed"] for body in server.bodies("runs")] == [0, 1]
    assert [body["metrics"] for body in server.bodies("finish")] == [{"accuracy": 0.25}, {"accuracy": 0.75}]
    assert "rouge_l" in server.bodies("finish")[0]["results"]
    assert "rouge_l" not in server.bodies("finish")[1]["results"]
    assert [one["step"] for body in server.bodies("steps") for one in body["steps"]] == [1, 2, 1, 2]
