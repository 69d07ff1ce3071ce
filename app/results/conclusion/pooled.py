"""The tests of several data sets at once: each is a block of its own, within which settings are compared."""

from collections.abc import Sequence
from typing import NamedTuple

from app.results.conclusion.relations import counted, measured_runs, scored_runs
from app.results.statistics.relation import Relation, relation
from app.results.statistics.setting_effect import SettingEffect, setting_effect
from app.results.sweep import Sweep


class Pooled(NamedTuple):
    """The relation across settings and the difference between them, of all data sets and metrics together."""

    measured: int
    """Data sets and metrics."""
    relation: Relation
    effect: SettingEffect


def pooled(sweeps: Sequence[Sweep]) -> Pooled | None:
    """Return the tests of sweeps that are each on one data set by one metric; None of one sweep alone."""
    with_runs = [(sweep, runs) for sweep in sweeps if (runs := counted(sweep))]
    if len(with_runs) < 2:
        return None
    measured = tuple(one for sweep, runs in with_runs for one in measured_runs(sweep, runs))
    scored = tuple(one for sweep, runs in with_runs for one in scored_runs(sweep, runs))
    return Pooled(len(with_runs), relation(measured), setting_effect(scored))
