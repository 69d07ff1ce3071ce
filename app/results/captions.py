"""Sentences that captions of figures of runs share, and cells of their tables."""

from collections.abc import Collection, Sequence

from app.db.run_rows import AnyRun
from app.results.run_table import RunTable
from app.results.statistics.estimate import ErrorBar, Estimate
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind

MAX_LISTED = 3


def join_first(labels: Sequence[str], limit: int = MAX_LISTED, separator: str = "; ") -> str:
    """Join the first ``limit`` labels and the number of the others, as in "a; b; c and 2 more"."""
    suffix = f" and {count(len(labels) - limit)} more" if len(labels) > limit else ""
    return separator.join(labels[:limit]) + suffix


def describe_unscored(table: RunTable) -> str:
    """Say, after a space, how many finished runs have no performance, and why the first has none; empty if all have."""
    unscored = [run for run in table.finished_runs if run.performance is None]
    if not unscored:
        return ""
    reason = f" {unscored[0].performance_reason}" if unscored[0].performance_reason else ""
    return f" Not drawn, because performance is undefined: {plural(len(unscored), 'run')}.{reason}"


def describe_pruned(table: RunTable, action: str) -> str:
    """Say, after a space, which settings have pruned runs and the ``action`` taken, as in "Left out"; empty if none."""
    labels = [table.label(setting) for setting in table.settings if setting in table.pruned_settings]
    if not labels:
        return ""
    return (
        f" {action}, because the study pruned some of their runs, and the finished ones overstate them: "
        f"{join_first(labels)}."
    )


def explain_empty(table: RunTable) -> str:
    """Say why a figure of a sweep has no point."""
    if sentence := describe_unscored(table):
        return sentence.strip()
    if all(run.status.final for run in table.runs):
        return "No run has finished, so there is nothing to plot."
    return "The first point appears here when the first run has finished."


def explain_absence(content: Collection[object], runs: Sequence[AnyRun], pending: str, final: str) -> str | None:
    """Return why a figure is empty: ``pending`` until all runs have ended, then ``final``; None if it has content."""
    if content:
        return None
    return final if all(run.status.final for run in runs) else pending


def format_sizes(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def describe_means(seed_counts: Sequence[int]) -> str:
    if max(seed_counts) == 1:
        return "Each is one run (n = 1 seed); an interval needs two seeds or more."
    return f"Means over seeds ({format_sizes(seed_counts)}) with {ErrorBar.CI95.name_in_full}s."


def describe_texts(runs: Sequence[AnyRun], n: int | None = None) -> str:
    """Name the texts that runs are evaluated on, such as "validation rows" or "1,204 windows of validation rows"."""
    are_spans = any(run.config.task is TaskKind.SPAN for run in runs)
    noun = "window of validation rows" if are_spans else "validation row"
    nouns = "windows of validation rows" if are_spans else "validation rows"
    return nouns if n is None else plural(n, noun, nouns)


def describe_source(runs: Sequence[AnyRun], trained_source: str) -> str:
    """Return where values come from: ``trained_source`` if a worker trained the runs, or their script."""
    n_logged = sum(run.config.logged for run in runs)
    if not n_logged:
        return trained_source
    return "as a script logged it" if n_logged == len(runs) else f"{trained_source}, or as a script logged it"


def estimate_cells(estimate: Estimate | None) -> list[float | None]:
    """Return the mean and the half-width of an estimate as cells of a table."""
    return [estimate.mean, estimate.half_width] if estimate else [None, None]
