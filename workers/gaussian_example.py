"""A cloud whose isotropy is known: ``python -m workers.gaussian_example > app/playground/gaussian_example.json``.

A Gaussian in 768 dimensions without correlations, a third of which have variance 1, a third 2 and a third 3: IsoScore
of the distribution itself is 0.857. The variances behind Figure 4 of the poster of I-STAR are not known, its score is
0.86.
"""

import json
import sys
from typing import Any

import numpy as np
import torch

from isotropy.cloud import read_cloud
from isotropy.isoscore import isoscore_from_covariance
from isotropy.rows import Rows
from isotropy.sample_size import sample_size

VARIANCES = np.repeat([1.0, 2.0, 3.0], 256)
ROWS = 20_000
SEED = 0
DIGITS = 5


def gaussian_example() -> dict[str, Any]:
    """Return ``sample_size`` of rows drawn by seed, to five digits, with the "truth" that they were drawn from."""
    noise = np.random.default_rng(SEED).standard_normal((ROWS, len(VARIANCES)))
    truth = isoscore_from_covariance(torch.from_numpy(np.diag(VARIANCES))).value
    example: dict[str, Any] = _rounded({**sample_size(read_cloud(Rows(noise * np.sqrt(VARIANCES)))), "truth": truth})
    return example


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


if __name__ == "__main__":
    json.dump(gaussian_example(), sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
