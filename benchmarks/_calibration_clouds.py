"""Cases of intervals and differences of clouds, sampled from populations whose values are known."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.db.models import Measurement
from app.embeddings.comparison import subtract_baseline
from benchmarks._calibration import FALSE_POSITIVES, MAX_FALSE_POSITIVES, Case, Simulate, coverage
from isotropy.catalog import MEASURES
from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows
from workers.embeddings.measure import measurement_columns

SIMULATIONS = 1000
Points = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Points]

SPECTRA: dict[str, Callable[[int], Points]] = {
    "isotropic": np.ones,
    "linear": lambda d: np.linspace(1, 0.1, d),
    "1/i": lambda d: 1 / np.arange(1, d + 1),
    "one strong": lambda d: np.array([d, *[1.0] * (d - 1)]),
}


def draw_rows(random: np.random.Generator, n: int, *, d: int, spectrum: str, tails: str, mean: float = 0.0) -> Points:
    """Draw n independent rows [n, d]: Gaussian, multivariate t5, or with independent t5 coordinates.

    The covariance is proportional to ``spectrum``. All dimensions have the same mean, in root mean square deviations.
    """
    sd = np.sqrt(SPECTRA[spectrum](d))
    shift = mean * np.sqrt((sd**2).mean())
    x: Points = random.standard_t(5, (n, d)) if tails == "t5 coordinates" else random.standard_normal((n, d))
    x *= sd
    if tails == "t5":
        x /= np.sqrt(random.chisquare(5, (n, 1)) / 5)
    x += shift
    return x


def draw_copies(random: np.random.Generator, n: int, *, copies: int, d: int, spectrum: str) -> Points:
    """Draw n / copies rows and repeat each ``copies`` times; return them as [n, d]."""
    return np.repeat(draw_rows(random, n // copies, d=d, spectrum=spectrum, tails="Gaussian"), copies, axis=0)


def draw_documents(random: np.random.Generator, n: int, *, size: int, d: int, spectrum: str) -> Points:
    """Draw n rows [n, d] in documents of ``size`` rows, which share half of their variance."""
    documents = draw_rows(random, n // size, d=d, spectrum=spectrum, tails="Gaussian")
    return np.repeat(documents, size, axis=0) + draw_rows(random, n, d=d, spectrum=spectrum, tails="Gaussian")


def draw_two_views(random: np.random.Generator, n: int, *, d: int, spectrum: str) -> Points:
    """Draw two clouds [n, 2 d] of the same population whose rows are correlated."""
    shared, *noises = (draw_rows(random, n, d=d, spectrum=spectrum, tails="Gaussian") for _ in range(3))
    return np.hstack([3 * shared + noise for noise in noises])


def measure_points(x: Points, slug: str, groups: list[str] | None = None) -> Measurement:
    """Return the measurement that the measure job would store."""
    cloud = read_cloud(Rows(x, row_groups=groups))
    return Measurement(**measurement_columns(slug, measure(cloud, [slug])[slug]))


def covers(
    random: np.random.Generator, draw: Draw, n: int, slug: str, truth: float, group_size: int | None = None
) -> bool:
    """Return whether the interval of a sample of n rows holds the population's value."""
    groups = None if group_size is None else [str(row // group_size) for row in range(n)]
    measurement = measure_points(draw(random, n), slug, groups)
    low, high = measurement.low, measurement.high
    return low is not None and high is not None and low <= truth <= high


def differs(random: np.random.Generator, draw: Draw, sizes: tuple[int, int], slug: str) -> bool:
    """Return whether two samples of the same population, of these sizes, are said to differ."""
    change = subtract_baseline(*(measure_points(draw(random, n), slug) for n in sizes))
    if change is None or change.excludes_zero is None:
        raise ValueError(f"{slug} has no interval for {sizes} rows.")
    return change.excludes_zero


def differs_paired(random: np.random.Generator, draw: Draw, n: int, slug: str) -> bool:
    """Return whether two views of the same rows, from the same population, are said to differ."""
    views = np.hsplit(draw(random, n), 2)
    first, second = (measure_points(np.ascontiguousarray(view), slug) for view in views)
    change = subtract_baseline(first, second, same_rows=True)
    return change is not None and bool(change.excludes_zero)


def true_isoscore(spectrum: str, d: int) -> float:
    """Return the IsoScore of a population with this spectrum in d dimensions."""
    values = SPECTRA[spectrum](d)
    return float((values.sum() ** 2 / (values**2).sum() - 1) / (d - 1))


def null_case(name: str, simulate: Simulate) -> Case:
    """Return a case of equal populations, whose intervals may be too wide, as the page says, but not too narrow."""
    return Case(name, FALSE_POSITIVES, 0.0, MAX_FALSE_POSITIVES, SIMULATIONS, simulate)


def _coverage_cases() -> list[Case]:
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
            draw = partial(draw_rows, d=d, spectrum=spectrum, tails=tails)
            simulate = partial(covers, draw=draw, n=n, slug="isoscore_unbiased", truth=true_isoscore(spectrum, d))
            name = f"S4 bias-corrected IsoScore, {n} x {d}, {spectrum}, {tails}"
            cases.append(coverage(name, simulate, SIMULATIONS, conservative=True))
    d = 20
    truth = true_isoscore("1/i", d)
    ratio = partial(covers, draw=partial(draw_rows, d=d, spectrum="1/i", tails="Gaussian"), n=500)
    simulate = partial(ratio, slug="participation_ratio_unbiased", truth=1 + (d - 1) * truth)
    cases.append(coverage("S4 bias-corrected participation ratio, 500 x 20, 1/i", simulate, SIMULATIONS))
    copies = partial(draw_copies, copies=20, d=d, spectrum="1/i")
    simulate = partial(covers, draw=copies, n=4000, slug="isoscore_unbiased", truth=truth)
    cases.append(coverage("S10 200 rows x 20 copies, 1/i", simulate, SIMULATIONS, conservative=True))
    simulate = partial(covers, draw=copies, n=600, slug="isoscore_unbiased", truth=truth)
    cases.append(coverage("S10 30 rows x 20 copies, 1/i", simulate, SIMULATIONS, conservative=True))
    documents = partial(draw_documents, size=10, d=d, spectrum="1/i")
    simulate = partial(covers, draw=documents, n=1000, slug="isoscore_unbiased", truth=truth, group_size=10)
    cases.append(coverage("S10 100 documents of 10 rows, 1/i, groups given", simulate, SIMULATIONS, conservative=True))
    return cases


def _difference_cases() -> list[Case]:
    usual = partial(draw_rows, d=20, spectrum="1/i", tails="t5", mean=0.3)
    cases = []
    for slug, entry in MEASURES.items():
        if entry.compared == "never" or entry.group == "neighbors":
            continue
        cases.append(null_case(f"S3 {slug}, 500 and 500", partial(differs, draw=usual, sizes=(500, 500), slug=slug)))
        if entry.compared == "at any n" and slug != "participation_ratio_unbiased":
            simulate = partial(differs, draw=usual, sizes=(60, 500), slug=slug)
            cases.append(null_case(f"S3 {slug}, 60 and 500", simulate))
    for slug in ("spectrum", "effective_rank"):
        ties = partial(draw_rows, d=20, spectrum="isotropic", tails="Gaussian")
        simulate = partial(differs, draw=ties, sizes=(500, 500), slug=slug)
        cases.append(null_case(f"S3 {slug}, 500 and 500, isotropic", simulate))
    for slug in ("isoscore_unbiased", "effective_rank"):
        views = partial(draw_two_views, d=20, spectrum="1/i")
        cases.append(null_case(f"S3 {slug}, paired, 500 rows", partial(differs_paired, draw=views, n=500, slug=slug)))
    flat = partial(draw_rows, d=5, spectrum="isotropic", tails="Gaussian")
    for slug in ("twonn", "twonn_mle", "levina_bickel"):
        for tag, draw, sizes in (("", usual, (1000, 1000)), ("", usual, (1500, 1200)), (", d = 5", flat, (1000, 1000))):
            simulate = partial(differs, draw=draw, sizes=sizes, slug=slug)
            cases.append(null_case(f"S3 {slug}, {sizes[0]} and {sizes[1]}{tag}", simulate))
    return cases


def cases() -> list[Case]:
    """Return the cases of all claims on clouds."""
    return [*_coverage_cases(), *_difference_cases()]
