"""Rows of an import are hidden from every query until all of them are there, those of a deleted experiment until gone.

The filter is added to each query as it runs, so that a list, a count or a figure that is written later cannot forget
it. An import's own writes need no query of hidden rows; what has to see them says so with ``SEEING_ARRIVING``.
"""

from typing import Any

from sqlalchemy import Select, event, select
from sqlalchemy.orm import ORMExecuteState, with_loader_criteria

from app.db.models import Dataset, Experiment, Import, ImportStatus, Run

SEEING_ARRIVING = "arriving"
"""The execution option of a query that sees hidden rows too."""

_UNFINISHED = Import.status != ImportStatus.FINISHED
_EXPERIMENTS = select(Import.experiment_id).where(Import.experiment_id.is_not(None), _UNFINISHED)
_removed = Experiment.__table__  # the table alone, to which no filter is added in its turn
_REMOVED = select(_removed.c.id).where(_removed.c.removed_at.is_not(None))
_DATASETS = select(Import.dataset_id).where(Import.dataset_id.is_not(None), _UNFINISHED)
# Loads of relationships pass here too. Kept by the rows for these, the filter would keep rows from being pickled.
_HIDING = (
    with_loader_criteria(
        Experiment,
        Experiment.id.not_in(_EXPERIMENTS) & Experiment.removed_at.is_(None),
        propagate_to_loaders=False,
    ),
    with_loader_criteria(
        Run,
        Run.experiment_id.not_in(_EXPERIMENTS) & Run.experiment_id.not_in(_REMOVED),
        propagate_to_loaders=False,
    ),
    with_loader_criteria(Dataset, Dataset.id.not_in(_DATASETS), propagate_to_loaders=False),
)


def hide_arriving(sessions: Any) -> None:
    """Have the sessions of a factory hide what is on its way in."""
    event.listen(sessions, "do_orm_execute", _hide)


def _hide(state: ORMExecuteState) -> None:
    if not isinstance(state.statement, Select) or state.is_column_load:
        return
    if not state.execution_options.get(SEEING_ARRIVING, False):
        state.statement = state.statement.options(*_HIDING)
