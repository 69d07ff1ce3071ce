"""Check the columns of a sweep, and find the likeliest task of a data set."""

from collections.abc import Sequence

from pydantic import Field

from app.db.hub_tasks import TASKS, HubName
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import listed, quote
from isoscope.core.task import METRICS, Metric, TaskKind
from isoscope.files.columns import MAX_LABELS, NUMBER, Column, ColumnKind
from isoscope.files.span import EXAMPLE
from isoscope.files.strict import Frozen


def check_columns(
    columns: Sequence[Column], task: TaskKind, text_columns: Sequence[str], label_column: str
) -> list[str]:
    """Check that columns fit a task. Return class names, empty unless classification. Raises InvalidError."""
    for name in text_columns:
        if _get_complete_column(columns, name, "text_columns").kind is ColumnKind.SPAN:
            raise InvalidError(
                f"The column {quote(name)} holds answers and where they begin, not texts: choose it as the label of a "
                "span task.",
                "text_columns",
            )
    if len(set(text_columns)) < len(text_columns):
        raise InvalidError("The same text column was chosen twice: choose two different ones.", "text_columns")
    if task is TaskKind.SPAN and len(text_columns) != 2:
        raise InvalidError(
            f"Expected two text columns for a span task, the question and the context that holds its answer; got "
            f"{listed(text_columns)}. Choose both, in this order.",
            "text_columns",
        )
    if label_column in text_columns:
        raise InvalidError(
            f"The label column {quote(label_column)} is also a text column: the model would read the answer. "
            "Choose another.",
            "label_column",
        )
    label = _get_complete_column(columns, label_column, "label_column")
    match task:
        case TaskKind.CLASSIFICATION:
            return _require_classes(label)
        case TaskKind.REGRESSION:
            if label.not_number is not None or label.kind in {ColumnKind.TEXT, ColumnKind.SPAN}:
                sample = "text" if label.not_number is None else quote(label.not_number)
                raise InvalidError(
                    f"The column {quote(label.name)} holds {sample}, expected a finite number in every row for "
                    "regression: choose a column of numbers, or classification.",
                    "label_column",
                )
            _require_two_labels(label)
        case TaskKind.SPAN if label.kind is not ColumnKind.SPAN:
            sample = f" such as {quote(label.examples[0])}" if label.examples else ""
            raise InvalidError(
                f"The column {quote(label.name)} holds {label.kind}s{sample}, expected answers and where they begin in "
                f"the context in every row of both files, as in {EXAMPLE}: choose such a column, or another task.",
                "label_column",
            )
    return []


def _require_classes(column: Column) -> list[str]:
    """Return the class names of a label column. Raise InvalidError if it cannot hold the classes of all files."""
    if column.kind is ColumnKind.SPAN:
        raise InvalidError(
            f"The column {quote(column.name)} holds answers and where they begin, not classes: choose the span task, "
            "or a column of classes.",
            "label_column",
        )
    if column.values is None:
        n_values = "more than 1,000" if column.n_distinct > 1000 else f"{column.n_distinct:,}"
        raise InvalidError(
            f"The column {quote(column.name)} has {n_values} different values, labels at most {MAX_LABELS}: "
            "choose the column that holds the classes.",
            "label_column",
        )
    if fraction := next((value for value in column.values if is_fraction(value)), None):
        raise InvalidError(
            f"The column {quote(column.name)} holds fractions such as {fraction}, so it is a score and not a class: "
            "choose a column of classes, or regression.",
            "label_column",
        )
    _require_two_labels(column)
    if column.unseen:
        raise InvalidError(
            f"The column {quote(column.name)} of the validation file holds {listed(column.unseen)}, which the train "
            "file never does, so no model can learn it: use the same labels in both files.",
            "label_column",
        )
    if column.n_test_unseen:
        raise InvalidError(
            f"The column {quote(column.name)} of the test file holds labels that the train file never does, in "
            f"{column.n_test_unseen:,} rows, so no model can predict them: use the same labels in all files.",
            "label_column",
        )
    return column.values


def _require_two_labels(column: Column) -> None:
    if column.n_distinct < 2:
        raise InvalidError(
            f"The column {quote(column.name)} holds {listed(column.examples)} in every row of the train file: "
            "choose a column with at least two different labels.",
            "label_column",
        )


def _get_complete_column(columns: Sequence[Column], name: str, field: str) -> Column:
    """Return a column by name. Raise InvalidError if it is missing or has empty cells."""
    if (column := next((column for column in columns if column.name == name), None)) is None:
        choices = listed([column.name for column in columns])
        raise InvalidError(f"There is no column {quote(name)} in both files: choose one of {choices}.", field)
    for count, split in (
        (column.n_missing_train, "train"),
        (column.n_missing_validation, "validation"),
        (column.n_missing_test, "test"),
    ):
        if count:
            rows = "1 row" if count == 1 else f"{count:,} rows"
            raise InvalidError(
                f"The column {quote(column.name)} is empty in {rows} of the {split} file: "
                "fill the cells, or leave those rows out of the file.",
                field,
            )
    return column


def is_fraction(label: str) -> bool:
    return NUMBER.fullmatch(label) is not None and not float(label).is_integer()


SPAN_TEXT_NAMES = ("question", "context")
TEXT_NAMES = (
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("text1", "text2"),
    ("sentence",),
    ("text",),
)
"""GLUE's names first. Pairs precede single texts, because QNLI's pair has a column called sentence, too."""
LABEL_NAMES = ("label", "labels", "score", "class", "target", "category", "rating", "sentiment", "gold", "y")
ID_NAMES = frozenset({"id", "idx", "index", "guid", "uid", "qid", "row"})

MAX_INTEGER_CLASSES = 20
"""A column with more distinct whole numbers is taken for scores."""


class TaskProposal(Frozen):
    """The likeliest task of a data set's columns."""

    task: TaskKind
    text_columns: list[str]
    label_column: str
    metric: Metric
    n_classes: int | None = Field(description="Null where the task is not classification.")

    @property
    def summary(self) -> str:
        kind = self.task.value
        if self.task is not TaskKind.SPAN and len(self.text_columns) == 2:
            kind = f"pair {kind}"
        classes = f", {self.n_classes} classes" if self.n_classes else ""
        return f"{kind}: {' + '.join(self.text_columns)} → {self.label_column}{classes}"


def propose_task(hub_name: str | None, columns: Sequence[Column]) -> TaskProposal | None:
    """Return the task of a known Hub data set, or else the likeliest task of the columns."""
    if hub_name is None:
        return guess_task(columns)
    task = TASKS[HubName(hub_name)]
    return TaskProposal(
        task=task.task,
        text_columns=list(task.text_columns),
        label_column=task.label_column,
        metric=task.metric,
        n_classes=len(task.labels) or None,
    )


def guess_task(columns: Sequence[Column]) -> TaskProposal | None:
    """Return the likeliest task; None if there is no text or nothing to predict."""
    label = next((column for column in columns if column.kind is ColumnKind.SPAN), None)
    without_spans = [column for column in columns if column.kind is not ColumnKind.SPAN]
    task, texts = TaskKind.SPAN, _find_text_columns(without_spans, (SPAN_TEXT_NAMES,))
    if label is None or len(texts) != 2:
        if (label := _find_label_column(columns)) is None:
            return None
        task = TaskKind.REGRESSION if _is_score(label) else TaskKind.CLASSIFICATION
        texts = _find_text_columns([column for column in without_spans if column is not label], TEXT_NAMES)
        if not texts:
            return None
    n_classes = label.n_distinct if task is TaskKind.CLASSIFICATION else None
    return TaskProposal(
        task=task, text_columns=texts, label_column=label.name, metric=METRICS[task][0], n_classes=n_classes
    )


def _find_text_columns(columns: Sequence[Column], known_names: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the first known names that all occur, else the names of the first one or two text columns, if any."""
    original_names = {column.name.lower(): column.name for column in columns if column.kind is not ColumnKind.NUMBER}
    for lowercase_names in known_names:
        if all(name in original_names for name in lowercase_names):
            return [original_names[name] for name in lowercase_names]
    return [
        column.name for column in columns if column.kind is ColumnKind.TEXT and column.name.lower() not in ID_NAMES
    ][:2]


def _find_label_column(columns: Sequence[Column]) -> Column | None:
    """Return a column named like a label, else the first of kind label, else the first of numbers; None without any."""
    candidates = [
        column
        for column in columns
        if (_is_score(column) or (column.kind is not ColumnKind.SPAN and len(column.values or ()) >= 2))
        and column.name.lower() not in ID_NAMES
    ]
    columns_named_like_labels = (column for name in LABEL_NAMES for column in candidates if column.name.lower() == name)
    text_names = {name for names in (*TEXT_NAMES, SPAN_TEXT_NAMES) for name in names}
    columns_by_kind = (
        column
        for kind in (ColumnKind.LABEL, ColumnKind.NUMBER)
        for column in candidates
        if column.kind is kind and column.name.lower() not in text_names
    )
    return next(columns_named_like_labels, None) or next(columns_by_kind, None)


def _is_score(column: Column) -> bool:
    if column.kind is not ColumnKind.NUMBER:
        return False
    if column.values is None or len(column.values) > MAX_INTEGER_CLASSES:
        return True
    return any(is_fraction(value) for value in column.values)
