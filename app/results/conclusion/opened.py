"""Test scores of an opened experiment: of every setting, its difference to the baseline, and what was chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from app.db.models import ChoiceKind, Opening, Run, SealedScore
from app.results.conclusion.choices import Choice, choice_at
from app.results.setting import Setting
from app.results.statistics.estimate import Estimate, estimate
from app.results.statistics.repeats import by_seed
from app.results.sweep import Sweep


@dataclass(frozen=True)
class Opened:
    """A setting or a run on the test rows: means over seeds, with 95% intervals by Student's t from two seeds on."""

    label: str
    test: Estimate | None
    reason: str | None
    """Why there is no score."""
    validation: Estimate | None
    difference: Estimate | None
    """To the baseline on the test rows, paired by seed; None of the baseline itself, and without one."""
    baseline: str | None
    """What the baseline is called; None of the baseline itself, and without one."""
    chosen: int | None
    """Which choice it is: the first, or a later one that was changed afterwards; None where it was not chosen."""


@dataclass(frozen=True)
class OpenedScores:
    """All of an experiment: the choices in their order, of which the first counts, and every setting by lambda."""

    choices: list[Opened]
    settings: list[Opened]

    @property
    def first(self) -> Opened:
        """What was chosen before anybody saw a test score."""
        return self.choices[0]


@dataclass(frozen=True)
class _Reader:
    """Reads one metric of sealed scores, by the ids of runs."""

    sweep: Sweep
    scores: Mapping[str, SealedScore]
    metric: str

    def read(self, setting: Setting, runs: Sequence[Run], label: str, chosen: int | None) -> Opened:
        """Return runs of a setting beside the baseline of the same seeds."""
        values = self._by_seed(runs)
        plain = None if setting.baseline else self._baseline(setting)
        beside = self._by_seed(self.sweep.by_setting(self.sweep.runs)[plain]) if plain else {}
        pairs = [values[seed] - beside[seed] for seed in values if seed in beside]
        on_validation = by_seed((run.seed, run.performance) for run in runs if run.performance is not None)
        return Opened(
            label=label,
            test=estimate([*values.values()]) if values else None,
            reason=None if values else self._reason(runs),
            validation=estimate([*on_validation.values()]) if on_validation else None,
            difference=estimate(pairs) if pairs else None,
            baseline=self.sweep.label(plain) if plain else None,
            chosen=chosen,
        )

    def _by_seed(self, runs: Sequence[Run]) -> Mapping[int, float]:
        scored = ((run.seed, self.scores[run.id].metrics.get(self.metric)) for run in runs if run.id in self.scores)
        return by_seed((seed, value) for seed, value in scored if value is not None and isfinite(value))

    def _baseline(self, setting: Setting) -> Setting | None:
        family = self.sweep.family(setting)
        return next((one for one in self.sweep.settings if one.baseline and self.sweep.belongs(one, family)), None)

    def _reason(self, runs: Sequence[Run]) -> str:
        told = (self.scores[run.id].reasons.get(self.metric) for run in runs if run.id in self.scores)
        return next((reason for reason in told if reason), "No run of it has a test score.")


def read_opened(
    sweep: Sweep, scores: Mapping[str, SealedScore], openings: Sequence[Opening], metric: str
) -> OpenedScores:
    """Return the test scores of an experiment with at least one opening, by the metric of its configuration."""
    reader = _Reader(sweep, scores, metric)
    choices = [choice_at(sweep, opening.kind, opening.position) for opening in openings]
    told = [_read(reader, choice, number) for number, choice in enumerate(choices, start=1)]
    numbers = {
        sweep.setting(choice.runs[0]): number
        for number, choice in reversed([*enumerate(choices, start=1)])
        if choice.kind is ChoiceKind.SETTING
    }
    scored = sweep.by_setting([run for run in sweep.runs if run.id in scores])
    settings = [
        reader.read(setting, runs, sweep.label(setting), numbers.get(setting)) for setting, runs in scored.items()
    ]
    return OpenedScores(told, settings)


def _read(reader: _Reader, choice: Choice, number: int) -> Opened:
    return reader.read(reader.sweep.setting(choice.runs[0]), choice.runs, choice.label, number)
