"""Settings of runs, or of experiments with their runs, side by side."""

from dataclasses import dataclass
from functools import partial

from app.db.options.regularization import describe_regularizer
from app.db.run_rows import AnyRun
from app.results.run_table import EXPERIMENT, RunTable, cell_text, sort_key
from app.web.dependencies import Row

MAX_COMPARED_COLUMNS = 8
MAX_LISTED_VALUES = 8


class ComparedColumn(Row):
    """A run, or an experiment with its runs, whose settings are compared."""

    name: str
    href: str
    runs: int


@dataclass(frozen=True)
class SettingComparison:
    """Settings side by side, in the order of ``RunTable.groupable_fields``."""

    columns: list[ComparedColumn]
    differing: dict[str, list[list[str]]]
    """By field, the formatted values in each column."""
    equal: dict[str, str]
    columns_are_experiments: bool
    """Whether each column is an experiment, because there are too many runs for a column each."""
    n_left_out: int
    """Experiments without a column."""


def compare_settings(table: RunTable) -> SettingComparison:
    """Compare the runs in all settings, except for the experiment."""
    columns_are_experiments = len(table.runs) > MAX_COMPARED_COLUMNS
    if columns_are_experiments:
        runs_by_experiment: dict[str, list[AnyRun]] = {experiment_id: [] for experiment_id in table.experiment_names}
        for run in table.runs:
            runs_by_experiment[run.experiment_id].append(run)
        columns = [
            (table.experiment_names[experiment_id], f"/experiments/{experiment_id}", table.subset(runs))
            for experiment_id, runs in runs_by_experiment.items()
        ]
    else:
        columns = []
        for run in table.runs:
            name = f"{describe_regularizer(run.regularizer, run.lam)}, seed {run.seed}"
            name = f"{table.experiment_names[run.experiment_id]}: {name}" if len(table.experiment_names) > 1 else name
            columns.append((name, f"/runs/{run.id}", table.subset([run])))
    visible_columns = columns[:MAX_COMPARED_COLUMNS]
    fields = [field for field in table.groupable_fields if field != EXPERIMENT]
    return SettingComparison(
        [ComparedColumn(name=name, href=href, runs=len(subset.runs)) for name, href, subset in visible_columns],
        {
            field: [_format_values(subset, field) for *_, subset in visible_columns]
            for field in fields
            if field in table.differing_fields
        },
        {
            field: cell_text(next((value for value in table.iterate(field) if value is not None), None))
            for field in fields
            if table.runs and field not in table.differing_fields
        },
        columns_are_experiments,
        len(columns) - len(visible_columns),
    )


def _format_values(subset: RunTable, field: str) -> list[str]:
    values = [cell_text(cell) for cell in sorted(subset.distinct(field), key=partial(sort_key, field))]
    if len(values) > MAX_LISTED_VALUES:
        values = [*values[: MAX_LISTED_VALUES - 1], f"and {len(values) - MAX_LISTED_VALUES + 1} more"]
    return values or [cell_text(None)]
