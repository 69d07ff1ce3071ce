"""Figures of a data set's classes and text lengths, and the score of a trivial predictor."""

from collections.abc import Sequence
from functools import partial
from itertools import dropwhile, pairwise
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Dataset
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, escape_text, plot
from app.training.columns import TaskProposal, propose_task
from isoscope.core.formatting import count, number, plural
from isoscope.core.task import TaskKind
from isoscope.files.columns import LENGTH_EDGES, Column, TextLengths

MAX_CLASS_CHARACTERS, MAX_NARROW_CLASSES = 24, 40
SPLIT_COLORS = {"train": palette.MAIN, "validation": palette.MARKED}


class TrivialScore(NamedTuple):
    """The validation score of a predictor that ignores the texts."""

    metric: str
    value: float
    predictor: str
    is_single_class: bool = False
    """Whether all validation rows have the predicted class, so that no run can score higher."""


def dataset_figures(dataset: Dataset) -> list[Figure]:
    """Return the figure of class counts, if any, then one for each text column whose lengths were counted."""
    proposal = propose_task(dataset.hub_name, dataset.columns)
    columns_by_name = {column.name: column for column in dataset.columns}
    text_columns, figures = dataset.columns, []
    if proposal is not None:
        label = columns_by_name.get(proposal.label_column)
        if proposal.task is TaskKind.CLASSIFICATION and label is not None and label.train_counts is not None:
            figures = [_class_balance_figure(label)]
        text_columns = [columns_by_name[name] for name in proposal.text_columns if name in columns_by_name]
    lengths_by_name = {column.name: column.lengths for column in text_columns if column.lengths is not None}
    return figures + [
        _text_length_figure(f"lengths-{position}", name, lengths)
        for position, (name, lengths) in enumerate(lengths_by_name.items(), 1)
    ]


def find_trivial_score(dataset: Dataset, proposal: TaskProposal | None) -> TrivialScore | None:
    """Return the score of the trivial predictor of the likeliest task; None if unknown."""
    if proposal is None or proposal.task is TaskKind.SPAN:
        return None
    if proposal.task is TaskKind.REGRESSION:
        return TrivialScore("correlation", 0.0, "predicts the mean of the train rows for every row")
    label = next((column for column in dataset.columns if column.name == proposal.label_column), None)
    if label is None or not label.values or not label.train_counts or not label.validation_counts:
        return None
    n_rows = sum(label.validation_counts) + label.n_unseen
    if not n_rows:
        return None
    predicted_index = max(range(len(label.values)), key=label.train_counts.__getitem__)
    class_name = escape_text(label.values[predicted_index], MAX_CLASS_CHARACTERS)
    predictor = f"predicts {class_name}, the most frequent class of the train rows"
    n_correct = label.validation_counts[predicted_index]
    return TrivialScore("accuracy", n_correct / n_rows, predictor, is_single_class=n_correct == n_rows)


def _class_balance_figure(label: Column) -> Figure:
    classes, train_counts = label.values or [], label.train_counts or []
    validation_counts = label.validation_counts or [0] * len(classes)
    shares = {"train": _class_shares(train_counts), "validation": _class_shares(validation_counts, label.n_unseen)}
    columns = classes, train_counts, shares["train"], validation_counts, shares["validation"]
    rows: list[list[Cell]] = [[*row] for row in zip(*columns, strict=True)]
    smallest, largest = min(shares["train"]), max(shares["train"])
    return Figure(
        slug="classes",
        title="Class balance",
        caption=f"Share of rows in each class of {label.name}. Of the train rows, the rarest class has "
        f"{number(100 * smallest)}% and the most frequent {number(100 * largest)}%.",
        table=FigureTable(["class", "train rows", "train share", "validation rows", "validation share"], rows),
        draw=partial(_draw_classes, classes, shares),
        wide=len(classes) > MAX_NARROW_CLASSES,
    )


def _draw_classes(classes: Sequence[str], shares: dict[str, list[float]]) -> go.Figure:
    names = [escape_text(class_name, MAX_CLASS_CHARACTERS) for class_name in classes]
    bars = [
        go.Bar(x=names, y=shares[split], name=split, marker={"color": SPLIT_COLORS[split]},
               hovertemplate="%{x}: %{y:.1%} of the " + split + " rows<extra></extra>")
        for split in shares
    ]  # fmt: skip
    return plot(
        bars,
        barmode="group",
        showlegend=True,
        xaxis={"type": "category"},
        yaxis={"title": {"text": "Share of rows"}, "tickformat": ".0%", "rangemode": "tozero"},
    )


def _text_length_figure(slug: str, name: str, lengths: TextLengths) -> Figure:
    # The counts end at the last bin with a text, so there may be fewer counts than bins.
    bins = zip(pairwise([*LENGTH_EDGES, lengths.longest + 1]), lengths.counts, strict=False)
    all_rows: list[list[Cell]] = [[low, high - 1, n_rows] for (low, high), n_rows in bins]
    rows = list(dropwhile(lambda row: not row[-1], all_rows))  # without empty bins at the start
    mean, longest = number(lengths.mean), count(lengths.longest)
    return Figure(
        slug=slug,
        title=f"Text length: {escape_text(name, MAX_CLASS_CHARACTERS)}",
        caption=f"{plural(lengths.n, 'train row')}: {mean} characters on average, {longest} at most. "
        "An English token has about four characters.",
        table=FigureTable(["from (characters)", "to", "train rows"], rows),
        draw=partial(_draw_lengths, rows),
    )


def _draw_lengths(rows: Sequence[Sequence[Cell]]) -> go.Figure:
    names = [f"{count(low)}" if low == high else f"{count(low)}–{count(high)}" for low, high, _ in rows]  # type: ignore[arg-type]
    bars = go.Bar(
        x=names,
        y=[n_rows for _, _, n_rows in rows],
        marker={"color": palette.MAIN},
        hovertemplate="%{x} characters: %{y:,} rows<extra></extra>",
    )
    return plot(
        [bars],
        bargap=0.05,
        xaxis={"type": "category", "title": {"text": "Characters"}},
        yaxis={"title": {"text": "Train rows"}, "rangemode": "tozero"},
    )


def _class_shares(counts: Sequence[int], n_of_other_classes: int = 0) -> list[float]:
    """Return the share of each class among all rows, including rows of classes that no train row has."""
    total = sum(counts) + n_of_other_classes
    return [n / total if total else 0.0 for n in counts]
