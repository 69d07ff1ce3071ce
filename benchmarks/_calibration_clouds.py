"""Intervals and differences of clouds, tried on samples of populations whose values are known."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from app.db.models import Measurement
from app.embeddings.comparison import difference
from benchmarks._calibration import FALSE_POSITIVES, MOST_FALSE_POSITIVES, Case, coverage
from isotropy.catalog import MEASURES
from isotropy.cloud import read_cloud
from isotropy.report import MeasureResult, measure
from isotropy.rows import Rows
from isotropy.score import Jackknife
from isotropy.unbiased import FourthMoments, corrected_scores_from_moments
from workers.embeddings.measure import measurement_columns

SIMULATIONS = 1000
CORRECTED = ("isoscore_unbiased", "participation_ratio_unbiased")
Points = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Points]

SPECTRA: dict[str, Callable[[int], Points]] = {
    "isotropic": np.ones,
    "linear": lambda d: np.linspace(1, 0.1, d),
    "1/i": lambda d: 1 / np.arange(1, d + 1),
    "one strong": lambda d: np.array([d, *[1.0] * (d - 1)]),
}


def drawn(random: np.random.Generator, n: int, *, d: int, spectrum: str, tails: str, mean: float = 0.0) -> Points:
    """Return n independent rows of that covariance but for a factor: Gaussian, elliptic t5, or of coordinates that are.

    The mean is the same in every dimension, in units of the root mean square of the standard deviations.
    """
    sd = np.sqrt(SPECTRA[spectrum](d))
    shift = mean * np.sqrt((sd**2).mean())
    x: Points = random.standard_t(5, (n, d)) if tails == "t5 coordinates" else random.standard_normal((n, d))
    x *= sd
    if tails == "t5":
        x /= np.sqrt(random.chisquare(5, (n, 1)) / 5)
    x += shift
    return x


def copied(random: np.random.Generator, n: int, *, copies: int, d: int, spectrum: str) -> Points:
    """Return n rows, each of n / copies in so many copies one after the other."""
    return np.repeat(drawn(random, n // copies, d=d, spectrum=spectrum, tails="Gaussian"), copies, axis=0)


def in_documents(random: np.random.Generator, n: int, *, size: int, d: int, spectrum: str) -> Points:
    """Return n rows in documents of that size: half of the variance is that of the documents."""
    between = drawn(random, n // size, d=d, spectrum=spectrum, tails="Gaussian")
    return np.repeat(between, size, axis=0) + drawn(random, n, d=d, spectrum=spectrum, tails="Gaussian")


def in_two_views(random: np.random.Generator, n: int, *, d: int, spectrum: str) -> Points:
    """Return two clouds beside each other, [n, 2 d], of one population and correlated row by row."""
    shared, *own = (drawn(random, n, d=d, spectrum=spectrum, tails="Gaussian") for _ in range(3))
    return np.hstack([3 * shared + one for one in own])


def found(x: Points, slug: str, groups: list[str] | None = None) -> Measurement:
    """Return what the measure job would store of a measure."""
    if slug in CORRECTED and groups is None and len(np.unique(x[:, 0])) == len(x):
        # What the cloud makes of it, without all that the cloud reads besides.
        blocks = Jackknife(lambda: FourthMoments(x.shape[1]), len(x))
        blocks.update(torch.from_numpy(x))
        return Measurement(
            **measurement_columns(slug, MeasureResult(blocks.scores(corrected_scores_from_moments)[slug], len(x)))
        )
    cloud = read_cloud(Rows(x, row_groups=groups))
    return Measurement(**measurement_columns(slug, measure(cloud, [slug])[slug]))


def covers(
    random: np.random.Generator, draw: Draw, n: int, slug: str, truth: float, group_size: int | None = None
) -> bool:
    """Return whether the interval of a sample of n rows holds the population's value."""
    groups = None if group_size is None else [str(row // group_size) for row in range(n)]
    sample = found(draw(random, n), slug, groups)
    return sample.low is not None and sample.high is not None and sample.low <= truth <= sample.high


def differs(random: np.random.Generator, draw: Draw, n: tuple[int, int], slug: str) -> bool:
    """Return whether samples of one population are said to differ."""
    told = difference(*(found(draw(random, one), slug) for one in n))
    if told is None or told.excludes_zero is None:
        raise ValueError(f"{slug} has no interval for {n} rows.")
    return told.excludes_zero


def differs_paired(random: np.random.Generator, draw: Draw, n: int, slug: str) -> bool:
    """Return whether two views of the same rows, of one population each, are said to differ."""
    x = draw(random, n)
    one, other = (found(np.ascontiguousarray(half), slug) for half in np.hsplit(x, 2))
    told = difference(one, other, same_rows=True)
    return told is not None and bool(told.excludes_zero)


def isoscore_of(spectrum: str, d: int) -> float:
    """Return the IsoScore of the population."""
    values = SPECTRA[spectrum](d)
    return float((values.sum() ** 2 / (values**2).sum() - 1) / (d - 1))


def same(name: str, simulate: Callable[[np.random.Generator], bool]) -> Case:
    """Return a case of equal populations; the intervals may be too wide, which the page says, but not too narrow."""
    return Case(name, FALSE_POSITIVES, 0.0, MOST_FALSE_POSITIVES, SIMULATIONS, simulate)


def _coverage() -> list[Case]:
    cases = []
    for n, d in ((60, 50), (500, 20), (3000, 20)):
        for spectrum, tails in (
            ("isotropic", "Gaussian"),
            ("1/i", "Gaussian"),
            ("one strong", "Gaussian"),
            ("linear", "t5"),
            ("1/i", "t5"),
            ("1/i", "t5 coordinates"),
        ):
            draw = partial(drawn, d=d, spectrum=spectrum, tails=tails)
            simulate = partial(covers, draw=draw, n=n, slug="isoscore_unbiased", truth=isoscore_of(spectrum, d))
            name = f"S4 bias-corrected IsoScore, {n} x {d}, {spectrum}, {tails}"
            cases.append(coverage(name, simulate, SIMULATIONS, conservative=True))
    d = 20
    truth = isoscore_of("1/i", d)
    ratio = partial(covers, draw=partial(drawn, d=d, spectrum="1/i", tails="Gaussian"), n=500)
    simulate = partial(ratio, slug="participation_ratio_unbiased", truth=1 + (d - 1) * truth)
    cases.append(coverage("S4 bias-corrected participation ratio, 500 x 20, 1/i", simulate, SIMULATIONS))
    copies = partial(copied, copies=20, d=d, spectrum="1/i")
    simulate = partial(covers, draw=copies, n=4000, slug="isoscore_unbiased", truth=truth)
    cases.append(coverage("S10 200 rows x 20 copies, 1/i", simulate, SIMULATIONS, conservative=True))
    simulate = partial(covers, draw=copies, n=600, slug="isoscore_unbiased", truth=truth)
    cases.append(coverage("S10 30 rows x 20 copies, 1/i", simulate, SIMULATIONS, conservative=True))
    documents = partial(in_documents, size=10, d=d, spectrum="1/i")
    simulate = partial(covers, draw=documents, n=1000, slug="isoscore_unbiased", truth=truth, group_size=10)
    cases.append(coverage("S10 100 documents of 10 rows, 1/i, groups given", simulate, SIMULATIONS, conservative=True))
    return cases


def _differences() -> list[Case]:
    usual = partial(drawn, d=20, spectrum="1/i", tails="t5", mean=0.3)
    cases = []
    for slug, one in MEASURES.items():
        if one.compared == "never" or one.group == "neighbours":
            continue
        cases.append(same(f"S3 {slug}, 500 and 500", partial(differs, draw=usual, n=(500, 500), slug=slug)))
        if one.compared == "at any n" and slug != "participation_ratio_unbiased":
            simulate = partial(differs, draw=usual, n=(60, 500), slug=slug)
            cases.append(same(f"S3 {slug}, 60 and 500", simulate))
    for slug in ("spectrum", "effective_rank"):
        ties = partial(drawn, d=20, spectrum="isotropic", tails="Gaussian")
        cases.append(same(f"S3 {slug}, 500 and 500, isotropic", partial(differs, draw=ties, n=(500, 500), slug=slug)))
    for slug in ("isoscore_unbiased", "effective_rank"):
        views = partial(in_two_views, d=20, spectrum="1/i")
        cases.append(same(f"S3 {slug}, paired, 500 rows", partial(differs_paired, draw=views, n=500, slug=slug)))
    flat = partial(drawn, d=5, spectrum="isotropic", tails="Gaussian")
    for slug in ("twonn", "twonn_mle", "levina_bickel"):
        for name, draw, n in (("", usual, (1000, 1000)), ("", usual, (1500, 1200)), (", d = 5", flat, (1000, 1000))):
            simulate = partial(differs, draw=draw, n=n, slug=slug)
            cases.append(same(f"S3 {slug}, {n[0]} and {n[1]}{name}", simulate))
    return cases


def cases() -> list[Case]:
    """Return all claims on clouds, to be simulated a thousand times each."""
    return [*_coverage(), *_differences()]
