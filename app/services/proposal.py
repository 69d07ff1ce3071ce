"""What a data set looks like: the likeliest task, its texts and its label, by the names and contents of the columns."""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from app.db.hub_tasks import TASKS, HubName
from app.services.columns import is_fraction
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.columns import Column, ColumnKind

SPAN_TEXTS = ("question", "context")
TEXT_NAMES = (
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("text1", "text2"),
    ("sentence",),
    ("text",),
)
"""Of GLUE's tasks first, and pairs before single texts, since those of QNLI hold a sentence too."""
LABEL_NAMES = ("label", "labels", "score", "class", "target", "category", "rating", "sentiment", "gold", "y")
NOT_LABELS = frozenset({"id", "idx", "index", "guid", "uid", "qid", "row"})

MAX_WHOLE_CLASSES = 20
"""More different whole numbers, seldom repeated, are taken for scores."""


class TaskProposal(BaseModel):
    """A task that the columns of a data set are fit for, as far as they tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: TaskKind
    text_columns: list[str]
    label_column: str
    metric: Metric
    n_classes: int | None = Field(description="Null where the task is not classification.")

    @property
    def summary(self) -> str:
        """The proposal in words."""
        kind = self.task.value
        if self.task is not TaskKind.SPAN and len(self.text_columns) == 2:
            kind = f"pair {kind}"
        classes = f", {self.n_classes} classes" if self.n_classes else ""
        return f"{kind}: {' + '.join(self.text_columns)} → {self.label_column}{classes}"


def propose_for(hub_name: str | None, columns: Sequence[Column]) -> TaskProposal | None:
    """Return what is known of a task of the Hub, or else what the columns of a data set look like."""
    if hub_name is None:
        return propose(columns)
    known = TASKS[HubName(hub_name)]
    return TaskProposal(
        task=known.task,
        text_columns=list(known.text_columns),
        label_column=known.label_column,
        metric=known.metric,
        n_classes=len(known.labels) or None,
    )


def propose(columns: Sequence[Column]) -> TaskProposal | None:
    """Return the likeliest task, None if there is no text or nothing to be predicted of it."""
    return _propose_span(columns) or _propose_label(columns)


def _propose_span(columns: Sequence[Column]) -> TaskProposal | None:
    spans = [column.name for column in columns if column.kind is ColumnKind.SPAN]
    texts = _texts([column for column in columns if column.kind is not ColumnKind.SPAN], (SPAN_TEXTS,))
    if not spans or len(texts) != 2:
        return None
    return _proposal(TaskKind.SPAN, texts, spans[0], None)


def _propose_label(columns: Sequence[Column]) -> TaskProposal | None:
    label = _label(columns)
    if label is None:
        return None
    others = [column for column in columns if column.kind is not ColumnKind.SPAN and column is not label]
    texts = _texts(others, TEXT_NAMES)
    if not texts:
        return None
    if _is_score(label):
        return _proposal(TaskKind.REGRESSION, texts, label.name, None)
    return _proposal(TaskKind.CLASSIFICATION, texts, label.name, label.n_distinct)


def _proposal(task: TaskKind, texts: list[str], label: str, n_classes: int | None) -> TaskProposal:
    return TaskProposal(task=task, text_columns=texts, label_column=label, metric=METRICS[task][0], n_classes=n_classes)


def _texts(columns: Sequence[Column], known: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the columns of the first names that are all there, or else the first two columns that hold text."""
    by_name = {column.name.lower(): column.name for column in columns if column.kind is not ColumnKind.NUMBER}
    for names in known:
        if all(name in by_name for name in names):
            return [by_name[name] for name in names]
    return [column.name for column in columns if column.kind is ColumnKind.TEXT and not _is_count(column)][:2]


def _label(columns: Sequence[Column]) -> Column | None:
    """Return a column called like a label, or the first of labels, or of numbers, that could be one."""
    fit = [column for column in columns if (_is_score(column) or _is_class(column)) and not _is_count(column)]
    named = (column for name in LABEL_NAMES for column in fit if column.name.lower() == name)
    tests: tuple[Callable[[Column], bool], ...] = (
        lambda column: column.kind is ColumnKind.LABEL,
        lambda column: column.kind is ColumnKind.NUMBER,
    )
    unnamed = (column for test in tests for column in fit if test(column) and not _is_text(column))
    return next(named, None) or next(unnamed, None)


def _is_class(column: Column) -> bool:
    return column.kind is not ColumnKind.SPAN and column.values is not None and len(column.values) >= 2


def _is_score(column: Column) -> bool:
    """Whether a column holds fractions, or more whole numbers than there are classes."""
    if column.kind is not ColumnKind.NUMBER:
        return False
    if column.values is None or len(column.values) > MAX_WHOLE_CLASSES:
        return True
    return any(is_fraction(value) for value in column.values)


def _is_text(column: Column) -> bool:
    return any(column.name.lower() in names for names in (*TEXT_NAMES, SPAN_TEXTS))


def _is_count(column: Column) -> bool:
    """Whether a column counts or names the rows."""
    return column.name.lower() in NOT_LABELS
