"""What the runs of an experiment differ in, and how a figure names, colours and tells them apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from app.db.models import Experiment, Run
from app.db.penalty import Regularizer
from app.figures import palette
from app.figures.figure import Cell, plain
from app.figures.methods import NAMES
from app.numerals import short

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "bowtie")

MOST_ENTRIES = 8
"""Lines that a legend has room for."""
LONGEST_NAME = 44

EVERY = frozenset(Regularizer)
SHRUNK = frozenset({Regularizer.ISTAR})
BARS = frozenset({Regularizer.ENTROPY})
ON_POINTS = EVERY - {Regularizer.NONE, Regularizer.SPECTRUM}
READ_BY: Mapping[str, frozenset[Regularizer]] = {
    "layers": ON_POINTS,
    "points": ON_POINTS,
    "zeta": SHRUNK,
    "token_fraction": SHRUNK,
    "include_padding": SHRUNK,
    "shrinkage_points": SHRUNK,
    "shrinkage_refresh": SHRUNK,
    "shrinkage_every": SHRUNK,
    "shrinkage_momentum": SHRUNK,
    "entropy_bars": BARS,
    "entropy_by_label": BARS,
    "entropy_cluster_weight": BARS,
}
"""Settings that only some regularizers read; to the others, and to plain training, they mean nothing."""


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


@dataclass(frozen=True)
class Sweep:
    """Runs, and the values of the further fields that they differ in."""

    runs: Sequence[Run]
    grid: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, experiment: Experiment) -> "Sweep":
        """All runs of an experiment."""
        return cls(experiment.runs, experiment.grid)

    @cached_property
    def fields(self) -> list[str]:
        """Fields of the grid that have more than one value."""
        return [field for field, values in self.grid.items() if len(values) > 1]

    @cached_property
    def settings(self) -> list[Setting]:
        """Every setting once, by λ from the least to the greatest."""
        return sorted({self.setting(run) for run in self.runs}, key=self._order)

    @cached_property
    def methods(self) -> list[Regularizer]:
        """The regularizers that are compared, besides none."""
        found = {setting.regularizer for setting in self.settings if not setting.baseline}
        return [name for name in Regularizer if name in found]

    @cached_property
    def families(self) -> list[Family]:
        """Every family once; plain training is one only where nothing else is."""
        found = dict.fromkeys(self.family(one) for one in sorted(self.settings, key=self._by_family))
        return [one for one in found if one.regularizer is not Regularizer.NONE] or list(found)

    @cached_property
    def zetas(self) -> list[float]:
        """Every ζ that some run reads."""
        return sorted({setting.zeta for setting in self.settings if setting.zeta is not None})

    def setting(self, run: Run) -> Setting:
        """What a run is one of; the same for all its seeds."""
        baseline = run.lam == 0 or run.regularizer is Regularizer.NONE
        active = _active(run)
        return Setting(
            Regularizer.NONE if baseline else run.regularizer,
            0.0 if baseline else run.lam,
            run.zeta if READ_BY["zeta"] & active else None,
            tuple(
                _cell(run.config.get(field)) if READ_BY.get(field, EVERY) & active else None for field in self.fields
            ),
        )

    def family(self, setting: Setting) -> Family:
        """The line that a setting lies on."""
        return Family(setting.regularizer, setting.zeta, setting.values)

    def belongs(self, setting: Setting, family: Family) -> bool:
        """Whether a setting is a point of that line: its own, or the baseline that it starts from."""
        if not setting.baseline:
            return self.family(setting) == family
        return all(mine in (None, theirs) for mine, theirs in zip(setting.values, family.values, strict=True))

    def label(self, setting: Setting) -> str:
        """A setting by what varies: λ = 1; CosReg, λ = 1, batch size 16."""
        several = len(self.methods) > 1
        rest = self._rest(setting.zeta, setting.values)
        if several and setting.baseline:
            return ", ".join(["none", *rest])
        return ", ".join([*([NAMES[setting.regularizer]] if several else []), f"λ = {short(setting.lam)}", *rest])

    def family_label(self, family: Family) -> str:
        """A line by what varies from line to line; empty where there is but one."""
        method = [NAMES[family.regularizer]] if len(self.methods) > 1 else []
        return ", ".join([*method, *self._rest(family.zeta, family.values)])

    def colour(self, setting: Setting) -> str:
        """By λ where there is one regularizer, else by the regularizer."""
        if setting.baseline or len(self.methods) < 2:
            return palette.of_lambda(setting.lam)
        return palette.METHODS[setting.regularizer]

    def dash(self, setting: Setting) -> str:
        """Tells apart the lines of settings that share a colour."""
        alike = [other for other in self.settings if self.colour(other) == self.colour(setting)]
        return DASHES[alike.index(setting) % len(DASHES)]

    def entry(self, setting: Setting, drawn: Sequence[Setting]) -> dict[str, Any]:
        """A line's place in the legend of those drawn: its own, or of many one for each colour."""
        if len(drawn) <= MOST_ENTRIES:
            return {"name": plain(self.label(setting), LONGEST_NAME)}
        name = self.group(setting)
        first = next(other for other in drawn if self.group(other) == name)
        return {"name": name, "legendgroup": name, "showlegend": setting == first}

    def group(self, setting: Setting) -> str:
        """What its colour stands for."""
        return NAMES[setting.regularizer] if len(self.methods) > 1 else f"λ = {short(setting.lam)}"

    def symbol(self, setting: Setting) -> str:
        """Tells families apart; a baseline, which belongs to several, is a circle."""
        family = self.family(setting)
        return SYMBOLS[self.families.index(family) % len(SYMBOLS)] if family in self.families else SYMBOLS[0]

    @cached_property
    def columns(self) -> list[str]:
        """Heads of the columns that tell settings apart in a table."""
        method = ["regularizer"] if len(self.methods) > 1 else []
        return [*method, "lambda", *(["zeta"] if len(self.zetas) > 1 else []), *self.fields]

    def cells(self, setting: Setting) -> list[Cell]:
        """The cells under them."""
        method: list[Cell] = [NAMES[setting.regularizer]] if len(self.methods) > 1 else []
        return [*method, setting.lam, *([setting.zeta] if len(self.zetas) > 1 else []), *setting.values]

    def by_setting(self, runs: Iterable[Run]) -> dict[Setting, list[Run]]:
        """Runs gathered by setting, in the order of the settings."""
        gathered: dict[Setting, list[Run]] = {}
        for run in runs:
            gathered.setdefault(self.setting(run), []).append(run)
        return {setting: gathered[setting] for setting in self.settings if setting in gathered}

    def _rest(self, zeta: float | None, values: tuple[Cell, ...]) -> list[str]:
        shrunk = [f"ζ = {short(zeta)}"] if zeta is not None and len(self.zetas) > 1 else []
        named = zip(self.fields, values, strict=True)
        return [*shrunk, *(f"{field.replace('_', ' ')} {words(value)}" for field, value in named if value is not None)]

    def _order(self, setting: Setting) -> tuple[Any, ...]:
        return (setting.lam, *self._by_family(setting))

    def _by_family(self, setting: Setting) -> tuple[Any, ...]:
        places = [
            [_cell(one) for one in self.grid[field]].index(value) if value is not None else -1
            for field, value in zip(self.fields, setting.values, strict=True)
        ]
        zeta = -1.0 if setting.zeta is None else setting.zeta
        return (list(Regularizer).index(setting.regularizer), places, zeta)


def words(value: Cell) -> str:
    """A value of a setting as a label shows it."""
    return value if isinstance(value, str) else short(value)


def _active(run: Run) -> set[Regularizer]:
    """The regularizers of a run, or none."""
    swept = [run.regularizer] if run.lam else []
    return {*swept, *map(Regularizer, run.config.get("beside") or {})} or {Regularizer.NONE}


def _cell(value: Any) -> Cell:
    """A setting's value as tables hold it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return "default"
    return float(value) if isinstance(value, float) else value
