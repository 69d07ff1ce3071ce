"""Simulated sweeps of which the truth is known: relations, effects of settings, verdicts and their intervals."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations, product
from math import factorial, floor, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.core.evidence import t_quantile
from app.results.statistics.mean_difference import (
    MeanDifference,
    over_rows,
    over_rows_and_seeds,
    over_seeds,
    sign_flips,
    smallest_p,
)
from app.results.statistics.relation import MeasuredRun, relation
from app.results.statistics.row_values import f1_values, matthews_values, pearson_values, spearman_values
from app.results.statistics.setting_effect import MOST_DRAWN, MOST_EXACT, ScoredRun, setting_effect
from app.results.statistics.verdict import Verdict, holm, judge
from benchmarks._calibration import LEVEL, Case, Simulate, coverage, false_positives

SIMULATIONS = 2_000
STEP = 1 / 300  # Scores of 300 rows
EASE = 0.6
METRICS = ("F1", "Matthews", "Pearson", "Spearman")
# Standard deviations of how well runs do and of what settings make of rows.
DOMINATING = (("seeds dominating", 0.3, 0.1), ("rows dominating", 0.02, 0.6))

Values = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
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


def effect_rejects(sweep: Sweep, random: Random) -> bool:
    """Whether settings are said to differ."""
    runs = {(run.block[0], run.setting, run.seed): run.performance for run in simulated(sweep, random)}  # type: ignore[index]
    p = setting_effect(tuple(ScoredRun(*place, value) for place, value in runs.items())).p
    return p is not None and p <= LEVEL


class Rows(NamedTuple):
    """A sweep whose runs answer the same rows: all settings are alike, so that every true difference is 0."""

    seeds: int
    rows: int
    by_seed: float  # Standard deviation of how well a run does, beside 1 of how hard rows are
    by_row: float  # That of what a setting makes of a row
    by_answer: float = 0.3
    settings: int = 1  # Besides the baseline
    metric: str = "accuracy"
    gain: float = 0.0  # Of every setting over the baseline, before it is turned into answers


def ease(of: Rows, random: Random) -> tuple[Values, Values]:
    """Return how far each answer is on the right side, [settings + 1, rows, seeds], and how well each run does.

    Seeds begin alike. How well a run does, [settings + 1, 1, seeds], is a part of each of its answers.
    """
    shape = of.settings + 1, of.rows, of.seeds
    found = EASE + random.normal(size=(of.rows, 1)) + of.by_row * random.normal(size=(*shape[:2], 1))
    by_run = of.by_seed * random.normal(size=(shape[0], 1, of.seeds))
    found = found + by_run + of.by_answer * random.normal(size=shape)
    found[1:] += of.gain
    return np.asarray(found, float), by_run


def row_values(of: Rows, random: Random) -> Values:
    """Return the rows' values of the metric, [settings + 1, rows, seeds]."""
    easy, by_run = ease(of, random)
    if of.metric == "accuracy":
        return np.asarray(easy > 0, float)
    found = np.empty_like(easy)
    labels = (random.random(of.rows) < 0.3).astype(np.int64)
    numbers = random.normal(size=of.rows)
    noise = random.normal(size=of.rows)
    for setting, seed in product(range(len(easy)), range(of.seeds)):
        one = easy[setting, :, seed]
        # Of the run alone: a slope that took the mean of these rows would bind their answers to one another.
        predicted = numbers * (1 + EASE + by_run[setting, 0, seed]) + noise + 0.5 * one
        values = _of_metric(of.metric, labels, np.where(one > 0, labels, 1 - labels), numbers, predicted)
        assert values is not None
        found[setting, :, seed] = values
    return found


def _of_metric(metric: str, labels: Labels, given: Labels, numbers: Values, predicted: Values) -> Values | None:
    if metric == "F1":
        return f1_values(labels, given, 1)
    if metric == "Matthews":
        return matthews_values(labels, given)
    return (pearson_values if metric == "Pearson" else spearman_values)(numbers, predicted)


def rows_cover(of: Rows, random: Random) -> bool:
    """Whether the interval over rows and seeds holds the true difference, of all settings at once."""
    values = row_values(of, random)
    truth = gained(of) if of.gain else 0.0
    found = judge([over_rows_and_seeds(one - values[0]) for one in values[1:]])
    return all(one.low is not None and one.high is not None and one.low <= truth <= one.high for one in found)


def gained(of: Rows) -> float:
    """Return the true difference in accuracy, over all seeds and rows that there could be."""
    spread = sqrt(1 + of.by_row**2 + of.by_seed**2 + of.by_answer**2)
    return NormalDist().cdf((EASE + of.gain) / spread) - NormalDist().cdf(EASE / spread)


def rows_decide(of: Rows, random: Random) -> bool:
    """Whether any setting is said to differ, by rows and seeds."""
    values = row_values(of, random)
    return _decided([over_rows_and_seeds(one - values[0]) for one in values[1:]])


def seeds_decide(of: Rows, random: Random) -> bool:
    """Whether any setting is said to differ, by the scores of seeds alone."""
    scores = row_values(of, random).mean(axis=1)
    return _decided([over_seeds(one - scores[0]) for one in scores[1:]])


def normal_seeds_cover(seeds: int, step: float, random: Random) -> bool:
    """Whether the interval over seeds holds the true difference of scores that come in steps."""
    differences = 0.01 + 0.01 * random.normal(size=seeds)
    found = judge([over_seeds(np.round(differences / step) * step if step else differences)])[0]
    return found.low is None or found.high is None or found.low <= 0.01 <= found.high


def flips_decide(seeds: int, settings: int, random: Random) -> bool:
    """Whether the exact test, corrected by Holm, says that any setting differs; all share the baseline."""
    scores = random.normal(size=(settings + 1, seeds))
    return min(holm([sign_flips(one).p for one in scores[1:] - scores[0]])) <= LEVEL


def one_seed_covers(of: Rows, random: Random) -> bool:
    """Whether the interval over rows holds the difference that these two runs have on endless rows."""
    by_run = of.by_seed * random.normal(size=2)
    spread = sqrt(1 + of.by_row**2 + of.by_answer**2)
    truth = NormalDist().cdf((EASE + by_run[1]) / spread) - NormalDist().cdf((EASE + by_run[0]) / spread)
    easy = ease(of._replace(seeds=1, by_seed=0.0), random)[0] + by_run[:, None, None]
    found = over_rows((easy[1] > 0).astype(float) - (easy[0] > 0))
    if not found.error:
        return False
    return abs(found.estimate - truth) <= t_quantile(LEVEL, found.degrees) * found.error


def _decided(differences: Sequence[MeanDifference]) -> bool:
    return any(one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in judge(differences))


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


def attainable_by_effect(settings: int, seeds: int) -> float:
    """Return the level that F by permutation can attain where no two arrangements tie but by moving whole settings."""
    total = factorial(settings) ** seeds
    least = factorial(settings) / total if total <= MOST_EXACT else 1 / (MOST_DRAWN + 1)
    return floor(LEVEL / least + 1e-9) * least


def attainable_by_flips(seeds: int, settings: int) -> float:
    """Return the level that Holm's first step attains at most, by Bonferroni's bound."""
    least = smallest_p(seeds)
    return settings * floor(LEVEL / settings / least + 1e-9) * least


def cases() -> list[Case]:
    """Return all claims on sweeps."""
    return [*_relations(), *_effects(), *_verdicts(), *_intervals()]


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


def _effects() -> Iterator[Case]:
    for lambdas, seeds in ((3, 2), (3, 3), (4, 2), (5, 3), (7, 5)):
        name = f"settings differ, none does, {lambdas} λ x {seeds} seeds"
        yield _rejecting(name, partial(effect_rejects, Sweep(lambdas, seeds)), attainable_by_effect(lambdas, seeds))
    for name, sweep in {
        "a fifth of the runs missing": Sweep(5, 4, missing=0.2),
        "scores in steps of 1/300": Sweep(5, 3, noise=0.3, steps=STEP),
        "two models": Sweep(4, 3, models=2),
        "5 λ x 3 ζ": Sweep(5, 3, zetas=3),
    }.items():
        yield _rejecting(f"settings differ, none does, {name}", partial(effect_rejects, sweep), LEVEL)


def _verdicts() -> Iterator[Case]:
    for seeds, settings, (what, by_seed, by_row) in product((3, 5), (2, 6), DOMINATING):
        of = Rows(seeds, 300, by_seed, by_row, settings=settings)
        name = f"any verdict of {settings} λ, {seeds} seeds x 300 rows, {what}"
        # Where rows dominate, few seeds cannot rule out that seeds matter: the page says that this is conservative.
        attainable = LEVEL if by_seed > by_row else 0.0
        yield _rejecting(name, partial(rows_decide, of), attainable)
    for seeds, settings in ((3, 2), (5, 6)):
        of = Rows(seeds, 300, 0.1, 0.0, settings=settings)
        name = f"any verdict of {settings} λ, {seeds} seeds, no predictions"
        yield _rejecting(name, partial(seeds_decide, of), LEVEL)
        of = Rows(seeds, 300, 0.0, 0.0, 0.1, settings=settings)
        name = f"any verdict of {settings} λ, {seeds} seeds, no predictions, seeds a few steps of 1/300 apart"
        yield _rejecting(name, partial(seeds_decide, of), LEVEL)
    for seeds, settings in ((6, 1), (9, 3)):
        name = f"exact sign flips with Holm, {settings} λ, {seeds} seeds"
        yield _rejecting(name, partial(flips_decide, seeds, settings), attainable_by_flips(seeds, settings))


def _intervals() -> Iterator[Case]:
    for seeds, rows, (what, by_seed, by_row) in product((3, 4, 5), (300, 1000), DOMINATING):
        name = f"difference in accuracy, {seeds} seeds x {rows} rows, {what}"
        yield coverage(name, partial(rows_cover, Rows(seeds, rows, by_seed, by_row)), SIMULATIONS)
    for metric, seeds, (what, by_seed, by_row) in product(METRICS, (3, 5), DOMINATING):
        of = Rows(seeds, 300, by_seed, by_row, metric=metric)
        name = f"difference in {metric}, {seeds} seeds x 300 rows, {what}"
        yield coverage(name, partial(rows_cover, of), SIMULATIONS)
    gaining = Rows(4, 500, 0.1, 0.3, gain=0.4)
    yield coverage("difference in accuracy, 4 seeds x 500 rows, a true gain", partial(rows_cover, gaining), SIMULATIONS)
    neither = partial(rows_cover, Rows(3, 300, 0.0, 0.0))
    yield coverage(
        "difference in accuracy, 3 seeds x 300 rows, neither varies", neither, SIMULATIONS, conservative=True
    )
    several = partial(rows_cover, Rows(5, 300, 0.1, 0.3, settings=6))
    yield coverage("6 differences at once, 5 seeds x 300 rows", several, SIMULATIONS, conservative=True)
    for seeds in (3, 5):
        for step, told in ((0.0, ""), (STEP, ", scores in steps of 1/300")):
            name = f"difference over {seeds} seeds, no predictions{told}"
            yield coverage(name, partial(normal_seeds_cover, seeds, step), SIMULATIONS)
    for rows in (300, 1000):
        name = f"difference in accuracy of two runs, {rows} rows"
        yield coverage(name, partial(one_seed_covers, Rows(1, rows, 0.3, 0.3)), SIMULATIONS)


def _rejecting(name: str, simulate: Simulate, attainable: float) -> Case:
    return false_positives(name, simulate, SIMULATIONS, attainable=attainable)
