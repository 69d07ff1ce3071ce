"""Time whole runs, from their row to their results, beside a bare PyTorch loop of the same steps and evaluation.

Run: ISOSCOPE_BENCH_DATA=FOLDER python -m benchmarks.whole_run [MODEL ...], with rte/train.tsv and rte/validation.tsv
"""

import csv
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    set_seed,
)

from app.context import Context
from app.core.process import BUNDLED_MODEL, bundled_folder
from app.db.config import RunConfig, TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment, Run, RunStatus, StoredFile
from app.storage import open_storage
from benchmarks._many_runs import new_context
from benchmarks._rounds import interleave, machine, requested_rounds, requested_threads, table
from isotropy.catalog import Regularizer
from workers.training.job import fine_tune

BERT_BASE = "bert-base"
SHAPES = {  # Batch size and steps
    BUNDLED_MODEL: (16, 120),
    BERT_BASE: (8, 60),
}
VALIDATION_ROWS = 100
MAX_LENGTH = 64


def add_run(context: Context, files: tuple[Path, Path], config: RunConfig) -> str:
    """Queue a run on the files and return its id."""
    hashes = []
    for file in files:
        stored = open_storage(context.settings).write(io.BytesIO(file.read_bytes()), 2**30)
        hashes.append(stored.sha256)
        with context.sessions.begin() as session:
            session.merge(StoredFile(sha256=stored.sha256, size_bytes=stored.size_bytes))
    names = dict(zip(("train_filename", "validation_filename"), (file.name for file in files), strict=True))
    dataset = Dataset(
        name="RTE",
        origin=DatasetOrigin.UPLOAD,
        columns=[],
        train_sha256=hashes[0],
        validation_sha256=hashes[1],
        **names,
    )
    fields = {name: getattr(config, name) for name in ("regularizer", "lam", "zeta", "seed")}
    run = Run(position=0, config=config.model_dump(mode="json"), **fields)
    with context.sessions.begin() as session:
        shared = TrainingConfig(**config.model_dump(include=set(TrainingConfig.model_fields)))
        session.add(Experiment(name="run", dataset=dataset, config=shared, runs=[run]))
    return run.id


def train_run(context: Context, files: tuple[Path, Path], config: RunConfig, device: str) -> None:
    """Do the whole job of a run."""
    run_id = add_run(context, files, config)
    fine_tune(run_id, context.settings, device)
    with context.sessions() as session:
        run = session.get_one(Run, run_id)
        if run.status is not RunStatus.FINISHED:
            raise RuntimeError(f"the run ended with: {run.error}")


def train_bare(folder: Path, files: tuple[Path, Path], config: RunConfig, device: str) -> float:
    """Train and evaluate as the run does, without logs, measures or results; return the accuracy."""
    set_seed(config.seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).to(device)
    train_rows, validation_rows = (
        encode(file, config, tokenizer, limit)
        for file, limit in zip(files, (config.train_rows, config.validation_rows), strict=True)
    )
    collate = DataCollatorWithPadding(tokenizer)
    loader: DataLoader[Any] = DataLoader(train_rows, config.batch_size, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate, fused=True)
    max_steps = config.max_steps or 0
    schedule = LambdaLR(optimizer, lambda step: 1 - step / max_steps)
    step = 0
    model.train()
    while step < max_steps:
        for batch in loader:
            model(**batch.to(device)).loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if step == max_steps:
                break
    model.eval()
    validation_rows.sort(key=lambda row: -len(row["input_ids"]))
    correct = 0
    with torch.no_grad():
        for batch in DataLoader(validation_rows, 4 * config.batch_size, collate_fn=collate):  # type: ignore[arg-type]
            inputs = batch.to(device)
            correct += int((model(**inputs).logits.argmax(-1) == inputs["labels"]).sum())
    return correct / len(validation_rows)


def encode(
    file: Path, config: RunConfig, tokenizer: PreTrainedTokenizerBase, limit: int | None
) -> list[dict[str, Any]]:
    """Return the first rows of a file, tokenized."""
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))[:limit]
    texts = [[row[name] for row in rows] for name in config.text_columns]
    encoded = tokenizer(*texts, truncation=True, max_length=config.max_length)
    return [
        {"input_ids": ids, "attention_mask": mask, "labels": int(row["label"])}
        for ids, mask, row in zip(encoded["input_ids"], encoded["attention_mask"], rows, strict=True)
    ]


def make_config(model: str) -> RunConfig:
    """Return a plain run; the environment variable ``STEPS`` sets its length."""
    batch_size, steps = SHAPES[model]
    return RunConfig(
        model=model,
        text_columns=["sentence1", "sentence2"],
        label_column="label",
        label_names=["0", "1"],
        seed=0,
        regularizer=Regularizer.NONE,
        lam=0,
        batch_size=batch_size,
        epochs=None,
        max_steps=int(os.environ.get("STEPS", steps)),
        train_rows=1000,
        validation_rows=VALIDATION_ROWS,
        max_length=MAX_LENGTH,
        schedule="linear",
        learning_rate=3e-5,
    )


def main() -> None:
    """Print the medians of interleaved rounds and their ratios to the bare loop, for each model."""
    torch.set_num_threads(requested_threads())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Path(os.environ["ISOSCOPE_BENCH_DATA"]) / "rte"
    files = (data / "train.tsv", data / "validation.tsv")
    print(machine("torch", "transformers"))
    with TemporaryDirectory() as folder:
        context = new_context(folder)
        bundled = bundled_folder()
        if bundled is None:
            raise RuntimeError("The bundled model is not installed.")
        sources = {BUNDLED_MODEL: bundled, BERT_BASE: context.settings.models / BERT_BASE}
        BertForSequenceClassification(BertConfig()).save_pretrained(sources[BERT_BASE])
        AutoTokenizer.from_pretrained(bundled).save_pretrained(sources[BERT_BASE])
        for model in sys.argv[1:] or SHAPES:
            config = make_config(model)
            functions: dict[str, Callable[[], object]] = {
                "bare loop": partial(train_bare, sources[model], files, config, device),
                "whole run": partial(train_run, context, files, config, device),
            }
            print(f"{model}, {config.max_steps} steps of {config.batch_size} rows, {device}\n")
            print(table(interleave(functions, requested_rounds()), base="bare loop"))


if __name__ == "__main__":
    main()
