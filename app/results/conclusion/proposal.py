"""Propose seeds to add to undecided settings."""

from dataclasses import dataclass
from statistics import fmean

from app.core.evidence import MAX_LOOKS, MIN_SEEDS, look_level
from app.results.conclusion.comparisons import Verdict
from app.results.conclusion.evidence import Evidence
from app.results.run_table import RunTable, Setting
from isoscope.core.formatting import about, number, plural


@dataclass(frozen=True)
class SeedProposal:
    """A further round of runs: new seeds for the undecided settings and their baselines."""

    settings: list[Setting]
    seeds: int
    """Number of new seeds for each setting."""
    differences: tuple[float, float] | None
    """Smallest and largest difference that the next look would detect with power 0.8; None with too few seeds."""
    seconds: float | None
    """Estimated time of all runs, one at a time."""

    @property
    def runs(self) -> int:
        return self.seeds * len(self.settings)

    @property
    def sentence(self) -> str:
        """Say how many runs and how much time the round takes, and what it would show."""
        seeds = f"{plural(self.seeds, 'more seed', 'more seeds')} of {plural(len(self.settings), 'setting')}"
        effect = "allow a verdict"
        if self.differences:
            ends = dict.fromkeys(number(difference, 2) for difference in self.differences)
            effect = f"show a difference of {' to '.join(ends)}"
        time = f" (about {about(self.seconds)} one at a time)" if self.seconds else ""
        return f"{seeds}{time} would {effect}."


def propose_seeds(evidence: Evidence, sweep: RunTable) -> SeedProposal | None:
    """Return a round that doubles the seeds or brings them to ``MIN_SEEDS``; None if it could decide nothing."""
    # More seeds decide nothing if runs predict every row like their baselines.
    undecided = [
        comparison
        for comparison in evidence.comparisons
        if comparison.verdict is Verdict.TOO_FEW_SEEDS
        or (comparison.verdict is Verdict.UNDECIDED and comparison.tested)
    ]
    if evidence.unfinished or not undecided or evidence.looks >= MAX_LOOKS:
        return None
    proposed = [comparison.setting for comparison in undecided]
    proposed += [baseline for setting in proposed if (baseline := sweep.find_baseline(setting, sweep.settings))]
    seed_counts = [len(comparison.seeds) for comparison in undecided]
    n_seeds = MIN_SEEDS - min(seed_counts) if min(seed_counts) < MIN_SEEDS else max(seed_counts)
    level_share = look_level(evidence.looks + 1) / look_level(max(evidence.looks, 1))
    differences = [
        comparison.contrast.detectable_difference(
            (len(comparison.seeds) + n_seeds) / len(comparison.seeds), level_share
        )
        for comparison in undecided
        if comparison.tested
    ]
    run_seconds = [run.seconds for run in sweep.finished_runs if run.seconds]
    settings = [setting for setting in sweep.settings if setting in proposed]
    return SeedProposal(
        settings,
        n_seeds,
        (min(differences), max(differences)) if differences and min(seed_counts) >= MIN_SEEDS else None,
        n_seeds * len(settings) * fmean(run_seconds) if run_seconds else None,
    )
