"""A conclusion: the evidence of a sweep, the sentences of it, and what speaks against reading more into them."""

from dataclasses import dataclass
from functools import cached_property

from app.db.models import Run, RunStatus
from app.db.options.measuring import Selection
from app.results.conclusion import verdict_words, words
from app.results.conclusion.evidence import Evidence, Pooled
from app.results.points import finished, given_up, named, unscored
from app.results.sweep import Sweep
from isoscope.core.formatting import count, plural


@dataclass(frozen=True)
class Conclusion:
    """What a sweep shows, as pages and the API report it."""

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
        return [*left_out(self.sweep, self.evidence), *self.evidence.unpaired]

    @property
    def cautions(self) -> list[str]:
        """What speaks against reading more into the numbers."""
        return cautions(self.evidence, self.sweep)


def cautions(found: Evidence, sweep: Sweep) -> list[str]:
    """Trainings that failed, and what was chosen on the rows shown."""
    runs = finished(sweep)
    said = []
    for flagged, what in ((found.learned_nothing, "learned nothing"), (found.diverged, "diverged")):
        if flagged:
            labels = named([one.label for one in flagged])
            said.append(f"{plural(len(flagged), 'run')} {what}: {labels}. {flagged[0].why}")
    if any(run.experiment.study for run in sweep.runs):
        said.append("A study chose λ by the results before it, so the runs are not independent and no p is exact.")
    if chosen := sum(map(_chose_on_validation, runs)):
        which = "The runs" if chosen == len(runs) else f"{count(chosen)} of {plural(len(runs), 'run')}"
        said.append(f"{which} chose their checkpoint or their end on the validation rows shown, which flatters them.")
    if len(found.comparisons) > 1:
        said.append("Choosing λ on these rows is optimistic. Report it on rows that chose nothing.")
    return said


def left_out(sweep: Sweep, found: Evidence) -> list[str]:
    """Which runs the numbers are not of, and which of them count as one."""
    said = [performance] if (performance := unscored(sweep).replace("Not drawn", "Left out").strip()) else []
    if without := sum(run.performance is not None and run.isoscore_star is None for run in finished(sweep)):
        said.append(f"Not in the relation, because IsoScore★ is undefined: {plural(without, 'run')}.")
    if failed := [run for run in sweep.runs if run.status is RunStatus.FAILED]:
        of = named([sweep.label(setting) for setting in sweep.by_setting(failed)])
        runs = plural(len(failed), "run")
        said.append(f"Not in any number, because they failed, so that only other seeds count: {runs} of {of}.")
    if flattered := given_up(sweep, "Left out").strip():
        said.append(flattered)
    if found.repeated:
        said.append(f"Run more than once, and counted once, by the mean of such runs: {named(found.repeated)}.")
    return said


def _chose_on_validation(run: Run) -> bool:
    return run.config.selects and run.config.selection is Selection.VALIDATION
