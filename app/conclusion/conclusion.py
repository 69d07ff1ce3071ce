"""A conclusion: the evidence of a sweep, and the sentences that go with it."""

from dataclasses import dataclass
from functools import cached_property

from app.conclusion import words
from app.conclusion.evidence import Evidence, evidence
from app.figures.sweep import Sweep


@dataclass(frozen=True)
class Conclusion:
    """What stands beside the scatters of a sweep."""

    sweep: Sweep

    @cached_property
    def evidence(self) -> Evidence:
        """The numbers."""
        return evidence(self.sweep)

    @property
    def early(self) -> bool:
        """Whether no run has told anything yet."""
        return words.waiting(self.sweep.runs)

    @property
    def headline(self) -> str:
        """The one sentence."""
        return words.headline(self.evidence)

    @property
    def without_alike(self) -> str:
        """The same of what is left where trainings seem to have failed."""
        return words.without_alike(self.evidence, self.sweep)

    @property
    def permuted(self) -> str:
        """What its p-values are of."""
        return words.permuted(self.evidence, self.sweep)

    @property
    def tested(self) -> list[str]:
        """How settings are compared, and what so few seeds can show."""
        return words.tested(self.evidence, self.sweep)

    @property
    def notes(self) -> list[str]:
        """What was left out or could not be compared."""
        return [*words.left_out(self.sweep, self.evidence), *self.evidence.unpaired]

    @property
    def cautions(self) -> list[str]:
        """What speaks against reading more into the numbers."""
        return words.cautions(self.evidence, self.sweep)
