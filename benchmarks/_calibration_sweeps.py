"""Simulated sweeps: how often isotropy and performance are falsely said to go together."""

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np

from app.results.statistics.relation import MeasuredRun, relation
from benchmarks._calibration import LEVEL, Case, Simulate, false_positives

SIMULATIONS = 2_000
STEP = 1 / 300
"""Scores of 300 rows."""

Random = np.random.Generator


class Sweep(NamedTuple):
    """What a simulated sweep is like. Isotropy rises with λ; performance has nothing to do with it."""

    lambdas: int
    seeds: int
    effect: float = 0.0  # Standard deviation of what settings add to performance for reasons of their own
    noise: float = 1.0  # That of a single run
    zetas: int = 1
    methods: int = 1
    models: int = 1
    missing: float = 0.0  # Share of runs that have no value
    steps: float = 0.0  # Width of the steps that scores come in; 0 for none
    steepness: float = 0.1  # Of isotropy, from one λ to the next; runs differ by 0.02


def simulated(sweep: Sweep, random: Random) -> list[MeasuredRun]:
    """Return the runs of a sweep. λ = 0 has no ζ, and all methods of a model share it with the first."""
    found = []
    for model in range(sweep.models):
        seeds = random.normal(size=sweep.seeds)
        for method in range(sweep.methods):
            for lam in range(1 if method else 0, sweep.lambdas):
                for zeta in range(sweep.zetas if lam else 1):
                    effect = sweep.effect * random.normal()
                    for seed in range(sweep.seeds):
                        if random.random() < sweep.missing:
                            continue
                        score = seeds[seed] + effect + sweep.noise * random.normal()
                        if sweep.steps:
                            score = round((0.7 + 0.02 * score) / sweep.steps) * sweep.steps
                        isotropy = 0.2 + sweep.steepness * lam + 0.03 * zeta + 0.02 * random.normal()
                        setting = (model, method, lam, zeta)
                        strata = [zeta] if lam else range(sweep.zetas)
                        found += [
                            MeasuredRun((model, method), one, setting, float(lam), seed, isotropy, score)
                            for one in strata
                        ]
    return found


def relation_rejects(sweep: Sweep, random: Random) -> bool:
    """Whether isotropy and performance are said to go together."""
    p = relation(tuple(simulated(sweep, random))).p
    return p is not None and p <= LEVEL


def attainable_by_relation(*lambdas: int) -> float:
    """Return how often p is at most ``LEVEL`` of blocks with so many λ, all of whose orders are as likely."""
    scores = np.zeros(1)
    for of_one in lambdas:
        ranks = (np.arange(of_one) - (of_one - 1) / 2) / (of_one + 1)
        block = np.array([ranks @ np.array(order) for order in permutations(ranks)])
        scores = np.add.outer(scores, block).ravel()
    tail = np.array([(scores >= one - 1e-9).mean() for one in np.unique(np.abs(scores).round(9))])
    reached = tail[2 * tail <= LEVEL]
    return float(2 * reached.max()) if len(reached) else 0.0


def cases() -> list[Case]:
    """Return all claims on sweeps."""
    return [*_relations()]


def _relations() -> Iterator[Case]:
    plain = [(1.0, 0.3, lambdas, seeds) for lambdas in range(3, 8) for seeds in (2, 5)]
    plain += [(effect, 1.0, lambdas, 3) for effect in (0.0, 0.5, 1.0) for lambdas in (5, 7)]
    for effect, noise, lambdas, seeds in plain:
        sweep = Sweep(lambdas, seeds, effect, noise)
        name = f"relation, {lambdas} λ x {seeds} seeds, effects {effect:g}, noise {noise:g}"
        yield _rejecting(name, partial(relation_rejects, sweep), attainable_by_relation(lambdas))
    for lambdas, zetas in ((5, 4), (7, 4), (6, 2)):
        sweep = Sweep(lambdas, 3, 1.0, 0.3, zetas=zetas)
        name = f"relation, {lambdas} λ x {zetas} ζ x 3 seeds"
        yield _rejecting(name, partial(relation_rejects, sweep), attainable_by_relation(lambdas))
    others = {
        "a fifth of the runs missing, 6 λ x 3 seeds": (Sweep(6, 3, 1.0, 0.3, missing=0.2), attainable_by_relation(6)),
        "scores in steps of 1/300, 7 λ x 3 seeds": (Sweep(7, 3, 0.5, 0.5, steps=STEP), attainable_by_relation(7)),
        "two methods, 5 λ x 3 seeds": (Sweep(5, 3, 1.0, 0.3, methods=2), attainable_by_relation(5, 4)),
        "two models, 4 λ x 3 seeds": (Sweep(4, 3, 1.0, 0.3, models=2), attainable_by_relation(4, 4)),
    }
    for name, (sweep, attainable) in others.items():
        yield _rejecting(f"relation, {name}", partial(relation_rejects, sweep), attainable)


def _rejecting(name: str, simulate: Simulate, attainable: float) -> Case:
    return false_positives(name, simulate, SIMULATIONS, attainable=attainable)
