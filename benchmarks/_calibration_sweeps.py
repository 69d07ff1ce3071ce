"""Simulated sweeps without a relation: how often isotropy and performance are falsely said to be related."""

from collections.abc import Iterator
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np

from app.results.statistics.relation import MeasuredRun, measure_relation
from benchmarks._calibration import LEVEL, Case, Simulate, false_positives

SIMULATIONS = 2_000
STEP = 1 / 300
"""Difference of two scores on 300 rows if one more answer is right."""

Random = np.random.Generator


class Sweep(NamedTuple):
    """The design of a simulated sweep. Isotropy rises with λ; performance does not depend on it."""

    lambdas: int
    seeds: int
    effect: float = 0.0  # Standard deviation of performance between settings
    noise: float = 1.0  # Standard deviation of performance between runs of a setting
    zetas: int = 1
    methods: int = 1
    models: int = 1
    missing: float = 0.0  # Share of runs without a score
    steps: float = 0.0  # Scores are rounded to multiples of this; 0 does not round
    steepness: float = 0.1  # Rise of isotropy from one λ to the next; its standard deviation between runs is 0.02


def simulate_runs(sweep: Sweep, random: Random) -> list[MeasuredRun]:
    """Return the runs of a sweep. λ = 0 has no ζ, and the methods of a model share its runs."""
    runs = []
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
                        runs += [
                            MeasuredRun((model, method), stratum, setting, float(lam), seed, isotropy, score)
                            for stratum in strata
                        ]
    return runs


def relation_rejects(sweep: Sweep, random: Random) -> bool:
    """Return whether isotropy and performance are said to be related."""
    p = measure_relation(tuple(simulate_runs(sweep, random))).p
    return p is not None and p <= LEVEL


def attainable_by_relation(*lambdas: int) -> float:
    """Return how often p is at most ``LEVEL`` in blocks of these numbers of λ, if all orders are equally likely."""
    scores = np.zeros(1)
    for n in lambdas:
        ranks = (np.arange(n) - (n - 1) / 2) / (n + 1)
        block_scores = np.array([ranks @ np.array(order) for order in permutations(ranks)])
        scores = np.add.outer(scores, block_scores).ravel()
    tails = np.array([(scores >= score - 1e-9).mean() for score in np.unique(np.abs(scores).round(9))])
    rejecting_tails = tails[2 * tails <= LEVEL]
    return float(2 * rejecting_tails.max()) if len(rejecting_tails) else 0.0


def cases() -> Iterator[Case]:
    """Yield the cases of all claims on sweeps."""
    designs = [(1.0, 0.3, lambdas, seeds) for lambdas in range(3, 8) for seeds in (2, 5)]
    designs += [(effect, 1.0, lambdas, 3) for effect in (0.0, 0.5, 1.0) for lambdas in (5, 7)]
    for effect, noise, lambdas, seeds in designs:
        sweep = Sweep(lambdas, seeds, effect, noise)
        name = f"relation, {lambdas} λ x {seeds} seeds, effects {effect:g}, noise {noise:g}"
        yield _false_positive_case(name, partial(relation_rejects, sweep), attainable_by_relation(lambdas))
    for lambdas, zetas in ((5, 4), (7, 4), (6, 2)):
        sweep = Sweep(lambdas, 3, 1.0, 0.3, zetas=zetas)
        name = f"relation, {lambdas} λ x {zetas} ζ x 3 seeds"
        yield _false_positive_case(name, partial(relation_rejects, sweep), attainable_by_relation(lambdas))
    further_sweeps = {
        "a fifth of the runs missing, 6 λ x 3 seeds": (Sweep(6, 3, 1.0, 0.3, missing=0.2), attainable_by_relation(6)),
        "scores in steps of 1/300, 7 λ x 3 seeds": (Sweep(7, 3, 0.5, 0.5, steps=STEP), attainable_by_relation(7)),
        "two methods, 5 λ x 3 seeds": (Sweep(5, 3, 1.0, 0.3, methods=2), attainable_by_relation(5, 4)),
        "two models, 4 λ x 3 seeds": (Sweep(4, 3, 1.0, 0.3, models=2), attainable_by_relation(4, 4)),
    }
    for name, (sweep, attainable) in further_sweeps.items():
        yield _false_positive_case(f"relation, {name}", partial(relation_rejects, sweep), attainable)


def _false_positive_case(name: str, simulate: Simulate, attainable: float) -> Case:
    return false_positives(name, simulate, SIMULATIONS, attainable=attainable)
