"""Summary of an experiment: cards with answers, and a table of settings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL, min_lambdas
from app.db.run_rows import AnyRun
from app.results.captions import join_first
from app.results.conclusion import words
from app.results.conclusion.comparisons import Comparison
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.relations import counted_runs
from app.results.conclusion.verdict_words import format_signed
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import by_seed, estimate
from app.results.statistics.verdict import Verdict
from isoscope.core.formatting import MISSING, capitalized, number, plural, with_error

BASELINE = "baseline"


class Card(NamedTuple):
    """A question, its answer in a few words, and the numbers behind it."""

    question: str
    answer: str
    evidence: str


class SettingRow(NamedTuple):
    """A setting of the table: means over seeds, and the difference from its baseline."""

    setting: Setting
    label: str
    performance: str
    isotropy: str
    seeds: int
    difference: str
    """Includes the half-width of its interval if it has one."""
    verdict: str
    decided: bool
    best: bool


@dataclass(frozen=True)
class Summary:
    """A conclusion at a glance."""

    conclusion: Conclusion
    metric: str
    """Title of the performance metric."""

    @property
    def cards(self) -> list[Card]:
        """Return cards on the best setting, on λ and on isotropy; empty until a run finishes."""
        return [self._best_card(), self._effect_card(), self._relation_card()] if self._means else []

    @property
    def rows(self) -> list[SettingRow]:
        """Return every setting that has a result, in order of λ."""
        return [self._row(setting, runs) for setting, runs in self._runs_by_setting.items()]

    @property
    def has_simultaneous_intervals(self) -> bool:
        """Return whether intervals are adjusted for comparing several settings."""
        return (
            any(comparison.judgment.comparisons > 1 for comparison in self._comparisons.values())
            and self._has_intervals
        )

    @property
    def _has_intervals(self) -> bool:
        return any(comparison.judgment.low is not None for comparison in self._comparisons.values())

    @cached_property
    def _runs_by_setting(self) -> dict[Setting, list[AnyRun]]:
        return self._sweep.by_setting(counted_runs(self._sweep))

    @cached_property
    def _means(self) -> dict[Setting, float]:
        return {
            setting: _mean_over_seeds(runs, "performance") or 0.0 for setting, runs in self._runs_by_setting.items()
        }

    @cached_property
    def _common_seeds(self) -> set[int]:
        """Return the seeds that every setting has. Ranking by these keeps a setting from winning by a lucky seed."""
        return set.intersection(*({run.seed for run in runs} for runs in self._runs_by_setting.values()))

    @cached_property
    def _ranking_means(self) -> dict[Setting, float]:
        """Return means by setting over the common seeds, or over all seeds if none is common."""
        if not self._common_seeds:
            return self._means
        common_runs = {
            setting: [run for run in runs if run.seed in self._common_seeds]
            for setting, runs in self._runs_by_setting.items()
        }
        return {setting: _mean_over_seeds(runs, "performance") or 0.0 for setting, runs in common_runs.items()}

    @cached_property
    def _isotropy_means(self) -> dict[Setting, float | None]:
        return {setting: _mean_over_seeds(runs, "isoscore_star") for setting, runs in self._runs_by_setting.items()}

    @cached_property
    def _comparisons(self) -> dict[Setting, Comparison]:
        return {comparison.setting: comparison for comparison in self.conclusion.evidence.comparisons}

    @property
    def _sweep(self) -> RunTable:
        return self.conclusion.sweep

    @cached_property
    def _best_settings(self) -> list[Setting]:
        """Return the settings with the highest mean; several if they tie."""
        highest = max(self._ranking_means.values())
        return [setting for setting, value in self._ranking_means.items() if value == highest]

    def _label(self, setting: Setting) -> str:
        """Return the label of a setting as the page shows it; baselines are labeled as such."""
        label = self._sweep.label(setting)
        if not setting.is_baseline:
            return label
        return "Baseline (λ = 0)" + (label[label.find(", ") :] if ", " in label else "")

    def _best_card(self) -> Card:
        (best, *ties), ranked = self._best_settings, self._ranking_means
        sentence = f"{self.metric} {number(ranked[best])}"
        runners_up = [setting for setting in ranked if setting not in self._best_settings]
        if not ties and (candidate := self._comparisons.get(best)) is not None:
            sentence += f", {_format_difference(candidate)} from the baseline"
        elif runners_up:
            runner_up = max(runners_up, key=lambda candidate: ranked[candidate])
            sentence += f"; next {self._label(runner_up)}, {number(ranked[runner_up])}"
        seeds = {run.seed for runs in self._runs_by_setting.values() for run in runs}
        if self._common_seeds and len(self._common_seeds) < len(seeds):
            sentence += f", over the {plural(len(self._common_seeds), 'seed')} that all settings have"
        answer = (
            join_first([self._label(candidate) for candidate in self._best_settings])
            if runners_up or not ties
            else "All settings tie"
        )
        return Card("Best on validation", answer, f"{sentence}.")

    def _effect_card(self) -> Card:
        comparisons = list(self._comparisons.values())
        question = "Does λ matter?"
        if not comparisons:
            return Card(question, "Cannot be tested yet", words.describe_effect(self.conclusion.evidence.effect))
        better, worse = (
            [comparison.label for comparison in comparisons if comparison.judgment.verdict is verdict]
            for verdict in (Verdict.BETTER, Verdict.WORSE)
        )
        if better or worse:
            clauses = [
                f"{join_first(labels)} {word}" for labels, word in ((better, "better"), (worse, "worse")) if labels
            ]
            return Card(
                question,
                f"Yes: {', '.join(clauses)}",
                f"{_describe_smallest_p(comparisons)} Compared with the baseline.",
            )
        if all(comparison.judgment.verdict is Verdict.TOO_FEW for comparison in comparisons):
            fewest = min(len(comparison.seeds) for comparison in comparisons)
            requirement = f"It takes {MIN_SEEDS} or more."
            if fewest >= MIN_SEEDS:
                requirement = "All differ from the baseline by the same amount, so the error is unknown."
            return Card(question, "Too few seeds to tell", f"{plural(fewest, 'seed')} so far. {requirement}")
        sentence = "Runs answer every row as their baselines do."
        if self._has_intervals:
            sentence = f"{_describe_smallest_p(comparisons)} All intervals include 0."
        return Card(question, "No difference seen", sentence)

    def _relation_card(self) -> Card:
        evidence = self.conclusion.evidence
        relation = evidence.relation
        sentence = relation.reason or ""
        if relation.value is not None:
            sentence = f"{capitalized(words.relation_numbers(relation))}."
        return Card("Is isotropy related to performance?", _relation_answer(self.conclusion), sentence)

    def _row(self, setting: Setting, runs: Sequence[AnyRun]) -> SettingRow:
        comparison = self._comparisons.get(setting)
        verdict = (
            BASELINE if setting.is_baseline else MISSING if comparison is None else comparison.judgment.verdict.value
        )
        return SettingRow(
            setting,
            self._label(setting),
            _format_in_column(self._means[setting], self._means.values()),
            _format_in_column(self._isotropy_means[setting], self._isotropy_means.values()),
            len({run.seed for run in runs}),
            "" if comparison is None else _format_difference(comparison),
            verdict,
            comparison is not None and comparison.judgment.verdict in (Verdict.BETTER, Verdict.WORSE),
            setting in self._best_settings and len(self._best_settings) < len(self._means),
        )


def _relation_answer(conclusion: Conclusion) -> str:
    evidence, relation = conclusion.evidence, conclusion.evidence.relation
    if relation.value is None:
        return "Cannot be tested yet"
    if evidence.peaks_at_zero:
        return "Not in one direction: best at λ = 0"
    if evidence.direction is not None:
        return f"Yes: more isotropic runs score {'higher' if evidence.direction is Verdict.BETTER else 'lower'}"
    if relation.p is None:
        return "Cannot be tested"
    if relation.smallest_p is not None and relation.smallest_p > SIGNIFICANCE_LEVEL:
        return f"Too few λ to tell; {min_lambdas()} needed"
    return "No clear relation"


def _format_difference(comparison: Comparison) -> str:
    """Format a difference with the half-width of its interval, such as −0.077 ± 0.062."""
    if comparison.judgment.low is None or comparison.judgment.high is None:
        return format_signed(comparison.estimate)
    return ("+" if comparison.estimate > 0 else "") + with_error(
        comparison.estimate, (comparison.judgment.high - comparison.judgment.low) / 2
    )


def _describe_smallest_p(comparisons: Sequence[Comparison]) -> str:
    """Report the smallest p of all differences, adjusted if there are several."""
    p_values = [
        comparison.judgment.p_adjusted for comparison in comparisons if comparison.judgment.p_adjusted is not None
    ]
    if not p_values:
        return ""
    return (
        f"Smallest adjusted p: {words.format_p_value(min(p_values))}."
        if len(p_values) > 1
        else f"p = {words.format_p_value(p_values[0])}."
    )


def _mean_over_seeds(runs: Sequence[AnyRun], quantity: str) -> float | None:
    """Return the mean of a quantity over seeds, counting each seed once."""
    values = by_seed((run.seed, getattr(run, quantity)) for run in runs if getattr(run, quantity) is not None)
    return estimate(list(values.values())).mean if values else None


def _format_in_column(value: float | None, column: Iterable[float | None]) -> str:
    """Format a value with the decimals of its column: at least three, and more to show three digits of the largest."""
    largest = max((abs(cell) for cell in column if cell is not None), default=0.0)
    if value is None or "×" in number(largest):
        return number(value)
    return f"{value:z.{max(len(number(largest).partition('.')[2]), 3)}f}".replace("-", "−")
