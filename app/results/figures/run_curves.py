"""What one run logs as it trains: task loss and penalty over optimizer steps."""

from functools import partial

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import palette
from app.figures.figure import STEP_AXIS, Figure, Table, linear_axis, plot
from app.results.labels import penalty_words
from isoscope.core.task import TaskKind

AT_STEP = "step %{x:,}: %{y:.4g}<extra></extra>"
NONE_LOGGED = "The run ended before it logged a step."
LOSSES = {
    TaskKind.CLASSIFICATION: "Cross-entropy",
    TaskKind.REGRESSION: "Squared error",
    TaskKind.SPAN: "Cross-entropy of the span’s two ends",
}


def loss(run: Run) -> Figure:
    """Task loss of one run."""
    stated = run.config
    launched = f"{LOSSES[stated.task]} of the batches as logged, without the penalty"
    return _curve(
        [(step.step, step.task_loss) for step in run.steps],
        slug="loss",
        title="Task loss",
        caption=f"{'As its script logged it' if stated.logged else launched}: no smoothing.",
        colour=palette.of_lambda(run.lam),
        ended=run.status.final,
    )


def penalty(run: Run) -> Figure:
    """Penalty of one run: what its regularizers add to the task's loss."""
    return _curve(
        [(step.step, step.penalty) for step in run.steps],
        slug="penalty",
        title="Penalty",
        caption=f"{penalty_words(run.config)}, as added to the task loss.",
        colour=palette.of_lambda(run.lam),
        ended=run.status.final,
    )


def _curve(
    points: list[tuple[int, float | None]], *, slug: str, title: str, caption: str, colour: str, ended: bool
) -> Figure:
    known = [(step, value) for step, value in points if value is not None]
    return Figure(
        slug=slug,
        title=title,
        caption=caption,
        table=Table(["step", slug], [[step, value] for step, value in known]),
        draw=partial(_draw_curve, known, title, colour),
        empty=None
        if known
        else NONE_LOGGED
        if ended
        else "The curve begins here when the run has trained a few steps.",
    )


def _draw_curve(points: list[tuple[int, float]], title: str, colour: str) -> go.Figure:
    line = go.Scatter(
        x=[step for step, _ in points],
        y=[value for _, value in points],
        mode="lines" if len(points) > 1 else "markers",
        line={"color": colour, "width": 1.6},
        hovertemplate=AT_STEP,
    )
    return plot([line], xaxis=STEP_AXIS, yaxis=linear_axis(title, line.y))
