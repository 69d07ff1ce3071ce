"""Clouds with one known defect each, and healthy ones, of generated and real bases."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Random = np.random.Generator


class Planted(NamedTuple):
    name: str
    slug: str
    x: Points
    rows: list[int] | None = None
    """All that must be named, in order; None where the defect is of all rows."""
    dimensions: list[int] | None = None


def generated(random: Random, n: int, d: int, decay: float = 0.5, *, heavy: bool = False) -> Points:
    """A healthy cloud with variances i^-decay in a random order of the dimensions."""
    x = random.standard_normal((n, d)) * np.arange(1, d + 1) ** (-decay / 2)
    if heavy:
        x /= np.sqrt(random.chisquare(5, (n, 1)) / 5)
    return x[:, random.permutation(d)].astype(np.float32)


class Bases:
    def __init__(self, random: Random, words: Points | None = None, sentences: Points | None = None) -> None:
        self.random = random
        self.words, self.sentences = words, sentences

    def real(self, n: int, *, sentences: bool = False) -> Points:
        rows = self.sentences if sentences else self.words
        if rows is None:
            return generated(self.random, n, 300, 0.3)
        return rows[np.sort(self.random.permutation(len(rows))[:n])].copy()


def some(random: Random, n: int, count: int) -> NDArray[np.int64]:
    return np.sort(random.permutation(n)[:count])


def planted(bases: Bases) -> Iterator[Planted]:
    random, real = bases.random, bases.real
    yield mean_of("mean, 16", generated(random, 300, 16), 3, random)
    yield mean_of("mean, words", real(3000), 3, random)
    yield rogue("scaled, 64", generated(random, 2000, 64), some(random, 64, 2), 12)
    yield rogue("scaled, words", real(2500), some(random, 300, 3), 15)
    x = generated(random, 1200, 128, 0.2)
    x[:, 77] += 25 * x.std()
    yield Planted("offset, 128", "rogue_dimensions", x, dimensions=[77])
    yield rogue("scaled, 50,000 x 16", generated(random, 50_000, 16), some(random, 16, 1), 20)
    yield outliers("outliers, 64", generated(random, 1200, 64), some(random, 1200, 5), 30)
    yield outliers("outliers, sentences", real(800, sentences=True), some(random, 800, 4), 40)
    yield outliers("outliers, 768", generated(random, 5000, 768, 1), some(random, 5000, 6), 60)
    yield copies("copies, 32", generated(random, 900, 32), 300)
    yield copies("copies, words", real(2000), 400)
    yield Planted("few rows, 384", "too_few_rows", generated(random, 300, 384, 0.3))
    yield Planted("few rows, 768", "too_few_rows", generated(random, 350, 768, 0.2, heavy=True))
    yield hubs("hubs, 96", generated(random, 1500, 96, 0.3), some(random, 1500, 3), random)
    yield hubs("hubs, words", real(3000), some(random, 3000, 4), random)
    low = random.standard_normal((2000, 6)) @ random.standard_normal((6, 100))
    yield Planted("six directions", "collapsed", (low + 0.02 * random.standard_normal(low.shape)).astype(np.float32))
    yield Planted("one point", "collapsed", (0.005 * real(600) + random.standard_normal(300)).astype(np.float32))
    x, planted_rows = real(1000), some(random, 300, 9)
    x[:, planted_rows] = 0.25
    yield Planted("constant, words", "constant_dimensions", x, dimensions=planted_rows.tolist())
    x = generated(random, 2000, 48) * np.exp(1.3 * random.standard_normal((2000, 1)))
    yield Planted("norms, 48", "unequal_norms", x.astype(np.float32))
    x = real(2000)
    x[(planted_rows := some(random, 2000, 500))] *= 12
    yield Planted("norms, words", "unequal_norms", x, rows=planted_rows.tolist())
    x = generated(random, 3000, 64)
    x[(planted_rows := some(random, 3000, 900))] += 2.5 * random.standard_normal(64)
    yield Planted("shifted part, 64", "mixed_clouds", x.astype(np.float32), rows=planted_rows.tolist())
    x = real(4000)
    turn, _ = np.linalg.qr(random.standard_normal((x.shape[1], x.shape[1])))
    planted_rows = some(random, len(x), 1200)
    x[planted_rows] = 2 * x[planted_rows] @ turn + 0.1
    yield Planted("another model, words", "mixed_clouds", x.astype(np.float32), rows=planted_rows.tolist())
    x = generated(random, 1500, 32)
    x[:, 9] = random.permutation(1500)
    yield Planted("ids, 32", "metadata_as_coordinates", x, dimensions=[9])
    x = real(700)
    x[(planted_rows := some(random, 700, 11)), random.integers(0, 300, 11)] = np.nan
    yield Planted("not finite, words", "not_finite", x, rows=planted_rows.tolist())


def mean_of(name: str, x: Points, size: float, random: Random) -> Planted:
    return Planted(name, "common_mean", (x + size * x.std() * random.standard_normal(x.shape[1])).astype(np.float32))


def rogue(name: str, x: Points, planted_rows: NDArray[np.int64], times: float) -> Planted:
    x[:, planted_rows] *= times * x.std() / x[:, planted_rows].std(0)
    return Planted(name, "rogue_dimensions", x, dimensions=planted_rows.tolist())


def outliers(name: str, x: Points, planted_rows: NDArray[np.int64], times: float) -> Planted:
    x[planted_rows] = x.mean(0) + times * (x[planted_rows] - x.mean(0))
    return Planted(name, "outlier_rows", x, rows=planted_rows.tolist())


def copies(name: str, x: Points, count: int) -> Planted:
    n = len(x)
    x[n - count :] = x[: n // 20][np.arange(count) % (n // 20)]
    return Planted(name, "duplicate_rows", x, rows=list(range(n - count, n)))


def hubs(name: str, x: Points, planted_rows: NDArray[np.int64], random: Random) -> Planted:
    x[planted_rows] = x.mean(0) + 0.02 * x.std() * random.standard_normal((len(planted_rows), x.shape[1]))
    return Planted(name, "hubs", x, rows=planted_rows.tolist())


def healthy(bases: Bases) -> Iterator[tuple[str, Points]]:
    random = bases.random
    sizes = ((300, 16), (500, 128), (1000, 32), (2000, 300), (4000, 64), (1500, 768), (20_000, 24), (50_000, 16))
    for n, d in sizes:
        for decay, heavy in ((0.0, False), (1.0, True)):
            yield f"{n} x {d}, decay {decay:g}{', t5' if heavy else ''}", generated(random, n, d, decay, heavy=heavy)
    for n in (400, 1000, 3000, 6000):
        yield f"{n} words", bases.real(n)
    for n in (400, 800):
        yield f"{n} sentences", bases.real(n, sentences=True)
    x = generated(random, 1000, 48, 1.5)
    yield "small units", x * np.float32(1e-6)
    yield (
        "rotated",
        (generated(random, 2000, 64, 1) @ np.linalg.qr(random.standard_normal((64, 64)))[0]).astype(np.float32),
    )


@cache
def word_vectors(folder: str) -> Points:
    vectors: Points = np.load(Path(folder) / "embeddings/word2vec_googlenews_300d_8k.npz")["vectors"]
    return vectors
