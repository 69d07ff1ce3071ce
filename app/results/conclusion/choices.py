"""Settings and runs that can be chosen before test scores are opened, and their test scores afterward."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from app.db.models import ChoiceKind, Opening, RunStatus, SealedScore
from app.db.run_rows import AnyRun
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import Estimate, average_by_seed, estimate, estimate_over_seeds
from isoscope.core.errors import InvalidError

MAX_LISTED = 20
SPELLINGS = ((r"\s", ""), (r"−", "-"), (r"λ|\blam(?=[=≤≥<>])", "lambda"), (r"ζ", "zeta"), (r"(?<=\d)\.0+(?!\d)", ""))
"""Replacements that make different spellings of a typed choice equal."""


@dataclass(frozen=True)
class Choice:
    """A setting or a run that can be chosen, with its label."""

    kind: ChoiceKind
    label: str
    runs: Sequence[AnyRun]
    """All seeds of a setting, or the one run."""

    @property
    def position(self) -> int:
        """Return the lowest position of its runs, which does not change when an import assigns other ids."""
        return min(run.position for run in self.runs)

    @property
    def validation_score(self) -> float | None:
        """Return the mean performance on validation rows, counting each seed once."""
        performance = estimate_over_seeds((run.seed, run.performance) for run in self.runs)
        return performance.mean if performance else None


def list_setting_choices(sweep: RunTable) -> list[Choice]:
    """Return every setting with a finished run, ordered by lambda."""
    return [
        Choice(ChoiceKind.SETTING, sweep.label(setting), runs)
        for setting, runs in sweep.by_setting(sweep.runs).items()
        if any(run.status is RunStatus.FINISHED for run in runs)
    ]


def list_run_choices(sweep: RunTable) -> list[Choice]:
    """Return every finished run, by lambda and seed."""
    return [
        Choice(ChoiceKind.RUN, f"{sweep.label(setting)}, seed {run.seed}", [run])
        for setting, runs in sweep.by_setting(sweep.runs).items()
        for run in sorted(runs, key=lambda run: (run.seed, run.position))
        if run.status is RunStatus.FINISHED
    ]


def find_choice(sweep: RunTable, text: str) -> Choice:
    """Return the choice with a label or a run's id. If there is none, raise InvalidError, which lists the settings."""
    setting_choices, run_choices = list_setting_choices(sweep), list_run_choices(sweep)
    for choice in run_choices:
        if choice.runs[0].id == text.strip():
            return choice
    spelling = _normalize_spelling(text)
    for choice in [*setting_choices, *run_choices]:
        if _normalize_spelling(choice.label) == spelling:
            return choice
    labels = [choice.label for choice in setting_choices]
    omitted_note = f"; and {len(labels) - MAX_LISTED} more" if len(labels) > MAX_LISTED else ""
    raise InvalidError(
        f"No setting or run {text.strip()[:80]!r}. Settings are: {'; '.join(labels[:MAX_LISTED])}{omitted_note}. "
        "A run is chosen by its id, or by its setting and seed.",
        "choose",
    )


def choice_at(sweep: RunTable, kind: ChoiceKind, position: int) -> Choice:
    """Return the run at the position that an opening stores, or its setting. Runs with test scores are not deleted."""
    run = next(run for run in sweep.runs if run.position == position)
    setting = sweep.setting(run)
    label = sweep.label(setting)
    if kind is ChoiceKind.RUN:
        return Choice(kind, f"{label}, seed {run.seed}", [run])
    return Choice(kind, label, [seed_run for seed_run in sweep.runs if sweep.setting(seed_run) == setting])


def _normalize_spelling(text: str) -> str:
    normalized = text.casefold()
    for pattern, replacement in SPELLINGS:
        normalized = re.sub(pattern, replacement, normalized)
    return normalized


@dataclass(frozen=True)
class OpenedResult:
    """Test scores of a setting or a run: means over seeds, with 95% intervals by Student's t if there are two seeds."""

    label: str
    test: Estimate | None
    reason: str | None
    """Why there is no test score, as a sentence; None if there is one."""
    validation: Estimate | None
    difference: Estimate | None
    """Difference from the baseline on the test rows, paired by seed; None if no seed has both scores."""
    baseline: str | None
    """Label of the baseline; None if this is the baseline, or if there is none."""
    chosen: int | None
    """The number of the choice, from 1; None for a setting that was not chosen."""


@dataclass(frozen=True)
class OpenedScores:
    """Test scores of an experiment: its choices in the order they were made, and all settings by lambda."""

    choices: list[OpenedResult]
    settings: list[OpenedResult]

    @property
    def first(self) -> OpenedResult:
        """Return the choice that was made before anyone saw a test score."""
        return self.choices[0]


@dataclass(frozen=True)
class _TestScoreReader:
    """Reads one metric of test scores by run id."""

    sweep: RunTable
    scores: Mapping[str, SealedScore]
    metric: str

    def read(self, setting: Setting, runs: Sequence[AnyRun], label: str, chosen: int | None) -> OpenedResult:
        """Return the test scores of all or one of a setting's runs, compared with the baseline on the same seeds."""
        scores = self._average_scores(runs)
        baseline = None if setting.is_baseline else self.sweep.find_baseline(setting, self.sweep.settings)
        baseline_scores = self._average_scores(self.sweep.by_setting(self.sweep.runs)[baseline]) if baseline else {}
        differences = [scores[seed] - baseline_scores[seed] for seed in scores if seed in baseline_scores]
        reasons = (self.scores[run.id].reasons.get(self.metric) for run in runs if run.id in self.scores)
        return OpenedResult(
            label=label,
            test=estimate([*scores.values()]) if scores else None,
            reason=None if scores else next(filter(None, reasons), "No run of it has a test score."),
            validation=estimate_over_seeds((run.seed, run.performance) for run in runs),
            difference=estimate(differences) if differences else None,
            baseline=self.sweep.label(baseline) if baseline else None,
            chosen=chosen,
        )

    def _average_scores(self, runs: Sequence[AnyRun]) -> Mapping[int, float]:
        seed_scores = (
            (run.seed, self.scores[run.id].metrics.get(self.metric)) for run in runs if run.id in self.scores
        )
        return average_by_seed((seed, value) for seed, value in seed_scores if value is not None and isfinite(value))


def summarize_opened(
    sweep: RunTable, scores: Mapping[str, SealedScore], openings: Sequence[Opening], metric: str
) -> OpenedScores:
    """Return the test scores of an experiment with at least one opening, in one metric. ``scores`` are by run id."""
    reader = _TestScoreReader(sweep, scores, metric)
    choices = [choice_at(sweep, opening.kind, opening.position) for opening in openings]
    opened_choices = [
        reader.read(sweep.setting(choice.runs[0]), choice.runs, choice.label, number)
        for number, choice in enumerate(choices, start=1)
    ]
    # Reversed, so that a setting that was chosen twice has the number of its first choice.
    choice_numbers = {
        sweep.setting(choice.runs[0]): number
        for number, choice in reversed([*enumerate(choices, start=1)])
        if choice.kind is ChoiceKind.SETTING
    }
    scored_by_setting = sweep.by_setting([run for run in sweep.runs if run.id in scores])
    settings = [
        reader.read(setting, runs, sweep.label(setting), choice_numbers.get(setting))
        for setting, runs in scored_by_setting.items()
    ]
    return OpenedScores(opened_choices, settings)
