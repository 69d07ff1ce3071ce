"""Task loss and penalty of one run over optimizer steps."""

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import palette
from app.figures.figure import STEP_AXIS, Figure, FigureTable, linear_axis, plot
from app.results.captions import explain_absence
from app.results.labels import penalty_words
from isoscope.core.task import TaskKind

LOSSES = {
    TaskKind.CLASSIFICATION: "Cross-entropy",
    TaskKind.REGRESSION: "Squared error",
    TaskKind.SPAN: "Cross-entropy of the span’s two ends",
}


def loss_curve(run: Run) -> Figure:
    launched = f"{LOSSES[run.config.task]} of the batches as logged, without the penalty"
    caption = f"{'As its script logged it' if run.config.logged else launched}: no smoothing."
    return _curve(run, [(step.step, step.task_loss) for step in run.steps], "loss", "Task loss", caption)


def penalty_curve(run: Run) -> Figure:
    caption = f"{penalty_words(run.config)}, as added to the task loss."
    return _curve(run, [(step.step, step.penalty) for step in run.steps], "penalty", "Penalty", caption)


def _curve(run: Run, points: list[tuple[int, float | None]], slug: str, title: str, caption: str) -> Figure:
    logged = [(step, value) for step, value in points if value is not None]
    return Figure(
        slug=slug,
        title=title,
        caption=caption,
        table=FigureTable(["step", slug], [[step, value] for step, value in logged]),
        draw=lambda: plot(
            [
                go.Scatter(
                    x=[step for step, _ in logged],
                    y=[value for _, value in logged],
                    mode="lines" if len(logged) > 1 else "markers",
                    line={"color": palette.of_lambda(run.lam), "width": 1.6},
                    hovertemplate="step %{x:,}: %{y:.4g}<extra></extra>",
                )
            ],
            xaxis=STEP_AXIS,
            yaxis=linear_axis(title, [value for _, value in logged]),
        ),
        empty=explain_absence(
            logged,
            [run],
            "The curve begins here when the run has trained a few steps.",
            "The run ended before it logged a step.",
        ),
    )
