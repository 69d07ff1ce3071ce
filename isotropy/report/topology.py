"""The bars in dimension 0 of a cloud's rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from isotropy.cloud import BARCODE_ROWS, Cloud
from isotropy.prominence import gaussian_prominent_bars, prominent_bars
from isotropy.report.finding import MeasureFunction, MeasureResult
from isotropy.score import Score
from isotropy.topology import longest_bar, persistent_entropy


def _of_bars(measure: Callable[[Tensor], Score]) -> MeasureFunction:
    return lambda cloud: MeasureResult(measure(cloud.bars), len(cloud.sample[:BARCODE_ROWS]))


def _barcode(cloud: Cloud) -> MeasureResult:
    lengths = (cloud.bars * cloud.unit).tolist()
    longest = longest_bar(cloud.bars).times(cloud.unit)
    return MeasureResult(longest, len(cloud.sample[:BARCODE_ROWS]), {"lengths": lengths})


def _prominent_bars(cloud: Cloud) -> MeasureResult:
    """With the number of a Gaussian cloud of as many rows and dimensions."""
    n = len(cloud.sample[:BARCODE_ROWS])
    score = prominent_bars(cloud.bars)
    if score.value is None:
        return MeasureResult(score, n)
    return MeasureResult(score, n, {"parts": {"gaussian_of_the_same_size": gaussian_prominent_bars(n, cloud.d).value}})


MEASURES: dict[str, MeasureFunction] = {
    "barcode": _barcode,
    "persistent_entropy": _of_bars(persistent_entropy),
    "persistent_entropy_normalised": _of_bars(partial(persistent_entropy, normalised=True)),
    "prominent_bars": _prominent_bars,
}
