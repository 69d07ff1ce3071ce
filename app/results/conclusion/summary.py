"""The first screen of an experiment: its answers in a few cards, and its settings in a table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL, min_lambdas
from app.db.run_rows import AnyRun
from app.results.captions import join_first
from app.results.conclusion import words
from app.results.conclusion.comparisons import DECIDED, Comparison, Verdict
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.evidence import FLAT_MARGIN, Evidence, RelationShape
from app.results.conclusion.proposal import SeedProposal, propose_seeds
from app.results.conclusion.relations import list_counted_runs
from app.results.conclusion.verdict_words import format_signed
from app.results.run_table import RunTable, Setting
from app.results.statistics.estimate import estimate_over_seeds
from isoscope.core.formatting import MISSING, capitalized, count, number, plural, with_error

BASELINE = "baseline"


class Card(NamedTuple):
    """A question, its answer in a few words, and the numbers behind it."""

    question: str
    answer: str
    evidence: str
    proposal: SeedProposal | None = None


class SettingRow(NamedTuple):
    """A setting of the table: means over seeds, and the difference from its baseline."""

    setting: Setting
    label: str
    performance: str
    isotropy: str
    seeds: int
    difference: str
    """With the half-width of its interval if it has one; empty without a comparison."""
    verdict: str
    decided: bool
    """Whether the setting collapsed, or is better or worse than its baseline."""
    best: bool


@dataclass(frozen=True)
class Summary:
    """The cards and the table of a conclusion."""

    conclusion: Conclusion
    metric_title: str

    @property
    def cards(self) -> list[Card]:
        """Return cards of the best setting, the effect of λ and the relation to isotropy.

        While runs are unfinished, one card counts those that ended. Before the first has finished there is none.
        """
        if not self._performance_by_setting:
            return []
        if self._evidence.unfinished:
            n_ended, n_runs = sum(run.status.final for run in self._sweep.runs), len(self._sweep.runs)
            reason = "It appears when all runs have ended. Before that it would favor lucky runs."
            return [Card("Verdict", f"{count(n_ended)} of {plural(n_runs, 'run')} ended", reason)]
        return [self._best_card(), self._effect_card(), self._relation_card()]

    @property
    def rows(self) -> list[SettingRow]:
        """Return every setting that has a result, by λ."""
        return [self._make_row(setting, runs) for setting, runs in self._runs_by_setting.items()]

    @property
    def has_simultaneous_intervals(self) -> bool:
        """Return whether intervals are adjusted because several settings are compared."""
        return any(
            comparison.family_size > 1 and comparison.contrast.p is not None
            for comparison in self._comparison_by_setting.values()
        )

    @cached_property
    def _runs_by_setting(self) -> dict[Setting, list[AnyRun]]:
        return self._sweep.by_setting(list_counted_runs(self._sweep))

    @cached_property
    def _performance_by_setting(self) -> dict[Setting, float]:
        return {setting: _average(runs, "performance") or 0.0 for setting, runs in self._runs_by_setting.items()}

    @cached_property
    def _isotropy_by_setting(self) -> dict[Setting, float | None]:
        return {setting: _average(runs, "isoscore_star") for setting, runs in self._runs_by_setting.items()}

    @cached_property
    def _comparison_by_setting(self) -> dict[Setting, Comparison]:
        return {comparison.setting: comparison for comparison in self.conclusion.evidence.comparisons}

    @property
    def _sweep(self) -> RunTable:
        return self.conclusion.sweep

    @property
    def _evidence(self) -> Evidence:
        return self.conclusion.evidence

    @cached_property
    def _best_setting(self) -> Setting | None:
        return self._evidence.best.setting if self._evidence.best else None

    def _label(self, setting: Setting) -> str:
        label = self._sweep.label(setting)
        if not setting.is_baseline:
            return label
        return "Baseline (λ = 0)" + (label[label.find(", ") :] if ", " in label else "")

    def _best_card(self) -> Card:
        evidence, question = self._evidence, "Best on validation"
        proposal = propose_seeds(evidence, self._sweep)
        if evidence.baseline_collapsed:
            learned = words.describe_learned(evidence)
            return Card(question, "The baseline collapsed", f"Nothing is compared with it. {learned}")
        if self._best_setting is not None:
            comparison = self._comparison_by_setting[self._best_setting]
            performance = number(self._performance_by_setting[self._best_setting])
            evidence_text = f"{self.metric_title} {performance}, {_format_difference(comparison)} from the baseline."
            undecided = f" Undecided settings: {proposal.sentence}" if proposal else ""
            return Card(question, comparison.label, evidence_text + undecided, proposal)
        if not self._uncollapsed and self._comparison_by_setting:
            return Card(question, "No λ beats the baseline", "Every setting that it is compared with collapsed.")
        if not self._uncollapsed:
            return Card(question, "Nothing to compare yet", words.describe_effect(evidence))
        if all(comparison.verdict is Verdict.TOO_FEW_SEEDS for comparison in self._uncollapsed):
            evidence_text = self._describe_seed_shortage()
        elif proposal is not None:
            evidence_text = proposal.sentence
        elif verdicts := words.describe_verdicts(evidence):
            evidence_text = f"Against the baseline: {verdicts}."
        else:
            evidence_text = "Every seed scores exactly as its baseline."
        return Card(question, "No λ beats the baseline yet", evidence_text, proposal)

    @cached_property
    def _uncollapsed(self) -> list[Comparison]:
        return [
            comparison
            for comparison in self._comparison_by_setting.values()
            if comparison.verdict is not Verdict.COLLAPSED
        ]

    def _describe_seed_shortage(self) -> str:
        fewest = min(len(comparison.seeds) for comparison in self._uncollapsed)
        if fewest >= MIN_SEEDS:
            return "All differ from the baseline by the same amount, so the error is unknown."
        return f"{plural(fewest, 'seed')} so far. A verdict takes {MIN_SEEDS} or more."

    def _effect_card(self) -> Card:
        evidence, question = self._evidence, "Does λ matter?"
        collapsed_settings = [collapse.setting for collapse in evidence.collapsed]
        # If the baseline collapsed too, λ is not the reason.
        due_to_lambda = [
            collapse
            for collapse in evidence.collapsed
            if not collapse.setting.is_baseline
            and self._sweep.find_baseline(collapse.setting, collapsed_settings) is None
        ]
        parts = [f"{join_first([collapse.label for collapse in due_to_lambda])} collapsed"] if due_to_lambda else []
        parts += [verdicts] if (verdicts := words.describe_verdicts(evidence)) else []
        if evidence.baseline_collapsed:
            parts = ["The baseline collapsed", *parts]
            return Card(question, ", ".join(parts), " ".join(words.describe_collapse(evidence)[1:]))
        if parts:
            reason = _format_smallest_p(self._uncollapsed) if verdicts else due_to_lambda[0].why
            return Card(question, f"Yes: {', '.join(parts)}", f"{reason} Compared with the baseline.")
        if evidence.overall is None or evidence.overall.p is None:
            if self._uncollapsed and all(row.verdict is Verdict.TOO_FEW_SEEDS for row in self._uncollapsed):
                return Card(question, "Too few seeds to tell", self._describe_seed_shortage())
            return Card(question, "Cannot be tested yet", words.describe_effect(evidence))
        if evidence.overall.decided:
            alike = " None clearly differs from the baseline." if self._uncollapsed else ""
            return Card(question, "Yes: settings differ", words.describe_effect(evidence) + alike)
        return Card(question, "No difference seen", words.describe_effect(evidence))

    def _relation_card(self) -> Card:
        relation = self._evidence.relation
        text = relation.reason or ""
        if relation.value is not None:
            text = f"{capitalized(words.describe_relation(self._evidence))}."
        return Card("Is isotropy related to performance?", _answer_relation(self._evidence), text)

    def _make_row(self, setting: Setting, runs: Sequence[AnyRun]) -> SettingRow:
        comparison = self._comparison_by_setting.get(setting)
        collapsed = any(collapse.setting == setting for collapse in self._evidence.collapsed)
        if setting.is_baseline:
            verdict = f"{BASELINE}, collapsed" if collapsed else BASELINE
        elif collapsed:
            verdict = Verdict.COLLAPSED.value
        else:
            verdict = MISSING if comparison is None else comparison.verdict.value
        return SettingRow(
            setting=setting,
            label=self._label(setting),
            performance=_format_in_column(self._performance_by_setting[setting], self._performance_by_setting.values()),
            isotropy=_format_in_column(self._isotropy_by_setting[setting], self._isotropy_by_setting.values()),
            seeds=len({run.seed for run in runs}),
            difference="" if comparison is None else _format_difference(comparison),
            verdict=verdict,
            decided=collapsed or (comparison is not None and comparison.verdict in DECIDED),
            best=setting == self._best_setting,
        )


def _answer_relation(evidence: Evidence) -> str:
    relation = evidence.relation
    if evidence.shape is RelationShape.PEAK:
        return f"Not in one direction: it peaks at {evidence.peak}"
    if evidence.direction is not None:
        return f"Yes: more isotropic runs score {'higher' if evidence.direction is Verdict.BETTER else 'lower'}"
    if evidence.shape is RelationShape.FLAT:
        return f"No: flat within ±{FLAT_MARGIN}"
    if relation.p is None:
        return "Cannot be tested yet" if relation.value is None and not evidence.collapsed else "Cannot be tested"
    if relation.smallest_p is not None and relation.smallest_p > SIGNIFICANCE_LEVEL:
        return f"Too few λ to tell; {min_lambdas()} needed"
    return "No clear relation"


def _format_difference(comparison: Comparison) -> str:
    """Format a difference with the half-width of its interval: −0.077 ± 0.062."""
    if comparison.contrast.half_width is None:
        return format_signed(comparison.estimate)
    return ("+" if comparison.estimate > 0 else "") + with_error(comparison.estimate, comparison.contrast.half_width)


def _format_smallest_p(comparisons: Sequence[Comparison]) -> str:
    """Format the smallest p of all differences, adjusted if there are several; empty if there is none."""
    p_values = [comparison.contrast.p for comparison in comparisons if comparison.contrast.p is not None]
    if not p_values:
        return ""
    smallest = words.format_p_value(min(p_values))
    return f"Smallest adjusted p: {smallest}." if len(p_values) > 1 else f"p = {smallest}."


def _average(runs: Sequence[AnyRun], quantity: str) -> float | None:
    """Return the mean of an attribute of runs, counting each seed once; None if no run has it."""
    estimate = estimate_over_seeds((run.seed, getattr(run, quantity)) for run in runs)
    return estimate.mean if estimate else None


def _format_in_column(value: float | None, column: Iterable[float | None]) -> str:
    """Format a value with the decimals of its column: at least three, and three digits of the largest value."""
    largest = max((abs(entry) for entry in column if entry is not None), default=0.0)
    is_scientific = "×" in number(largest)
    if value is None or is_scientific:
        return number(value)
    decimals = max(len(number(largest).partition(".")[2]), 3)
    return f"{value:z.{decimals}f}".replace("-", "−")
