"""Sentences that captions of figures of runs share, and cells of their tables."""

from collections.abc import Collection, Sequence

from app.db.run_rows import AnyRun
from app.results.run_table import RunTable
from app.results.statistics.estimate import ErrorBar, Estimate
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind

MAX_LISTED = 3


def join_first(labels: Sequence[str], limit: int = MAX_LISTED, separator: str = "; ") -> str:
    suffix = f" and {count(len(labels) - limit)} more" if len(labels) > limit else ""
    return separator.join(labels[:limit]) + suffix


def describe_unscored(table: RunTable) -> str:
    """Report how many finished runs have no performance, and why the first has none; empty if all have one."""
    unscored = [run for run in table.finished_runs if run.performance is None]
    if not unscored:
        return ""
    reason = f" {unscored[0].performance_reason}" if unscored[0].performance_reason else ""
    return f" Not drawn, because performance is undefined: {plural(len(unscored), 'run')}.{reason}"


def describe_pruned(table: RunTable, action: str) -> str:
    """List the settings with pruned runs after the ``action`` taken on them; empty if there are none."""
    labels = [table.label(setting) for setting in table.settings if setting in table.pruned_settings]
    if not labels:
        return ""
    return (
        f" {action}, because the study pruned some of their runs, and the finished ones overstate them: "
        f"{join_first(labels)}."
    )


def explain_empty(table: RunTable) -> str:
    if sentence := describe_unscored(table):
        return sentence.strip()
    if all(run.status.final for run in table.runs):
        return "No run has finished, so there is nothing to plot."
    return "The first point appears here when the first run has finished."


def explain_absence(content: Collection[object], runs: Sequence[AnyRun], pending: str, final: str) -> str | None:
    """Return ``pending`` while a run is unfinished, else ``final``; None if the figure is not empty."""
    if content:
        return None
    return final if all(run.status.final for run in runs) else pending


def format_sizes(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def describe_means(sizes: Sequence[int]) -> str:
    if max(sizes) == 1:
        return "Each is one run (n = 1 seed); an interval needs two seeds or more."
    return f"Means over seeds ({format_sizes(sizes)}) with {ErrorBar.CI95.name_in_full}s."


def describe_texts(runs: Sequence[AnyRun], n: int | None = None) -> str:
    """Name the texts that runs are evaluated on, such as "validation rows" or "1,204 windows of validation rows"."""
    are_spans = any(run.config.task is TaskKind.SPAN for run in runs)
    noun, nouns = (
        ("window of validation rows", "windows of validation rows")
        if are_spans
        else ("validation row", "validation rows")
    )
    return nouns if n is None else plural(n, noun, nouns)


def describe_source(runs: Sequence[AnyRun], trained_source: str) -> str:
    """Name the source of values: ``trained_source`` for runs of a worker, else the script that logged them."""
    n_logged = sum(run.config.logged for run in runs)
    if not n_logged:
        return trained_source
    return "as a script logged it" if n_logged == len(runs) else f"{trained_source}, or as a script logged it"


def estimate_cells(estimate: Estimate | None) -> list[float | None]:
    return [estimate.mean, estimate.half_width] if estimate else [None, None]
