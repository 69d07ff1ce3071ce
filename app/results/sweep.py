"""A sweep: its runs gathered by setting, all but the seed, and by family, all but the seed and lambda."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

from app.db.config import applies
from app.db.models import Experiment, RunStatus
from app.db.options.regularization import NAMES, added_words
from app.db.reported_config import UNKNOWN, AnyRunConfig
from app.db.run_rows import AnyRun
from app.figures.figure import Cell
from app.figures.labels import inside
from isoscope.core.formatting import short
from isotropy.catalog import Points, Regularizer


class Setting(NamedTuple):
    """All that runs differ in but the seed; None where a setting means nothing."""

    regularizer: Regularizer
    lam: float
    zeta: float | None
    values: tuple[Cell, ...]
    """Of the grid's fields, in their order."""

    @property
    def baseline(self) -> bool:
        """Whether it is plain training, but for what accompanies every run."""
        return self.regularizer is Regularizer.NONE


class Family(NamedTuple):
    """Settings that differ in λ alone: what a line of a figure joins."""

    regularizer: Regularizer
    zeta: float | None
    values: tuple[Cell, ...]


_applies = lru_cache(maxsize=1024)(applies)


class Reads(NamedTuple):
    """What of a run says whether an option means anything to it."""

    regularizers: tuple[Regularizer, ...]
    points: Points | None

    @classmethod
    def from_config(cls, config: AnyRunConfig, *, swept: Regularizer) -> Self:
        """Read it of a configuration, and of the regularizer that is swept: none for plain training."""
        return cls((() if swept is Regularizer.NONE else (swept,)) + (*config.fixed_regularizers,), config.points)

    def applies(self, field: str) -> bool:
        """Return whether an option applies; the answer is kept, because most runs share it."""
        return _applies(field, *self)


def setting_of(run: AnyRun, fields: Sequence[str]) -> Setting:
    """What a run is one of, by these fields of its configuration; the same for all its seeds."""
    config, lam = run.config, run.lam
    regularizer = run.regularizer if lam else Regularizer.NONE
    reads = Reads.from_config(config, swept=regularizer)
    return Setting(
        regularizer,
        0.0 if regularizer is Regularizer.NONE else lam,
        run.zeta if reads.applies("zeta") else None,
        tuple(cell(config.value(field, UNKNOWN)) if reads.applies(field) else None for field in fields),
    )


def cell(value: Any) -> Cell:
    """A setting's value as tables hold it."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return added_words(value)
    if value is None:
        return "default"
    return float(value) if isinstance(value, float) else value


def cell_text(value: Cell) -> str:
    """A value of a setting as a label shows it."""
    return value if isinstance(value, str) else short(value)


def values_of(fields: Sequence[str], runs: Iterable[AnyRun]) -> dict[str, set[Cell]]:
    """The values of each of these fields of configurations, as tables hold them."""
    kinds = {setting_of(run, fields).values for run in runs} if fields else ()
    return {field: {values[place] for values in kinds} - {None} for place, field in enumerate(fields)}


def differing(fields: Sequence[str], runs: Iterable[AnyRun]) -> list[str]:
    """Those of the fields that have several values."""
    return [field for field, values in values_of(fields, runs).items() if len(values) > 1]


@dataclass(frozen=True)
class Sweep:
    """Runs, and the values of the further fields that they differ in."""

    runs: Sequence[AnyRun]
    grid: Mapping[str, Sequence[Any]]
    read: Sequence[Setting] | None = None
    """What each run is one of, where that was read already; the grid then has what these runs differ in."""

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> "Sweep":
        """All runs of an experiment."""
        return cls(experiment.runs, experiment.grid)

    @cached_property
    def fields(self) -> list[str]:
        """Fields of the grid that have more than one value, to runs to which they mean something."""
        several = [field for field, values in self.grid.items() if len(values) > 1]
        return differing(several, self.runs) if self.read is None else several

    @cached_property
    def settings(self) -> list[Setting]:
        """Every setting once, by λ from the least to the greatest."""
        return sorted(set(self._setting_of.values()), key=self._order)

    @cached_property
    def methods(self) -> list[Regularizer]:
        """The regularizers that are compared, besides none."""
        found = {setting.regularizer for setting in self.settings if not setting.baseline}
        return [name for name in Regularizer if name in found]

    @property
    def compared(self) -> list[Regularizer]:
        """The regularizers with none behind them, where there is plain training."""
        plain = [Regularizer.NONE] if any(setting.baseline for setting in self.settings) else []
        return [*self.methods, *plain]

    @cached_property
    def families(self) -> list[Family]:
        """Every family once; plain training is one only where nothing else is."""
        found = dict.fromkeys(self.family(one) for one in sorted(self.settings, key=self._by_family))
        return [one for one in found if one.regularizer is not Regularizer.NONE] or list(found)

    @cached_property
    def zetas(self) -> list[float]:
        """Every ζ that some run reads."""
        return sorted({setting.zeta for setting in self.settings if setting.zeta is not None})

    def setting(self, run: AnyRun) -> Setting:
        """What a run of the sweep is one of; the same for all its seeds."""
        return self._setting_of[run]

    @property
    def searched(self) -> bool:
        """Whether a search chose λ and ζ: their values are continuous, so that they keep their distances."""
        return any(run.experiment.study for run in self.runs)

    @cached_property
    def given_up(self) -> frozenset[Setting]:
        """Those of which a study gave up a run by what it had reached: what it let finish flatters them."""
        return frozenset(self.setting(run) for run in self.runs if run.status is RunStatus.PRUNED)

    @cached_property
    def _setting_of(self) -> Mapping[AnyRun, Setting]:
        """Read once of each run, since every figure asks for it again and again."""
        read = [setting_of(run, self.fields) for run in self.runs] if self.read is None else self.read
        return dict(zip(self.runs, read, strict=True))

    @cached_property
    def finished(self) -> list[AnyRun]:
        """The runs that have finished, whatever came out."""
        return [run for run in self.runs if run.status is RunStatus.FINISHED]

    @cached_property
    def finished_by_setting(self) -> Mapping[Setting, list[AnyRun]]:
        """The same gathered by setting, in the order of the settings."""
        return self.by_setting(self.finished)

    def family(self, setting: Setting) -> Family:
        """The line that a setting lies on."""
        return Family(setting.regularizer, setting.zeta, setting.values)

    def belongs(self, setting: Setting, family: Family) -> bool:
        """Whether a setting is a point of that line: its own, or the baseline that it starts from."""
        if not setting.baseline:
            return self.family(setting) == family
        mine, theirs = ((one.zeta, *one.values) for one in (setting, family))
        return all(of_one in (None, of_other) for of_one, of_other in zip(mine, theirs, strict=True))

    def label(self, setting: Setting, fields: Collection[str] | None = None) -> str:
        """A setting by what varies, of the further fields by all or by these: λ = 1; CosReg, λ = 1, batch size 16."""
        several = len(self.methods) > 1
        rest = self._rest(setting.zeta, setting.values, fields)
        if several and setting.baseline:
            return ", ".join(["none", *rest])
        return ", ".join([*([NAMES[setting.regularizer]] if several else []), f"λ = {short(setting.lam)}", *rest])

    def family_label(self, family: Family, fields: Collection[str] | None = None) -> str:
        """A line by what varies from line to line, of the further fields by all or by these; empty if there is one."""
        method = [NAMES[family.regularizer]] if len(self.methods) > 1 else []
        return ", ".join([*method, *self._rest(family.zeta, family.values, fields)])

    @cached_property
    def columns(self) -> list[str]:
        """Heads of the columns that tell settings apart in a table."""
        method = ["regularizer"] if len(self.methods) > 1 else []
        return [*method, "lambda", *(["zeta"] if len(self.zetas) > 1 else []), *self.fields]

    def cells(self, setting: Setting) -> list[Cell]:
        """The cells under them."""
        method: list[Cell] = [NAMES[setting.regularizer]] if len(self.methods) > 1 else []
        return [*method, setting.lam, *([setting.zeta] if len(self.zetas) > 1 else []), *setting.values]

    def by_setting(self, runs: Iterable[AnyRun]) -> dict[Setting, list[AnyRun]]:
        """Runs gathered by setting, in the order of the settings."""
        gathered: dict[Setting, list[AnyRun]] = {}
        for run in runs:
            gathered.setdefault(self.setting(run), []).append(run)
        return {setting: gathered[setting] for setting in self.settings if setting in gathered}

    def _rest(self, zeta: float | None, values: tuple[Cell, ...], fields: Collection[str] | None) -> list[str]:
        shrunk = [f"ζ = {short(zeta)}"] if zeta is not None and len(self.zetas) > 1 else []
        named = zip(self.fields, values, strict=True)
        told = [(field, value) for field, value in named if value is not None and (fields is None or field in fields)]
        return [*shrunk, *(_named(field, value) for field, value in told)]

    def _order(self, setting: Setting) -> tuple[Any, ...]:
        return (setting.lam, *self._by_family(setting))

    def _by_family(self, setting: Setting) -> tuple[Any, ...]:
        places = [
            [cell(one) for one in self.grid[field]].index(value) if value is not None else -1
            for field, value in zip(self.fields, setting.values, strict=True)
        ]
        zeta = -1.0 if setting.zeta is None else setting.zeta
        return (list(Regularizer).index(setting.regularizer), places, zeta)


def _named(field: str, value: Cell) -> str:
    """A value with the name of its setting; that of a model says by itself what it is."""
    return cell_text(value) if field == "model" else f"{inside(field)} {cell_text(value)}"
