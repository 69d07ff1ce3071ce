import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from app.db import job_kinds
from isoscope.cli import COMMANDS
from isoscope.client import Isoscope
from isotropy.catalog import REGULARIZERS
from tests.job_loops import job_thread
from tests.serving import web_process

ROOT = Path(__file__).parents[2]
CLIENTS, PENALTIES = ((ROOT / f"docs/{name}.md").read_text() for name in ("clients", "regularizers"))
ROWS = [f"text {i}\t{i % 2}\n" for i in range(20)]


def find_examples(language):
    return re.findall(rf"```{language}\n(.*?)```", CLIENTS, re.DOTALL)


@pytest.mark.long
@pytest.mark.slow
def test_examples_run(context, tmp_path, cloud):
    np.save(tmp_path / "embeddings.npy", cloud)
    for name, rows in (("train.tsv", ROWS[:12]), ("validation.tsv", ROWS[12:16]), ("test.tsv", ROWS[16:])):
        (tmp_path / name).write_text("".join(["sentence\tlabel\n", *rows]))
    [yaml], [shell] = find_examples("yaml"), find_examples("sh")
    (tmp_path / "sweep.yaml").write_text(yaml)
    (tmp_path / "examples.py").write_text("\n".join(find_examples("python")))
    (tmp_path / "isoscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m isoscope "$@"\n')
    (tmp_path / "isoscope").chmod(0o755)
    measuring = job_thread(context, lambda job: job.kind is not job_kinds.FINETUNE)  # runs stay queued
    with web_process(context.settings) as address, measuring, Isoscope(address) as isoscope:
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT), "ISOSCOPE_URL": address}
        for command in (["bash", "-ec", shell], [sys.executable, "-P", "examples.py"]):
            process = subprocess.run(
                command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
            )
            assert process.returncode == 0, process.stderr
            if command[0] == "bash":
                # 2 rates x 2 seeds
                assert process.stdout.count("queued  istar") == 4
            else:
                assert float(process.stdout.split()[0]) > 0
                assert process.stdout.endswith(
                    "There is no run 'of another server'; it may have been deleted with its experiment. 404\n"
                )
        assert [experiment["total"] for experiment in isoscope.experiments()] == [12, 12, 12]
        assert (tmp_path / "films.zip").stat().st_size > 0


def test_table_lists_every_client_command():
    commands = re.findall(r"^\| `isoscope ([\w-]+)", CLIENTS, re.MULTILINE)
    local = [name for name, command in COMMANDS.items() if command.module == "local"]
    remote = [name for name, command in COMMANDS.items() if command.module not in ("", "local")]
    assert commands == [*local, *remote]


EXAMPLES = re.findall(r"```python\n(.*?)```", PENALTIES, re.DOTALL)
TEXTS = ["the film", "a very good plot", "bad cast and dull plot", "great", "so dull", "is good", "the cast was", "a a"]
CLASSES = {slug: penalty.make.split(":")[1] for slug, penalty in REGULARIZERS.items()}


def test_every_regularizer_has_table_row_example_and_papers():
    rows = re.findall(r"^\| \[`(\w+)`\]\(#\S+\) \| `(\w+)` \|", PENALTIES, re.MULTILINE)
    assert [(slug, name) for name, slug in rows] == list(CLASSES.items())
    for name, example in zip(CLASSES.values(), EXAMPLES, strict=True):
        assert f"{name}(" in example
    for penalty in REGULARIZERS.values():
        for authors in re.findall(r"(\w+)(?:,| &)[^()]*\((?:19|20)\d\d\)", penalty.source):
            assert authors in PENALTIES, penalty.slug


@pytest.mark.parametrize("example", EXAMPLES, ids=CLASSES)
def test_example_adds_penalty_with_gradient_to_loss(models_dir, example):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(models_dir / "tiny-bert")
    tokenizer = AutoTokenizer.from_pretrained(models_dir / "tiny-bert")
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt") | {"labels": torch.arange(8) % 2}
    output = model(**batch, output_hidden_states=True)
    names = {"model": model, "batch": batch, "output": output}
    exec(example, names)
    penalty = names["loss"] - output.loss
    assert penalty.isfinite()
    assert penalty != 0
    penalty.backward()
    gradient = model.get_input_embeddings().weight.grad
    assert gradient.isfinite().all()
    assert gradient.any()
