"""Write the row of a finished run, and zip its model with a card."""

import json
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from app.core.settings import Settings
from app.db.learning import describe_divergence, find_divergence
from app.db.models import Run, RunFigure, RunStatus, Split
from app.db.options.measuring import Checkpoint
from app.db.predictions import write_predictions
from app.db.types import utcnow
from app.storage import open_storage
from app.storage.ledger import Ledger
from isotropy.catalog import REGULARIZERS
from workers.files import storing_files
from workers.training.evaluation import Evaluation, SealedEvaluation
from workers.training.folder import RunFolder
from workers.training.penalties import describe_constant_penalty
from workers.training.progress import Progress
from workers.training.run_spec import RunSpec
from workers.training.tasks import TASKS

# The date of every zipped file, so that the same model gives the same bytes.
ZIP_DATE = (1980, 1, 1, 0, 0, 0)
CARD = """\
---
{header}
---

# {experiment}

{summary}
{penalty_heading}

{penalties}
Scores of the {weights} weights on {n} validation rows:

| Score | Value |
|---|---|
{scores}

## How to load it

Unpack the file into a folder, here `model`:

```python
from transformers import {model_class}, AutoTokenizer

model = {model_class}.from_pretrained("model")
tokenizer = AutoTokenizer.from_pretrained("model")
```

## How it was made

```json
{settings}
```
"""


def zip_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, card: str, folder: RunFolder) -> Path:
    """Write the model's zip file uncompressed (weights do not shrink) and return its path."""
    model_folder = folder.path / "model"
    shutil.rmtree(model_folder, ignore_errors=True)  # left by a killed attempt
    model.save_pretrained(model_folder)
    tokenizer.save_pretrained(model_folder)
    (model_folder / "README.md").write_text(card, encoding="utf-8")
    path = folder.path / "model.zip"
    with ZipFile(path, "w", ZIP_STORED) as archive:
        for file_path in sorted(filter(Path.is_file, model_folder.rglob("*"))):
            entry = ZipInfo(file_path.relative_to(model_folder).as_posix(), ZIP_DATE)
            with file_path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
    shutil.rmtree(model_folder)
    return path


def format_model_card(spec: RunSpec, environment: dict[str, object], evaluation: Evaluation) -> str:
    """Return the model card as Markdown, with the header that model hubs read."""
    config, results = spec.config, evaluation.results
    model_class = TASKS[config.task].auto_class.__name__
    penalty_lines = []
    for name, lam in config.penalty_weights.items():
        zeta = f" and zeta = {config.zeta:g}" if "zeta" in REGULARIZERS[name].options else ""
        penalty_lines.append(f"- {REGULARIZERS[name].name} with lambda = {lam:g}{zeta}\n")
    reasons = results.metric_reasons
    score_lines = [f"| {name} | {reasons.get(name, value)} |" for name, value in results.metrics.items()]
    isoscore_star = evaluation.isoscore_star
    score_or_reason = isoscore_star.reason if isoscore_star.value is None else isoscore_star.value
    score_lines.append(f"| IsoScore* at zeta = {config.evaluation_zeta:g} | {score_or_reason} |")
    weights_used = "last"
    selection = results.selection
    if config.checkpoint is not Checkpoint.LAST and selection is not None and selection.best_step is not None:
        rows = "validation rows" if selection.split == "validation" else "held-out training rows"
        weights_used = f"best (step {selection.best_step}, by {selection.metric} on {selection.n} {rows})"
    summary = f"{_escape_markdown(config.model)}, fine-tuned for {config.task} on {_escape_markdown(spec.dataset.name)}"
    header = {"library_name": "transformers", "base_model": config.model, "metrics": [config.metric.value]}
    return CARD.format(
        header="\n".join(f"{name}: {json.dumps(value)}" for name, value in header.items()),
        experiment=_escape_markdown(spec.experiment_name),
        summary=f"{summary}, seed {config.seed}.",
        penalty_heading="Added to the task's loss:" if penalty_lines else "Nothing was added to the task's loss.",
        penalties="".join(penalty_lines),
        weights=weights_used,
        n=results.n_validation,
        scores="\n".join(score_lines),
        model_class=model_class,
        settings=json.dumps({"config": config.model_dump(mode="json"), "environment": environment}, indent=2),
    )


def _escape_markdown(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(text.split()))


def finish_run(
    evaluation: Evaluation,
    model_zip: Path | None,
    settings: Settings,
    folder: RunFolder,
    progress: Progress,
    sealed: SealedEvaluation | None,
) -> None:
    """Write the results of a run, mark it as finished and store its model's zip file, all in one transaction."""
    with ExitStack() as stack:
        model_column = {}
        if model_zip is None:
            session = stack.enter_context(progress.sessions.begin())
        else:
            ledger = Ledger(progress.sessions, open_storage(settings))
            store_file = stack.enter_context(storing_files(ledger))
            stored_model = store_file(lambda: stack.enter_context(model_zip.open("rb")))
            session = stack.enter_context(ledger.recording(stored_model))
            model_column["model_sha256"] = stored_model.sha256
        run = session.get_one(Run, progress.run_id)
        penalties = [step.penalty for step in run.steps if step.penalty is not None]
        divergence = find_divergence([step.task_loss for step in run.steps if step.step > 0], evaluation.untrained_loss)
        notes = [
            describe_constant_penalty(penalties) if run.config.penalty_weights else None,
            None if divergence is None else describe_divergence(divergence),
            *evaluation.notes,
        ]
        results = evaluation.results.model_copy(update={"divergence": divergence})
        progress.write(
            session,
            status=RunStatus.FINISHED,
            phase=None,
            phase_done=0,
            phase_total=None,
            error=None,
            finished_at=utcnow(),
            performance=evaluation.performance.value,
            performance_reason=evaluation.performance.reason,
            isoscore_star=evaluation.isoscore_star.value,
            isoscore_star_reason=evaluation.isoscore_star.reason,
            results=results,
            learning=results.learning,
            notes=[*run.notes, *(note for note in notes if note)],
            log=folder.log.tail(),
            **model_column,
        )
        if evaluation.predictions is not None:
            write_predictions(session, progress.run_id, Split.VALIDATION, evaluation.predictions)
        for slug, data in evaluation.figures.items():
            session.merge(RunFigure(run_id=progress.run_id, slug=slug, data=data))
        if sealed is not None:
            sealed.write(session, progress.run_id)
