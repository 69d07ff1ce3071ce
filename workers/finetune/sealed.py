"""The test rows of a run: scored once at its end, written where nothing reads them until the experiment is opened."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.orm import Session
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from app.db.models import SealedScore, Split
from app.db.predictions import Predictions, write_predictions
from isoscope.files.columns import label_text
from isoscope.hidden_states import looking_at
from isotropy.score import Score
from workers.finetune.columns import Columns
from workers.finetune.looking import forward
from workers.finetune.progress import Progress
from workers.finetune.rows import Rows
from workers.finetune.tasks import Collector, Task


@dataclass(frozen=True)
class SealedRows:
    """Tokenised test rows, and the hash that names them."""

    rows: Rows
    sha256: str


@dataclass(frozen=True)
class Sealed:
    """What a run scored on its test rows. Never logged, and never part of ``Run.results``."""

    metrics: dict[str, Score]
    n: int
    rows_sha256: str
    predictions: Predictions | None
    """By row; None where these are more than can be stored."""

    def write(self, session: Session, run_id: str) -> None:
        """Write it where nothing reads it while sealed, in the transaction of the run's results."""
        session.merge(
            SealedScore(
                run_id=run_id,
                metrics={name: score.value for name, score in self.metrics.items()},
                reasons={name: _of_test_rows(score.reason) for name, score in self.metrics.items() if score.reason},
                n=self.n,
                rows_sha256=self.rows_sha256,
            )
        )
        if self.predictions is not None:
            write_predictions(session, run_id, Split.TEST, self.predictions)


def _of_test_rows(reason: str) -> str:
    """Say a metric's reason of the rows that it is about: tasks know validation rows only."""
    return reason.replace("validation row", "test row")


def seal(columns: Columns, task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int) -> SealedRows:
    """Tokenise test rows before training, so that a label nobody knows fails the run at once."""
    config = task.config
    return SealedRows(
        task.encode(columns, tokenizer, max_length), rows_sha256(columns, config.text_columns, config.label_column)
    )


def score_sealed(model: PreTrainedModel, sealed: SealedRows, task: Task, progress: Progress) -> Sealed:
    """Return the metrics of the test rows. Layers are not measured on them."""
    rows = sealed.rows
    order = rows.longest_first(np.arange(len(rows)))
    collector = task.predictions(rows, order)
    with looking_at(model):
        for looked in forward(model, rows, order, task.config, progress, hidden_states=False):
            collector.add(looked.outputs, looked.batch)
    return Sealed(collector.metrics(), rows.examples, sealed.sha256, _by_row(collector, rows.examples))


def _by_row(collector: Collector, n: int) -> Predictions | None:
    try:
        return collector.by_row(np.arange(n))
    except ValueError:  # more rows than can be stored
        return None


def rows_sha256(columns: Columns, text_columns: list[str], label_column: str) -> str:
    """Return a hash of rows by their texts and labels, whatever their order, file format or names of columns."""
    names = [*text_columns, label_column]
    hashes = sorted(_row_sha256(row) for row in zip(*(columns[name] for name in names), strict=True))
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def _row_sha256(row: tuple[Any, ...]) -> bytes:
    *texts, label = row
    told = [*(None if text is None else str(text) for text in texts), None if label is None else label_text(label)]
    return hashlib.sha256(json.dumps(told, ensure_ascii=True).encode()).digest()
