"""Precompute the measurements that the playground shows.

Run: python -m workers.playground > app/playground/grid.json
     python -m workers.playground gaussian > app/playground/gaussian_example.json
"""

import json
import sys
from typing import Any

import numpy as np
import torch

from app.playground.clouds import MEASURES, SHAPES, SHIFTS, SIZES, SPREADS, Position, generate_cloud
from isotropy.cloud import read_cloud
from isotropy.isoscore import isoscore_from_covariance
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.sample_size import sample_size

DIGITS = 5
# Figure 4 of the I-STAR poster scores 0.86 but gives no variances; these score 0.857.
VARIANCES = np.repeat([1.0, 2.0, 3.0], 256)
ROWS = 20_000
SEED = 0


def measure_scores(position: Position) -> list[float | None]:
    results = measure(read_cloud(Rows(generate_cloud(*position))), MEASURES)
    scores = (results[slug].score.value for slug in MEASURES)
    return [None if score is None else float(f"{score:.{DIGITS}g}") for score in scores]


def format_grid() -> str:
    """Return the grid as JSON, one line per shape."""
    lines = []
    for shape in SHAPES:
        values = [
            [[measure_scores(Position(shape, spread, shift, n)) for n in SIZES] for shift in SHIFTS]
            for spread in SPREADS
        ]
        lines.append(f"{json.dumps(shape)}: {json.dumps(values, separators=(',', ':'))}")
    return "{\n" + ",\n".join(lines) + "\n}"


def gaussian_example() -> dict[str, Any]:
    """Return ``sample_size`` of a seeded Gaussian sample, to five digits, with its distribution's score."""
    noise = np.random.default_rng(SEED).standard_normal((ROWS, len(VARIANCES)))
    truth = isoscore_from_covariance(torch.from_numpy(np.diag(VARIANCES))).value
    example: dict[str, Any] = _round_numbers(
        {**sample_size(read_cloud(Rows(noise * np.sqrt(VARIANCES)))), "truth": truth}
    )
    return example


def _round_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_round_numbers(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    output = json.dumps(gaussian_example(), separators=(",", ":")) if sys.argv[1:] == ["gaussian"] else format_grid()
    sys.stdout.write(f"{output}\n")
