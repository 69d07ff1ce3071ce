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

MAX_CLASS_CHARACTERS = 24
SPLIT_COLORS = {"train": palette.MAIN, "validation": palette.MARKED}


class TrivialScore(NamedTuple):
    """The validation score of a predictor that ignores the texts."""

    metric: str
    value: float
    predictor: str
    is_single_class: bool = False
    """Whether all validation rows have the predicted class, so that no run can score higher."""


def dataset_figures(dataset: Dataset) -> list[Figure]:
    """Return the figure of class counts, if any, then one of text lengths per counted column."""
    proposal = propose_task(dataset.hub_name, dataset.columns)
    columns = {column.name: column for column in dataset.columns}
    texts, figures = dataset.columns, []
    if proposal is not None:
        label = columns.get(proposal.label_column)
        if proposal.task is TaskKind.CLASSIFICATION and label is not None and label.train_counts is not None:
            figures = [_class_balance_figure(label)]
        texts = [columns[name] for name in proposal.text_columns if name in columns]
    counted_texts = [(column.name, column.lengths) for column in texts if column.lengths is not None]
    return figures + [
        _text_length_figure(f"lengths-{position}", *counted) for position, counted in enumerate(counted_texts, 1)
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
    n = sum(label.validation_counts) + label.n_unseen
    if not n:
        return None
    most_frequent = max(range(len(label.values)), key=label.train_counts.__getitem__)
    class_name = escape_text(label.values[most_frequent], MAX_CLASS_CHARACTERS)
    predictor = f"predicts {class_name}, the most frequent class of the train rows"
    n_correct = label.validation_counts[most_frequent]
    return TrivialScore("accuracy", n_correct / n, predictor, is_single_class=n_correct == n)


def _class_balance_figure(label: Column) -> Figure:
    values, train = label.values or [], label.train_counts or []
    validation = label.validation_counts or [0] * len(values)
    shares = {"train": _shares(train), "validation": _shares(validation, label.n_unseen)}
    rows: list[list[Cell]] = [
        [value, train[i], shares["train"][i], validation[i], shares["validation"][i]] for i, value in enumerate(values)
    ]
    smallest, largest = min(shares["train"]), max(shares["train"])
    return Figure(
        slug="classes",
        title="Class balance",
        caption=f"Share of rows in each class of {label.name}. Of the train rows, the rarest class has "
        f"{number(100 * smallest)}% and the most frequent {number(100 * largest)}%.",
        table=FigureTable(["class", "train rows", "train share", "validation rows", "validation share"], rows),
        draw=partial(_draw_classes, values, shares),
        wide=len(values) > 40,
    )


def _draw_classes(values: Sequence[str], shares: dict[str, list[float]]) -> go.Figure:
    names = [escape_text(value, MAX_CLASS_CHARACTERS) for value in values]
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
    # Counts end at the last bin with a text, so there are fewer than edges.
    bins = zip(pairwise([*LENGTH_EDGES, lengths.longest + 1]), lengths.counts, strict=False)
    all_rows: list[list[Cell]] = [[low, high - 1, n] for (low, high), n in bins]
    rows = list(dropwhile(lambda row: not row[-1], all_rows))
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


def _shares(counts: Sequence[int], unseen_rows: int = 0) -> list[float]:
    total = sum(counts) + unseen_rows
    return [n / total if total else 0.0 for n in counts]
