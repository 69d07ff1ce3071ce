"""What metrics, measures and penalties of runs are called, and what their numbers are of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.db.options.regularization import Bars
from app.db.reported_config import AnyRunConfig
from app.db.run_rows import AnyRun
from isoscope.core.formatting import plural, short, starred
from isoscope.core.task import METRIC_TITLES, Metric, TaskKind
from isotropy.catalog import MEASURES, REGULARIZERS, Regularizer, measures_in


class MetricRange(NamedTuple):
    """The name of a metric, and the least and the most it can be."""

    title: str
    low: int
    high: int = 1

    @property
    def range(self) -> str:
        """Both ends in words."""
        return f"{short(self.low)} to {short(self.high)}"


BELOW_ZERO = frozenset({Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN})
SCALES: Mapping[str, MetricRange] = {
    metric: MetricRange(title, -1 if metric in BELOW_ZERO else 0) for metric, title in METRIC_TITLES.items()
}
"""By the metric's name in a configuration."""


ISOTROPY = "isoscore_star"
"""The measure by which runs are compared with their performance."""
TAKEN = {name: measure for measure in MEASURES.values() for name in measure.taken}
"""Measures of the catalog by the names under which layers of runs have them."""
SHARES = (*MEASURES["anisotropy_raw"].taken, *MEASURES["anisotropy_centred"].taken)
"""Of the figure of shares late in training."""
WATCHED = tuple(
    sorted((name for one in measures_in("training") for name in one.taken), key=lambda name: name != ISOTROPY)
)
"""Measured on a few validation rows while a run trains; the first is shown unless another is chosen."""
OF_SENTENCES = tuple(one.slug for one in measures_in("results"))
"""Measured at the end on the vectors of whole texts; all others on tokens."""


def slug_of(measure: str) -> str:
    """The measure of the catalog that one by layer is; of a k-th anisotropy, that of all k."""
    return TAKEN[measure].slug if measure in TAKEN else measure


def title_of(measure: str) -> str:
    """Its name, with its k: k-th anisotropy, raw, k = 1. One that the catalog lacks keeps its slug."""
    known = TAKEN.get(measure)
    name = starred(known.name) if known else measure
    return f"{name}, k = {measure.rpartition('_')[2]}" if known and known.leading else name


def level_of(measure: str) -> str:
    """What is said of a measure while a run trains, behind a comma; empty of most."""
    caution = TAKEN[measure].while_training if measure in TAKEN else ""
    return f", {caution}" if caution else ""


def is_of_texts(measure: str) -> bool:
    """Whether layers of runs are measured on one vector a text, and not on tokens."""
    return measure in TAKEN and TAKEN[measure].of_texts


def penalty_words(config: AnyRunConfig) -> str:
    """What a run adds to its task loss, with the settings that matter; of several, each with its λ."""
    return ", and ".join(
        f"{REGULARIZERS[name].term} {REGULARIZERS[name].of} at λ = {short(lam)}{_settings(name, config)}"
        + (" (beside it)" if name is not config.regularizer else "")
        for name, lam in weights(config)
    )


def weights(config: AnyRunConfig) -> list[tuple[Regularizer, float]]:
    """The regularizers of a run with their λ, first the one that the sweep is about."""
    return sorted(config.weights.items(), key=lambda one: one[0] is not config.regularizer)


def _settings(name: Regularizer, config: AnyRunConfig) -> str:
    options = REGULARIZERS[name].options
    if "zeta" in options and config.zeta is not None:
        return f" and ζ = {short(config.zeta)}"
    if "entropy_bars" in options and config.entropy_bars is not None:
        bars = "the prominent bars" if config.entropy_bars is Bars.PROMINENT else "all bars"
        drawn = config.entropy_cluster_weight
        return f", over {bars}" + (f", and {short(drawn)} times the mean length of the others" if drawn else "")
    return ""


def texts(runs: Sequence[AnyRun], n: int | None = None) -> str:
    """What the runs read, and how many of them: validation rows; 1,204 windows of validation rows."""
    spans = any(run.config.task is TaskKind.SPAN for run in runs)
    noun, nouns = (
        ("window of validation rows", "windows of validation rows") if spans else ("validation row", "validation rows")
    )
    return nouns if n is None else plural(n, noun, nouns)


def to_come(runs: Sequence[AnyRun], coming: str, never: str) -> str:
    """What stands in place of a figure without data: what is to come, or once all runs have ended, what never was."""
    return never if all(run.status.final for run in runs) else coming


def by_scripts(runs: Sequence[AnyRun], launched: str) -> str:
    """What is said of runs, but for those that a user's own script logged: nobody else knows what theirs is of."""
    logged = sum(run.config.logged for run in runs)
    if not logged:
        return launched
    return "as a script logged it" if logged == len(runs) else f"{launched}, or as a script logged it"
