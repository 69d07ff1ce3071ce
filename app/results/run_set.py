"""Runs of any experiments: what they are called, what they differ in, and the table of their settings."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from operator import ne
from typing import Any, NamedTuple, TypeVar

from app.db.config import TrainingOptions
from app.db.models import Experiment, RunStatus
from app.db.options.regularization import NAMES, coordinates
from app.db.reported_config import UNKNOWN, AnyRunConfig, ReportedRunConfig
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from app.results.sweep import Reads, Setting, Sweep, cell, cell_text, setting_of
from isotropy.catalog import Regularizer

MODEL, REGULARIZER, LAM, ZETA, SEED = "model", "regularizer", "lam", "zeta", "seed"
TASK, EXPERIMENT = "task", "experiment"
COORDINATES = (REGULARIZER, LAM, ZETA)
"""What every setting of a figure has by itself."""
OPTIONS = tuple(name for name in TrainingOptions.model_fields if name not in (TASK, MODEL))
FIELDS = (TASK, EXPERIMENT, MODEL, *COORDINATES, *OPTIONS, SEED)
"""What any runs can be grouped by; a task is the data set by its name, as in a search."""
OF_THE_TASK = frozenset({"text_columns", "label_column", "metric"})
WITHOUT_EFFECT = frozenset({"export", "probe_every"})
NOT_BY_ITSELF = frozenset({TASK, EXPERIMENT, SEED}) | OF_THE_TASK | WITHOUT_EFFECT
"""What groups are not made of unless that is asked for: seeds are averaged over, tasks are columns."""
COMPARABLE = ("evaluation_zeta",)
"""What points of a figure never average over, besides tasks, which have figures of their own: what IsoScore* is."""

Item = TypeVar("Item")


class Measured(NamedTuple):
    """What performance is of: only on the same data set and by the same metric can it be compared."""

    dataset_id: str
    metric: str


def measured_by(run: AnyRun) -> Measured:
    """What the performance of a run is of."""
    return Measured(run.experiment.dataset_id, run.config.metric)


@dataclass(frozen=True)
class RunSet:
    """Runs, each with its experiment and data set at hand."""

    runs: Sequence[AnyRun]
    whole: "RunSet | None" = None
    """Of which these are a part: what was read of it is not read again."""

    def part(self, runs: Sequence[AnyRun]) -> "RunSet":
        """Some of the runs."""
        return self if len(runs) == len(self.runs) else RunSet(runs, self)

    @cached_property
    def experiments(self) -> dict[str, str]:
        """Names of the experiments by their ids, in the order of their first runs, told apart where they are alike."""
        return _told_apart((row_id, one.name) for row_id, one in self._experiments.items())

    @cached_property
    def datasets(self) -> dict[str, str]:
        """The same of their data sets."""
        return _told_apart((one.dataset_id, one.dataset.name) for one in self._experiments.values())

    @cached_property
    def _experiments(self) -> dict[str, Experiment]:
        """By their ids, in the order of their first runs."""
        return {run.experiment_id: run.experiment for run in self.runs}

    @cached_property
    def measured(self) -> dict[Measured, int]:
        """On what performance is measured, and how many of the runs have finished there; the most first."""
        counted = Counter(dict.fromkeys(self._measured, 0))
        both = zip(self.runs, self._measured, strict=True)
        counted.update(measured for run, measured in both if run.status is RunStatus.FINISHED)
        return dict(counted.most_common())

    def on(self, measured: Measured) -> "RunSet":
        """The runs whose performance is measured on that."""
        return self.part([run for run, own in zip(self.runs, self._measured, strict=True) if own == measured])

    @cached_property
    def _measured(self) -> list[Measured]:
        return [measured_by(run) for run in self.runs]

    def column(self, field: str) -> list[Cell]:
        """What the runs are in a field, one after the other, read once; None where that means nothing."""
        if field not in self._columns:
            if self.whole and field not in (TASK, EXPERIMENT):
                self._columns[field] = self._part_of(self.whole.column(field))
            else:
                self._columns[field] = [*self.values(field)]
        return self._columns[field]

    def labels(self, fields: Iterable[str]) -> list[tuple[Cell, ...]]:
        """What the runs are in several fields."""
        columns = [self.column(field) for field in fields]
        return [*zip(*columns, strict=True)] if columns else [()] * len(self.runs)

    def values(self, field: str) -> Iterator[Cell]:
        """Return the values of one field, run by run, read only as far as the caller iterates."""
        if field == TASK:
            return (self.datasets[run.experiment.dataset_id] for run in self.runs)
        if field == EXPERIMENT:
            return (self.experiments[run.experiment_id] for run in self.runs)
        if field in _COORDINATES:
            return map(_COORDINATES[field], self._settings)
        known = zip(self._configs, self._reads, strict=True)
        return (cell(config.value(field, UNKNOWN)) if reads.applies(field) else None for config, reads in known)

    @cached_property
    def _columns(self) -> dict[str, list[Cell]]:
        return {}

    def _part_of(self, items: Sequence[Item]) -> list[Item]:
        """Of something for each run of the whole, those of these runs."""
        return [items[place] for place in self._places]

    @cached_property
    def _places(self) -> list[int]:
        """Where these runs are in the whole."""
        of = {run: place for place, run in enumerate(self.whole.runs if self.whole else self.runs)}
        return [of[run] for run in self.runs]

    @cached_property
    def _settings(self) -> list[Setting]:
        return self._part_of(self.whole._settings) if self.whole else [setting_of(run, ()) for run in self.runs]

    @cached_property
    def _reads(self) -> list[Reads]:
        both = zip(self._configs, self._settings, strict=True)
        return [Reads.from_config(config, swept=setting.regularizer) for config, setting in both]

    @cached_property
    def fields(self) -> list[str]:
        """All that the runs can be grouped by: ``FIELDS``, and before the seed what scripts of users' own said."""
        reported = [config for config in self._configs if isinstance(config, ReportedRunConfig)]
        said = {name for config in reported for name in config.model_fields_set} - {*FIELDS, "logged"}
        return [*FIELDS[:-1], *sorted(said), SEED]

    @cached_property
    def differing(self) -> list[str]:
        """The fields in which some of the runs differ, in the order of ``fields``."""
        return [field for field in (self.whole.differing if self.whole else self.fields) if self._differs(field)]

    @cached_property
    def varying(self) -> list[str]:
        """Those of them that make groups unless others are asked for; λ alone tells one regularizer from none.

        What scripts of users' own do not say is no value to tell runs apart by.
        """
        return [field for field in self._fields_to_name if len(self._values_of(field) - {UNKNOWN}) > 1]

    @cached_property
    def _fields_to_name(self) -> list[str]:
        """The fields in which runs of one group may differ, to be told of."""
        methods = self._values_of(REGULARIZER) - {NAMES[Regularizer.NONE]}
        left_out = NOT_BY_ITSELF if len(methods) > 1 else NOT_BY_ITSELF | {REGULARIZER}
        return [field for field in self.differing if field not in left_out]

    def beside(self, fields: Sequence[str]) -> list[str]:
        """What else the runs of one group differ in, besides their seeds."""
        others = [field for field in self._fields_to_name if field not in fields]
        groups = self.labels(fields) if others else []
        return [field for field in others if _differ_within(groups, self.column(field))]

    def sweep(self, fields: Iterable[str]) -> Sweep:
        """The runs for figures, told apart by these fields, and by what cannot be averaged over."""
        key = tuple(fields)
        if key not in self._sweeps:
            self._sweeps[key] = self._sweep(key)
        return self._sweeps[key]

    @cached_property
    def _sweeps(self) -> dict[tuple[str, ...], Sweep]:
        """Those that were asked for, as they read every run."""
        return {}

    def _sweep(self, fields: Iterable[str]) -> Sweep:
        wanted = [*(one for one in COMPARABLE if one in self.differing), *fields]
        grid = {field: self._values(field) for field in dict.fromkeys(wanted) if field not in COORDINATES}
        labels = self.labels(field for field, values in grid.items() if len(values) > 1)
        both = zip(self._settings, labels, strict=True)
        return Sweep(self.runs, grid, [Setting(*setting[:-1], values) for setting, values in both])

    def _values(self, field: str) -> list[Any]:
        return sorted(self._values_of(field), key=partial(order, field))

    def _values_of(self, field: str) -> set[Cell]:
        """The values of a field, of the runs to which it means something."""
        return {*self.column(field)} - {None}

    def _differs(self, field: str) -> bool:
        if field == TASK:
            return len(self.datasets) > 1
        if field == EXPERIMENT:
            return len(self.experiments) > 1
        if field not in (SEED, *COORDINATES) and field not in self._said_differently:
            return False
        return len(self._values_of(field)) > 1

    @cached_property
    def _said_differently(self) -> set[str]:
        """Of what configurations say not the same, which is little: the other values need not be looked at."""
        first, *others = [config.said for config in self._configs] or [{}]
        found: set[str] = set()
        for said in others:
            if [*said] == [*first]:
                found.update(compress(first, map(ne, first.values(), said.values())))
            else:
                found.update(name for name in {**first, **said} if said.get(name) != first.get(name))
        return found

    @cached_property
    def _configs(self) -> list[AnyRunConfig]:
        return [run.config for run in self.runs]


def order(field: str, cell: Cell) -> tuple[int, float, str]:
    """A key to sort by: what has no value first, then numbers from the least, then words."""
    if cell is None:
        return 0, 0.0, ""
    if not isinstance(cell, str):
        return 1, float(cell), ""
    return (1, float(_METHODS.index(cell)), "") if field == REGULARIZER else (2, 0.0, cell.casefold())


_METHODS = list(NAMES.values())


_COORDINATES: Mapping[str, Callable[[Setting], Cell]] = {
    REGULARIZER: lambda setting: NAMES[setting.regularizer],
    LAM: lambda setting: setting.lam,
    ZETA: lambda setting: setting.zeta,
}


def _differ_within(groups: Sequence[tuple[Cell, ...]], values: Sequence[Cell]) -> bool:
    """Whether some group has several values; what means nothing is none."""
    first: dict[tuple[Cell, ...], Cell] = {}
    known = ((group, value) for group, value in zip(groups, values, strict=True) if value is not None)
    return any(first.setdefault(group, value) != value for group, value in known)


def _told_apart(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    names = dict(named)
    often = Counter(names.values())
    return {row_id: name if often[name] == 1 else f"{name} ({row_id[:6]})" for row_id, name in names.items()}


MOST_COLUMNS = 8
MOST_VALUES = 8
"""Values of a setting that a cell names."""


class Side(NamedTuple):
    """A column: a run, or an experiment with all of its runs that were chosen."""

    name: str
    href: str
    runs: int


@dataclass(frozen=True)
class Settings:
    """What was set, in the order of ``RunSet.fields``."""

    sides: list[Side]
    differing: dict[str, list[list[str]]]
    """By field, the values in each column as words."""
    equal: dict[str, str]
    of_experiments: bool
    """Whether columns are experiments, because the runs are too many for a column each."""
    left_out: int
    """Experiments that have no column."""


def settings(gathered: RunSet) -> Settings:
    """All settings of the runs, but for the experiment that they are of."""
    columns = _columns(gathered)
    shown = columns[:MOST_COLUMNS]
    compared = [field for field in gathered.fields if field != EXPERIMENT]
    differing = {
        field: [_values(gathered, field, runs) for _, runs in shown]
        for field in compared
        if field in gathered.differing
    }
    equal = {
        field: cell_text(_first(gathered, field))
        for field in compared
        if gathered.runs and field not in gathered.differing
    }
    many = len(gathered.runs) > MOST_COLUMNS
    return Settings([side for side, _ in shown], differing, equal, many, len(columns) - len(shown))


def _first(gathered: RunSet, field: str) -> Cell:
    """The value of the first run to which it means something."""
    return next((value for value in gathered.values(field) if value is not None), None)


def _columns(gathered: RunSet) -> list[tuple[Side, Sequence[AnyRun]]]:
    if len(gathered.runs) <= MOST_COLUMNS:
        return [(Side(_name(gathered, run), f"/runs/{run.id}", 1), [run]) for run in gathered.runs]
    by_experiment: dict[str, list[AnyRun]] = {row_id: [] for row_id in gathered.experiments}
    for run in gathered.runs:
        by_experiment[run.experiment_id].append(run)
    return [
        (Side(gathered.experiments[row_id], f"/experiments/{row_id}", len(runs)), runs)
        for row_id, runs in by_experiment.items()
    ]


def _name(gathered: RunSet, run: AnyRun) -> str:
    name = f"{coordinates(run.regularizer, run.lam)}, seed {run.seed}"
    return f"{gathered.experiments[run.experiment_id]}: {name}" if len(gathered.experiments) > 1 else name


def _values(gathered: RunSet, field: str, runs: Sequence[AnyRun]) -> list[str]:
    """Each value once, from the least; that a setting means nothing is told only where it means nothing to all."""
    found = gathered.part(runs)._values(field)
    values = [cell_text(cell) for cell in found]
    if len(values) > MOST_VALUES:
        more = len(values) - MOST_VALUES + 1
        values = [*values[: MOST_VALUES - 1], f"and {more} more"]
    return values or [cell_text(None)]
