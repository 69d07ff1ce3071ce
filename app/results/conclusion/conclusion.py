"""A conclusion: the evidence of a sweep, and the sentences that go with it."""

from dataclasses import dataclass
from functools import cached_property

from app.results.conclusion import facts, verdict_words, words
from app.results.conclusion.evidence import Evidence, Pooled
from app.results.sweep import Sweep


@dataclass(frozen=True)
class Conclusion:
    """What stands beside the scatters of a sweep."""

    sweep: Sweep
    evidence: Evidence
    pooled: Pooled | None = None
    """The tests of the sweep together with those on other data sets, where there are some."""

    @property
    def early(self) -> bool:
        """Whether no run has told anything yet."""
        return words.waiting(self.sweep.runs)

    @cached_property
    def findings(self) -> list[str]:
        """What was found, the relation first."""
        found = self.evidence
        together = [words.together(self.pooled)] if self.pooled else []
        said = [words.headline(found), words.peaked(found), words.effect(found.effect), *together]
        return [*filter(None, said), *words.without(found)]

    @cached_property
    def lines(self) -> list[verdict_words.Line]:
        """Each setting against λ = 0."""
        return [verdict_words.line(one) for one in self.evidence.comparisons]

    @property
    def population(self) -> list[str]:
        """What the verdicts hold for."""
        return verdict_words.population(self.evidence)

    @property
    def to_quote(self) -> str:
        """Which number to quote."""
        return verdict_words.to_quote(self.evidence)

    @cached_property
    def methods(self) -> list[str]:
        """How all of it was computed, and what that takes for granted."""
        found = self.evidence
        tests = [words.relation_method(found.relation, self.sweep), words.effect_method(found.effect)]
        return [*filter(None, tests), *verdict_words.methods(found, self.sweep)]

    @property
    def notes(self) -> list[str]:
        """What was left out or could not be compared."""
        return [*facts.left_out(self.sweep, self.evidence), *self.evidence.unpaired]

    @property
    def cautions(self) -> list[str]:
        """What speaks against reading more into the numbers."""
        return facts.cautions(self.evidence, self.sweep)
