"""The trained model as one file: weights, tokenizer and a card that tells what it is and how to load it."""

import json
import re
import shutil
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from app.db.options.measuring import Checkpoint
from isotropy.catalog import REGULARIZERS
from workers.finetune.evaluation import Evaluation
from workers.finetune.folder import RunFolder
from workers.finetune.order import Order
from workers.finetune.tasks import TASKS

# Of every file inside, so that the same model is the same bytes.
DATE = (1980, 1, 1, 0, 0, 0)


def zip_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, card: str, folder: RunFolder) -> Path:
    """Write a zip file into the run's folder and return where it is; weights do not get smaller, so nothing does."""
    saved = folder.path / "model"
    shutil.rmtree(saved, ignore_errors=True)  # of an attempt that was killed
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    (saved / "README.md").write_text(card, encoding="utf-8")
    path = folder.path / "model.zip"
    with ZipFile(path, "w", ZIP_STORED) as whole:
        for part in sorted(path for path in saved.rglob("*") if path.is_file()):
            entry = ZipInfo(part.relative_to(saved).as_posix(), DATE)
            with part.open("rb") as source, whole.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
    shutil.rmtree(saved)
    return path


def model_card(order: Order, environment: dict[str, object], evaluation: Evaluation) -> str:
    """Return the card, in Markdown behind the header that model hubs read."""
    config, results = order.config, evaluation.results
    loaded_by = TASKS[config.task].auto_class.__name__
    added = [
        f"- {penalty.name} with lambda = {lam:g}"
        + (f" and zeta = {config.zeta:g}" if "zeta" in penalty.options else "")
        for name, lam in config.weights.items()
        if (penalty := REGULARIZERS[name])
    ]
    reasons = results.metric_reasons
    scores = [f"| {name} | {reasons.get(name, value)} |" for name, value in results.metrics.items()]
    star = evaluation.isoscore_star
    score = star.reason if star.value is None else star.value
    scores.append(f"| IsoScore* at zeta = {config.evaluation_zeta:g} | {score} |")
    made_of = f"{_plain(config.model)}, fine-tuned for {config.task} on {_plain(order.dataset.name)}"
    header = {"library_name": "transformers", "base_model": config.model, "metrics": [config.metric.value]}
    return "\n".join(
        [
            "---",
            *(f"{name}: {json.dumps(value)}" for name, value in header.items()),
            "---",
            "",
            f"# {_plain(order.experiment)}",
            "",
            f"{made_of}, seed {config.seed}.",
            "Added to the task's loss:" if added else "Nothing was added to the task's loss.",
            "",
            *added,
            "",
            f"Scores of the {_weights(order, evaluation)} weights on {results.n_validation} validation rows:",
            "",
            "| Score | Value |",
            "|---|---|",
            *scores,
            "",
            "## How to load it",
            "",
            "Unpack the file into a folder, here `model`:",
            "",
            "```python",
            f"from transformers import {loaded_by}, AutoTokenizer",
            "",
            f'model = {loaded_by}.from_pretrained("model")',
            'tokenizer = AutoTokenizer.from_pretrained("model")',
            "```",
            "",
            "## How it was made",
            "",
            "```json",
            json.dumps({"config": config.model_dump(mode="json"), "environment": environment}, indent=2),
            "```",
            "",
        ]
    )


def _weights(order: Order, evaluation: Evaluation) -> str:
    chosen = evaluation.results.selection
    if order.config.checkpoint is Checkpoint.LAST or chosen is None or chosen.best_step is None:
        return "last"
    split = "validation rows" if chosen.split == "validation" else "held-out training rows"
    return f"best (step {chosen.best_step}, by {chosen.metric} on {chosen.n} {split})"


def _plain(name: str) -> str:
    """A name that a user gave, on one line and none of it read as Markdown."""
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(name.split()))
