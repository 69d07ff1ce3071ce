"""A search for lambda and zeta on its experiment's page, in words."""

from typing import NamedTuple

from app.db.models import Experiment
from app.db.study import Search, trials_of
from app.regularizers import coordinates


class Best(NamedTuple):
    """The trial with the greatest mean performance."""

    name: str
    performance: float


class SearchOutcome(NamedTuple):
    """How far a search is, and what it has come to."""

    settings: Search
    asked: int
    tried: int
    """Trials with a performance, the baseline among them."""
    pruned: int
    baseline: float | None
    best: Best | None

    @property
    def of_zeta(self) -> bool:
        """Whether zeta is searched too."""
        return self.settings.zeta_low < self.settings.zeta_high


def outcome_of(experiment: Experiment) -> SearchOutcome | None:
    """What there is to say of the search of an experiment, if it is one."""
    if experiment.study is None:
        return None
    trials = trials_of(experiment.runs)
    found = [(one.performance, one) for one in trials if one.performance is not None and not one.unended]
    best = None
    if found:
        performance, trial = max(found, key=lambda pair: pair[0])
        first = trial.runs[0]
        zeta = f", ζ = {first.zeta:g}" if trial.number else ""
        best = Best(f"{coordinates(first.regularizer, first.lam)}{zeta}", performance)
    return SearchOutcome(
        Search.model_validate(experiment.study),
        len(trials) - 1,
        len(found),
        sum(trial.pruned for trial in trials),
        trials[0].performance if trials else None,
        best,
    )
