"""Conclusions and row values of runs that were never stored."""

import numpy as np

from app.results.conclusion.comparisons import RowValues, RunFacts
from app.results.conclusion.conclusion import Conclusion
from app.results.conclusion.evidence import collect_evidence
from tests.unit.figures.rows import run, sweep

LAMBDAS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def concluded(*runs, facts=None, **grid):
    table = sweep(*runs, **grid)
    return Conclusion(table, collect_evidence(table, facts or {}))


def trend(lams=LAMBDAS, seeds=3, slope=0.05, noise=0.002, **options):
    """Return runs whose isotropy rises with λ, and performance by ``slope``."""
    return [
        run(lam, seed, 0.6 + slope * lam + noise * _noise(lam, seed), 0.3 + 0.1 * lam + 0.001 * seed, **options)
        for lam in lams
        for seed in range(seeds)
    ]


def answered(gains, seeds=3, rows=300, seed=0, right=0.7):
    """Return runs and their row values; ``gains`` is the share of rows gained over the baseline, by λ."""
    random = np.random.default_rng(seed)
    hard = random.random(rows)
    runs, facts = [], {}
    for lam, gain in gains.items():
        for number in range(seeds):
            values = (hard + 0.05 * random.normal(size=rows) < right + gain).astype(np.float32)
            row = run(lam, number, float(values.mean()), 0.3 + 0.1 * lam + 0.001 * number)
            runs.append(row)
            facts[row.id] = RunFacts(row_values=RowValues(b"validation", values), no_rows_reason="")
    return runs, facts


def _noise(lam, seed):
    return ((int(lam * 20) * 7 + seed * 13) % 11 - 5) / 5
