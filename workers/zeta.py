"""Lines of a shrinkage-zeta curve: IsoScore* at every zeta, for ever more rows of a cloud."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from isotropy.cloud import Cloud
from isotropy.isoscore import ZetaCurve, isoscore_from_covariance
from isotropy.spectrum import CHUNK_ROWS, Moments

ZETAS = torch.linspace(0, 1, 101, dtype=torch.float64)
FIRST_ROWS = 32
MAX_LINES = 12

Target = Callable[[Tensor], Tensor]
"""The shrinkage covariance [d, d], given the covariance [d, d] of the rows that are shrunk."""


def zeta_lines(cloud: Cloud, targets: list[Target]) -> list[list[dict[str, Any]]]:
    """Return the lines of a curve for each target: 32 rows, 64, 128 and so on, then all, at most ``MAX_LINES``.

    The rows of a line are also in the next: the first so many of the cloud's sample.
    """
    curves: list[list[dict[str, Any]]] = [[] for _ in targets]
    for rows, S in _covariances(cloud):
        for lines, target in zip(curves, targets, strict=True):
            lines.append({"rows": rows, **_line(S, target(S))})
    return curves


def _covariances(cloud: Cloud) -> Iterator[tuple[int, Tensor]]:
    """Numbers of rows and the covariance [d, d] of that many."""
    moments = Moments(cloud.moments.d)
    sizes = [FIRST_ROWS * 2**power for power in range(MAX_LINES - 1)]
    for rows in sizes:
        if rows < cloud.n and rows <= len(cloud.sample):
            for chunk in torch.split(cloud.sample[moments.n : rows], CHUNK_ROWS):
                moments.update(chunk.double())  # squares of float32 may leave float32
            yield rows, moments.covariance()
    yield cloud.n, cloud.moments.covariance()


def _line(S_X: Tensor, S_S: Tensor) -> dict[str, Any]:
    reason = isoscore_from_covariance(S_X).reason
    if len(S_X) < 2:
        return {"values": [None] * len(ZETAS), "reason": reason}
    values = ZetaCurve.of(S_X, S_S).isoscore_star(ZETAS)
    return {"values": [None if math.isnan(value) else value for value in values.tolist()], "reason": reason}
