"""A search for lambda and zeta on its experiment's page, in words."""

from typing import NamedTuple

from app.db.models import Experiment
from app.db.study import Search, Trial, trials_of
from app.regularizers import coordinates
from app.results.points import named
from app.results.setting import setting_of


class Best(NamedTuple):
    """The trials with the greatest mean performance, the baseline apart: several where they tie."""

    names: str
    performance: float


class SearchOutcome(NamedTuple):
    """How far a search is, and what it has come to."""

    settings: Search
    asked: int
    tried: int
    """Trials with a performance, the baseline apart."""
    pruned: int
    baseline: float | None
    best: Best | None

    @property
    def better(self) -> bool:
        """Whether the best did better than the baseline, as far as both are known."""
        return self.best is not None and (self.baseline is None or self.best.performance > self.baseline)

    @property
    def of_zeta(self) -> bool:
        """Whether zeta is searched too."""
        return self.settings.zeta_low < self.settings.zeta_high


def outcome_of(experiment: Experiment) -> SearchOutcome | None:
    """What there is to say of the search of an experiment, if it is one."""
    if experiment.study is None:
        return None
    trials = trials_of(experiment.runs)
    found = [(one.performance, one) for one in trials[1:] if one.performance is not None and not one.unended]
    best = None
    if found:
        greatest = max(performance for performance, _ in found)
        best = Best(named([_name(one) for performance, one in found if performance == greatest]), greatest)
    return SearchOutcome(
        experiment.study,
        len(trials) - 1,
        len(found),
        sum(trial.pruned for trial in trials),
        trials[0].performance if trials else None,
        best,
    )


def _name(trial: Trial) -> str:
    first = trial.runs[0]
    zeta = setting_of(first, ()).zeta
    return coordinates(first.regularizer, first.lam) + (f", ζ = {zeta:g}" if zeta is not None else "")
