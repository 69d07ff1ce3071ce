"""The table of runs: columns by name, read once, with runs grouped by setting and by family.

Settings are the values in which runs differ except for seeds; families are settings that differ only in λ.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from itertools import compress
from operator import ne
from types import MappingProxyType
from typing import Any, NamedTuple

from app.db.config import TrainingOptions, option_applies
from app.db.models import Experiment, RunStatus
from app.db.options.regularization import REGULARIZER_NAMES, describe_weights
from app.db.reported_config import UNKNOWN, AnyRunConfig, ReportedRunConfig
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from app.figures.labels import field_in_sentence
from app.results.labels import ISOTROPY
from isoscope.core.formatting import short
from isotropy.catalog import Regularizer

MODEL, REGULARIZER, LAM, ZETA, SEED = "model", "regularizer", "lam", "zeta", "seed"
TASK, EXPERIMENT = "task", "experiment"
PERFORMANCE, SECONDS = "performance", "seconds"
PENALTY_FIELDS = (REGULARIZER, LAM, ZETA)
OPTIONS = tuple(name for name in TrainingOptions.model_fields if name not in (TASK, MODEL))
# In searches and tables, "task" is the name of a data set.
FIELDS = (TASK, EXPERIMENT, MODEL, *PENALTY_FIELDS, *OPTIONS, SEED)
TASK_FIELDS = frozenset({"text_columns", "label_column", "metric"})
OPTIONS_WITHOUT_EFFECT = frozenset({"export", "probe_every"})
# Runs are grouped by these only on request: seeds are averaged over, and tasks are columns.
NOT_GROUPED_BY_DEFAULT = frozenset({TASK, EXPERIMENT, SEED}) | TASK_FIELDS | OPTIONS_WITHOUT_EFFECT
# No mean in a figure mixes values of these, because they define IsoScore*. Each task has its own figures.
NEVER_AVERAGED = ("evaluation_zeta",)
METHOD_NAMES = list(REGULARIZER_NAMES.values())


class DatasetMetric(NamedTuple):
    """The data set and metric of a performance. Performance cannot be compared across these."""

    dataset_id: str
    metric: str

    @property
    def key(self) -> str:
        return f"{self.dataset_id}.{self.metric}"


class MeasuredValue(NamedTuple):
    """A measured value of a run, or the reason why it has none."""

    value: float | None
    reason: str | None = None


class Family(NamedTuple):
    """Settings that differ only in λ, joined by a line in figures."""

    regularizer: Regularizer
    zeta: float | None
    values: tuple[Cell, ...]


class Setting(NamedTuple):
    """The values in which runs differ, except for the seed. None where an option has no effect."""

    regularizer: Regularizer
    lam: float
    zeta: float | None
    values: tuple[Cell, ...]
    """Values of the fields by which a table groups runs, in their order."""

    @property
    def is_baseline(self) -> bool:
        """Return whether this is plain training, apart from penalties added to every run."""
        return self.regularizer is Regularizer.NONE

    @property
    def family(self) -> Family:
        return Family(self.regularizer, self.zeta, self.values)


_applies = lru_cache(maxsize=1024)(option_applies)


def option_value(config: AnyRunConfig, regularizer: Regularizer, field: str) -> Cell:
    """Return the value of a configuration field; None if it has no effect.

    ``regularizer`` is the one that λ multiplies, or ``Regularizer.NONE`` for plain training.
    """
    regularizers = (() if regularizer is Regularizer.NONE else (regularizer,)) + (*config.fixed_regularizers,)
    return as_cell(config.value(field, UNKNOWN)) if _applies(field, regularizers, config.points) else None


def setting_of(run: AnyRun, fields: Sequence[str]) -> Setting:
    """Return the setting of a run, with the values of these configuration fields. It is the same for all seeds."""
    regularizer = run.regularizer if run.lam else Regularizer.NONE
    regularizers = (() if regularizer is Regularizer.NONE else (regularizer,)) + (*run.config.fixed_regularizers,)
    return Setting(
        regularizer,
        0.0 if regularizer is Regularizer.NONE else run.lam,
        run.zeta if _applies("zeta", regularizers, run.config.points) else None,
        tuple(option_value(run.config, regularizer, field) for field in fields),
    )


def as_cell(value: Any) -> Cell:
    """Convert a configuration value to a number or text for tables; None becomes "default"."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return describe_weights(value)
    if value is None:
        return "default"
    return float(value) if isinstance(value, float) else value


def cell_text(value: Cell) -> str:
    return value if isinstance(value, str) else short(value)


class RunTable:
    """Runs of one or several experiments, their columns, and their settings. Runs of a setting differ only in seed."""

    def __init__(
        self,
        runs: Sequence[AnyRun],
        grid: Mapping[str, Sequence[Any]] = MappingProxyType({}),
        parent: "RunTable | None" = None,
    ) -> None:
        """Make a table of runs. Columns are copied from ``parent``, if given, a table that has all of them.

        ``grid`` has the values, in legend order, of the fields that distinguish settings besides regularizer, λ and ζ.
        """
        self.runs, self.grid, self.parent = runs, grid, parent
        self._columns: dict[str, list[Cell]] = {}
        self._readings: dict[str, dict[AnyRun, MeasuredValue]] = {}
        self._groupings: dict[tuple[str, ...], RunTable] = {}

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> "RunTable":
        return cls(experiment.runs, experiment.grid)

    def subset(self, runs: Sequence[AnyRun]) -> "RunTable":
        """Return a table of some of the runs, with an empty grid unless they are all runs."""
        return self if len(runs) == len(self.runs) else RunTable(runs, parent=self)

    def group(self, fields: Iterable[str]) -> "RunTable":
        """Return a table whose settings differ in these fields and in those that are never averaged over."""
        key = tuple(fields)
        if key not in self._groupings:
            group_fields = [*(name for name in NEVER_AVERAGED if name in self.differing_fields), *key]
            grid = {
                name: sorted(self.distinct(name), key=partial(sort_key, name))
                for name in dict.fromkeys(group_fields)
                if name not in PENALTY_FIELDS
            }
            self._groupings[key] = RunTable(self.runs, grid, self)
        return self._groupings[key]

    # Columns.

    def column(self, name: str) -> list[Cell]:
        """Return the values of a field by run; None where it has no effect."""
        if name not in self._columns:
            if self.parent and name not in (TASK, EXPERIMENT):
                values = self.parent.column(name)
                self._columns[name] = [values[index] for index in self._parent_indices]
            else:
                self._columns[name] = [*self.iterate(name)]
        return self._columns[name]

    def iterate(self, name: str) -> Iterator[Cell]:
        """Yield the values of a field by run, lazily."""
        if name == TASK:
            return (self.dataset_names[run.experiment.dataset_id] for run in self.runs)
        if name == EXPERIMENT:
            return (self.experiment_names[run.experiment_id] for run in self.runs)
        if name == REGULARIZER:
            return (REGULARIZER_NAMES[setting.regularizer] for setting in self._coordinates)
        if name in (LAM, ZETA):
            return (setting.lam if name == LAM else setting.zeta for setting in self._coordinates)
        pairs = zip(self._configs, self._coordinates, strict=True)
        return (option_value(config, setting.regularizer, name) for config, setting in pairs)

    def rows(self, names: Iterable[str]) -> list[tuple[Cell, ...]]:
        columns = [self.column(name) for name in names]
        return [*zip(*columns, strict=True)] if columns else [()] * len(self.runs)

    def distinct(self, name: str) -> set[Cell]:
        """Return the distinct values of a field, without those that have no effect."""
        return {*self.column(name)} - {None}

    def readings(self, name: str) -> Mapping[AnyRun, MeasuredValue]:
        """Return a quantity of every finished run: from its row, or as ``add_readings`` has set it."""
        if name not in self._readings:
            readings = self._readings[name] = {}
            for run in self.finished_runs:
                if name == PERFORMANCE:
                    readings[run] = MeasuredValue(run.performance, run.performance_reason)
                elif name == ISOTROPY:
                    readings[run] = MeasuredValue(run.isoscore_star, run.isoscore_star_reason)
                else:
                    readings[run] = MeasuredValue(run.seconds if name == SECONDS else None)
        return self._readings[name]

    def add_readings(self, name: str, reading_by_run_id: Mapping[str, MeasuredValue]) -> None:
        self._readings[name] = {run: reading_by_run_id.get(run.id, MeasuredValue(None)) for run in self.finished_runs}

    @cached_property
    def _parent_indices(self) -> Sequence[int]:
        if self.parent is None or self.parent.runs is self.runs:
            return range(len(self.runs))
        indices = {run: index for index, run in enumerate(self.parent.runs)}
        return [indices[run] for run in self.runs]

    @cached_property
    def _coordinates(self) -> list[Setting]:
        if self.parent is None:
            return [setting_of(run, ()) for run in self.runs]
        return [self.parent._coordinates[index] for index in self._parent_indices]

    @cached_property
    def _configs(self) -> list[AnyRunConfig]:
        return [run.config for run in self.runs]

    # Experiments and data sets.

    @cached_property
    def experiment_names(self) -> dict[str, str]:
        """Return experiment names by id, in the order of their first runs. Equal names end with a part of their id."""
        return _distinct_names({row_id: row.name for row_id, row in self._experiments.items()})

    @cached_property
    def dataset_names(self) -> dict[str, str]:
        return _distinct_names({row.dataset_id: row.dataset.name for row in self._experiments.values()})

    @cached_property
    def _experiments(self) -> dict[str, Experiment]:
        return {run.experiment_id: run.experiment for run in self.runs}

    @cached_property
    def evaluations(self) -> dict[DatasetMetric, int]:
        """Return the number of finished runs by data set and metric, largest first. It may be 0."""
        counts = Counter(dict.fromkeys(self._run_evaluations, 0))
        pairs = zip(self.runs, self._run_evaluations, strict=True)
        counts.update(evaluation for run, evaluation in pairs if run.status is RunStatus.FINISHED)
        return dict(counts.most_common())

    def evaluated_on(self, evaluation: DatasetMetric) -> "RunTable":
        pairs = zip(self.runs, self._run_evaluations, strict=True)
        return self.subset([run for run, run_evaluation in pairs if run_evaluation == evaluation])

    @cached_property
    def _run_evaluations(self) -> list[DatasetMetric]:
        return [DatasetMetric(run.experiment.dataset_id, run.config.metric) for run in self.runs]

    # Fields to group by.

    @cached_property
    def groupable_fields(self) -> list[str]:
        """Return the fields to group runs by: ``FIELDS``, with settings reported by scripts before the seed."""
        reported_configs = [config for config in self._configs if isinstance(config, ReportedRunConfig)]
        custom_names = {name for config in reported_configs for name in config.model_fields_set} - {*FIELDS, "logged"}
        return [*FIELDS[:-1], *sorted(custom_names), SEED]

    @cached_property
    def differing_fields(self) -> list[str]:
        """Return the fields in which runs differ, in the order of ``groupable_fields``."""
        candidates = self.parent.differing_fields if self.parent else self.groupable_fields
        # Data sets and experiments are counted by id, without reading their columns.
        n_named = {TASK: len(self.dataset_names), EXPERIMENT: len(self.experiment_names)}
        config_fields = {SEED, *PENALTY_FIELDS, *self._differing_options} - {TASK, EXPERIMENT}
        return [
            name
            for name in candidates
            if n_named.get(name, 0) > 1 or (name in config_fields and len(self.distinct(name)) > 1)
        ]

    @cached_property
    def _differing_options(self) -> set[str]:
        """Return the options that configurations state differently, so that only their columns need to be read."""
        first, *configs = [config.stated_values for config in self._configs] or [{}]
        names: set[str] = set()
        for options in configs:
            if [*options] == [*first]:
                names.update(compress(first, map(ne, first.values(), options.values())))
            else:
                names.update(name for name in {**first, **options} if options.get(name) != first.get(name))
        return names

    @cached_property
    def varying_fields(self) -> list[str]:
        """Return the default fields to group by, those in which runs have more than one known value.

        The regularizer is left out if there is only one besides none, because λ then says which runs have it.
        """
        return [name for name in self._default_fields if len(self.distinct(name) - {UNKNOWN}) > 1]

    @cached_property
    def _default_fields(self) -> list[str]:
        has_several_methods = len(self.distinct(REGULARIZER) - {REGULARIZER_NAMES[Regularizer.NONE]}) > 1
        excluded = NOT_GROUPED_BY_DEFAULT if has_several_methods else NOT_GROUPED_BY_DEFAULT | {REGULARIZER}
        return [name for name in self.differing_fields if name not in excluded]

    def differing_within_groups(self, fields: Sequence[str]) -> list[str]:
        """Return the default fields to group by, without ``fields``, in which runs that agree in ``fields`` differ."""
        candidates = [name for name in self._default_fields if name not in fields]
        groups = self.rows(fields) if candidates else []
        differing = []
        for name in candidates:
            value_by_group: dict[tuple[Cell, ...], Cell] = {}
            pairs = zip(groups, self.column(name), strict=True)
            if any(value is not None and value_by_group.setdefault(group, value) != value for group, value in pairs):
                differing.append(name)
        return differing

    # Settings and families.

    @cached_property
    def fields(self) -> list[str]:
        """Return the grid fields that take several values in the runs where they have an effect."""
        return [name for name, values in self.grid.items() if len(values) > 1 and len(self.distinct(name)) > 1]

    @cached_property
    def _setting_by_run(self) -> Mapping[AnyRun, Setting]:
        rows = zip(self.runs, self._coordinates, self.rows(self.fields), strict=True)
        return {run: setting._replace(values=values) for run, setting, values in rows}

    def setting(self, run: AnyRun) -> Setting:
        return self._setting_by_run[run]

    @cached_property
    def settings(self) -> list[Setting]:
        return sorted(set(self._setting_by_run.values()), key=lambda setting: (setting.lam, *self._family_key(setting)))

    @cached_property
    def families(self) -> list[Family]:
        """Return all families. Plain training is included only if no run has a regularizer."""
        families = dict.fromkeys(setting.family for setting in sorted(self.settings, key=self._family_key))
        return [family for family in families if family.regularizer is not Regularizer.NONE] or list(families)

    def _family_key(self, setting: Setting) -> tuple[Any, ...]:
        indices = [
            -1 if value is None else self.grid_cells[name].index(value)
            for name, value in zip(self.fields, setting.values, strict=True)
        ]
        zeta = -1.0 if setting.zeta is None else setting.zeta
        return (list(Regularizer).index(setting.regularizer), indices, zeta)

    @cached_property
    def grid_cells(self) -> dict[str, list[Cell]]:
        return {name: [as_cell(value) for value in values] for name, values in self.grid.items()}

    @cached_property
    def methods(self) -> list[Regularizer]:
        """Return the regularizers that are compared, without none."""
        regularizers = {setting.regularizer for setting in self.settings if not setting.is_baseline}
        return [regularizer for regularizer in Regularizer if regularizer in regularizers]

    @cached_property
    def zetas(self) -> list[float]:
        return sorted({setting.zeta for setting in self.settings if setting.zeta is not None})

    @property
    def is_searched(self) -> bool:
        """Return whether a λ search chose λ and ζ of any run, so that their values are not those of a grid."""
        return any(run.experiment.study for run in self.runs)

    @cached_property
    def pruned_settings(self) -> frozenset[Setting]:
        """Return the settings with pruned runs. Only their better runs finished, so these overstate them."""
        return frozenset(self.setting(run) for run in self.runs if run.status is RunStatus.PRUNED)

    @cached_property
    def finished_runs(self) -> list[AnyRun]:
        return [run for run in self.runs if run.status is RunStatus.FINISHED]

    @property
    def scored_runs(self) -> list[AnyRun]:
        return [run for run in self.finished_runs if run.performance is not None]

    @cached_property
    def finished_by_setting(self) -> Mapping[Setting, list[AnyRun]]:
        return self.by_setting(self.finished_runs)

    def by_setting(self, runs: Iterable[AnyRun]) -> dict[Setting, list[AnyRun]]:
        groups: dict[Setting, list[AnyRun]] = {}
        for run in runs:
            groups.setdefault(self.setting(run), []).append(run)
        return {setting: groups[setting] for setting in self.settings if setting in groups}

    def belongs(self, setting: Setting, family: Family) -> bool:
        """Return whether a family's line contains a setting. Lines may share the baseline that they start from."""
        if not setting.is_baseline:
            return setting.family == family
        pairs = zip((setting.zeta, *setting.values), (family.zeta, *family.values), strict=True)
        return all(value in (None, family_value) for value, family_value in pairs)

    def find_baseline(self, setting: Setting, settings: Iterable[Setting]) -> Setting | None:
        """Return the baseline from which a setting's family starts, if it is among ``settings``, else None."""
        baselines = (candidate for candidate in settings if candidate.is_baseline)
        return next((baseline for baseline in baselines if self.belongs(baseline, setting.family)), None)

    # Words and cells.

    def label(self, setting: Setting, fields: Collection[str] | None = None) -> str:
        """Describe a setting by its method, λ, ζ and varying fields (or only ``fields``): "CosReg, λ = 1, epochs 2"."""
        details = self._details(setting.zeta, setting.values, fields)
        if len(self.methods) > 1 and setting.is_baseline:
            return ", ".join(["baseline", *details])
        method = [REGULARIZER_NAMES[setting.regularizer]] if len(self.methods) > 1 else []
        return ", ".join([*method, f"λ = {short(setting.lam)}", *details])

    def family_label(self, family: Family, fields: Collection[str] | None = None) -> str:
        """Describe a family by its method, ζ and varying fields (or only ``fields``); empty if none vary."""
        method = [REGULARIZER_NAMES[family.regularizer]] if len(self.methods) > 1 else []
        return ", ".join([*method, *self._details(family.zeta, family.values, fields)])

    def _details(self, zeta: float | None, values: tuple[Cell, ...], fields: Collection[str] | None) -> list[str]:
        details = [
            cell_text(value) if name == MODEL else f"{field_in_sentence(name)} {cell_text(value)}"
            for name, value in zip(self.fields, values, strict=True)
            if value is not None and (fields is None or name in fields)
        ]
        return [f"ζ = {short(zeta)}", *details] if zeta is not None and len(self.zetas) > 1 else details

    @cached_property
    def heads(self) -> list[str]:
        method = ["regularizer"] if len(self.methods) > 1 else []
        return [*method, "lambda", *(["zeta"] if len(self.zetas) > 1 else []), *self.fields]

    def cells(self, setting: Setting) -> list[Cell]:
        method: list[Cell] = [REGULARIZER_NAMES[setting.regularizer]] if len(self.methods) > 1 else []
        return [*method, setting.lam, *([setting.zeta] if len(self.zetas) > 1 else []), *setting.values]


def sort_key(name: str, cell: Cell) -> tuple[int, float, str]:
    """Return a key that sorts cells of a field: missing values, then numbers, then text."""
    if cell is None:
        return 0, 0.0, ""
    if not isinstance(cell, str):
        return 1, float(cell), ""
    return (1, float(METHOD_NAMES.index(cell)), "") if name == REGULARIZER else (2, 0.0, cell.casefold())


def _distinct_names(names: Mapping[str, str]) -> dict[str, str]:
    counts = Counter(names.values())
    return {row_id: name if counts[name] == 1 else f"{name} ({row_id[:6]})" for row_id, name in names.items()}
