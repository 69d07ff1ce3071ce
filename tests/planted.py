"""Clouds with one known defect each, and healthy ones, of generated and real bases."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
Random = np.random.Generator
LISTED = 100  # Rows and dimensions that a finding lists


class Defect(NamedTuple):
    name: str
    slug: str
    x: Points
    rows: list[int] | None = None
    """Rows to name, in order; None if all rows have the defect."""
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


def draw_positions(random: Random, n: int, count: int) -> NDArray[np.int64]:
    return np.sort(random.permutation(n)[:count])


def planted(bases: Bases) -> Iterator[Defect]:
    random, real = bases.random, bases.real
    yield add_mean("mean, 16", generated(random, 300, 16), 3, random)
    yield add_mean("mean, words", real(3000), 3, random)
    yield rogue("scaled, 64", generated(random, 2000, 64), draw_positions(random, 64, 2), 12)
    yield rogue("scaled, words", real(2500), draw_positions(random, 300, 3), 15)
    x = generated(random, 1200, 128, 0.2)
    x[:, 77] += 25 * x.std()
    yield Defect("offset, 128", "rogue_dimensions", x, dimensions=[77])
    yield rogue("scaled, 50,000 x 16", generated(random, 50_000, 16), draw_positions(random, 16, 1), 20)
    yield outliers("outliers, 64", generated(random, 1200, 64), draw_positions(random, 1200, 5), 30)
    yield outliers("outliers, sentences", real(800, sentences=True), draw_positions(random, 800, 4), 40)
    yield outliers("outliers, 768", generated(random, 5000, 768, 1), draw_positions(random, 5000, 6), 60)
    yield copies("copies, 32", generated(random, 900, 32), 300)
    yield copies("copies, words", real(2000), 400)
    yield Defect("few rows, 384", "too_few_rows", generated(random, 300, 384, 0.3))
    yield Defect("few rows, 768", "too_few_rows", generated(random, 350, 768, 0.2, heavy=True))
    yield hubs("hubs, 96", generated(random, 1500, 96, 0.3), draw_positions(random, 1500, 3), random)
    yield hubs("hubs, words", real(3000), draw_positions(random, 3000, 4), random)
    low = random.standard_normal((2000, 6)) @ random.standard_normal((6, 100))
    yield Defect("six directions", "collapsed", (low + 0.02 * random.standard_normal(low.shape)).astype(np.float32))
    yield Defect("one point", "collapsed", (0.005 * real(600) + random.standard_normal(300)).astype(np.float32))
    x, planted_rows = real(1000), draw_positions(random, 300, 9)
    x[:, planted_rows] = 0.25
    yield Defect("constant, words", "constant_dimensions", x, dimensions=planted_rows.tolist())
    x = generated(random, 2000, 48) * np.exp(1.3 * random.standard_normal((2000, 1)))
    yield Defect("norms, 48", "unequal_norms", x.astype(np.float32))
    x = real(2000)
    x[(planted_rows := draw_positions(random, 2000, 500))] *= 12
    yield Defect("norms, words", "unequal_norms", x, rows=planted_rows.tolist())
    x = generated(random, 3000, 64)
    x[(planted_rows := draw_positions(random, 3000, 900))] += 2.5 * random.standard_normal(64)
    yield Defect("shifted part, 64", "mixed_clouds", x.astype(np.float32), rows=planted_rows.tolist())
    x = real(4000)
    turn, _ = np.linalg.qr(random.standard_normal((x.shape[1], x.shape[1])))
    planted_rows = draw_positions(random, len(x), 1200)
    x[planted_rows] = 2 * x[planted_rows] @ turn + 0.1
    yield Defect("another model, words", "mixed_clouds", x.astype(np.float32), rows=planted_rows.tolist())
    x = generated(random, 1500, 32)
    x[:, 9] = random.permutation(1500)
    yield Defect("ids, 32", "metadata_as_coordinates", x, dimensions=[9])
    x = real(700)
    x[(planted_rows := draw_positions(random, 700, 11)), random.integers(0, 300, 11)] = np.nan
    yield Defect("not finite, words", "not_finite", x, rows=planted_rows.tolist())


def add_mean(name: str, x: Points, size: float, random: Random) -> Defect:
    return Defect(name, "common_mean", (x + size * x.std() * random.standard_normal(x.shape[1])).astype(np.float32))


def rogue(name: str, x: Points, planted_rows: NDArray[np.int64], times: float) -> Defect:
    x[:, planted_rows] *= times * x.std() / x[:, planted_rows].std(0)
    return Defect(name, "rogue_dimensions", x, dimensions=planted_rows.tolist())


def outliers(name: str, x: Points, planted_rows: NDArray[np.int64], times: float) -> Defect:
    x[planted_rows] = x.mean(0) + times * (x[planted_rows] - x.mean(0))
    return Defect(name, "outlier_rows", x, rows=planted_rows.tolist())


def copies(name: str, x: Points, count: int) -> Defect:
    n = len(x)
    x[n - count :] = x[: n // 20][np.arange(count) % (n // 20)]
    return Defect(name, "duplicate_rows", x, rows=list(range(n - count, n)))


def hubs(name: str, x: Points, planted_rows: NDArray[np.int64], random: Random) -> Defect:
    x[planted_rows] = x.mean(0) + 0.02 * x.std() * random.standard_normal((len(planted_rows), x.shape[1]))
    return Defect(name, "hubs", x, rows=planted_rows.tolist())


def planted_rows_and_dimensions(bases: Bases) -> Iterator[Defect]:
    """Clouds with wrong rows or dimensions, five of each kind."""
    random, real = bases.random, bases.real
    clouds = {
        "words": real(1500),
        "more words": real(2500),
        "sentences": real(800, sentences=True),
        "64": generated(random, 1500, 64, 1.0),
        "256": generated(random, 1500, 256, 0.8, heavy=True),
    }
    for name, x in clouds.items():
        n, d = x.shape
        start, count = int(random.integers(n // 2)), int(n * random.uniform(0.08, 0.25))
        twice = np.concatenate([x, x[start : start + count]])
        yield Defect(f"shard twice, {name}", "duplicate_rows", twice, rows=list(range(n, n + count)))
        rows, zeroed = draw_positions(random, n, int(random.integers(1, 9))), x.copy()
        zeroed[rows] = 0
        yield Defect(f"zeros, {name}", "zero_rows", zeroed, rows=rows.tolist())
        rows, cut = draw_positions(random, n, int(n * random.choice([0.02, 0.2, 0.5]))), x.copy()
        cut[rows, d // 2 :] = 0
        yield Defect(f"truncated, {name}", "truncated_rows", cut, rows=rows.tolist())
        rows, permuted = draw_positions(random, n, n // 8), x.copy()
        permuted[rows] = permuted[rows][:, random.permutation(d)]
        yield Defect(f"permuted, {name}", "unrelated_rows", permuted, rows=rows.tolist())
        rows, turned = draw_positions(random, n, n // 3), x.copy()
        turn = np.linalg.qr(random.standard_normal((d, d)))[0].astype(np.float32)
        turned[rows] = turned[rows] @ turn
        yield Defect(f"rotated twin, {name}", "unrelated_rows", turned, rows=rows.tolist())
        doubled = draw_positions(random, d, int(d * random.choice([0.1, 0.3, 1.0])))
        widened = np.concatenate([x, x[:, doubled]], axis=1)
        yield Defect(
            f"doubled, {name}", "doubled_dimensions", widened, dimensions=list(range(d, d + len(doubled)))[:LISTED]
        )
        scale = x.std() * random.choice([1.0, 1.5, 2.0]) / 127
        yield Defect(f"int8, {name}", "saturated_dimensions", (x / scale).round().clip(-127, 127))
        mean = 0.5 * x.std() * random.standard_normal(d).astype(np.float32)
        yield Defect(f"transposed, {name}", "transposed", np.ascontiguousarray((x + mean).T))


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


def healthy_of_other_kinds(bases: Bases) -> Iterator[tuple[str, Points]]:
    random = bases.random
    for name, x in (("words", bases.real(1500)), ("sentences", bases.real(600, sentences=True))):
        yield f"unit {name}", x / np.linalg.norm(x, axis=1, keepdims=True)
        yield f"float16 {name}", x.astype(np.float16).astype(np.float32)
        yield f"{name}, 3% repeated", np.concatenate([x, x[draw_positions(random, len(x), len(x) * 3 // 100)]])
        yield f"int8 {name}", (x / np.abs(x).max() * 127).round()
        yield f"int8 {name}, 0.1% cut off", (x / np.quantile(np.abs(x), 0.999) * 127).round().clip(-127, 127)
    for n, d, decay in (
        (40, 16, 0.5),
        (60, 8, 0.0),
        (250, 768, 1.0),
        (300, 400, 1.2),
        (400, 64, 0.7),
        (2500, 128, 0.3),
    ):
        x = generated(random, n, d, decay, heavy=n > 100)
        if n >= d:
            yield f"{n} x {d}, decay {decay:g}", x
        x = x + 0.3 * x.std() * random.standard_normal(d).astype(np.float32)
        yield f"unit {n} x {d}, decay {decay:g}", x / np.linalg.norm(x, axis=1, keepdims=True)
    for count, d, size in ((6, 32, 1.0), (8, 64, 1.5), (12, 64, 1.5), (20, 128, 1.0), (40, 300, 0.6)):
        centers = size * random.standard_normal((count, d))
        noise = random.standard_normal((2000, d)) * np.arange(1, d + 1) ** -0.25
        yield f"{count} clusters, {d}", (centers[random.integers(count, size=2000)] + noise).astype(np.float32)
    for count, d in ((6, 64), (10, 128)):
        planes = [random.standard_normal((200, 8)) @ random.standard_normal((8, d)) for _ in range(count)]
        x = np.concatenate(planes) + 0.3 * random.standard_normal((200 * count, d))
        yield f"{count} subspaces", x.astype(np.float32)
    yield "rectified", np.maximum(generated(random, 1500, 96, 0.3), 0)
    yield "uniform", random.uniform(-1, 1, (1500, 64)).astype(np.float32)
    yield "exponential", random.exponential(size=(1500, 64)).astype(np.float32) - 1
    yield "signs", np.sign(generated(random, 1500, 128, 0.5))
    yield "int4", (generated(random, 1500, 96, 0.3) * 3).round().clip(-7, 7)
    for n, d in ((1500, 96), (600, 32), (800, 200), (2000, 48)):
        for decay in (0.4, 0.9):
            x = generated(random, n, d, decay) @ np.linalg.qr(random.standard_normal((d, d)))[0]
            yield f"rotated {n} x {d}, decay {decay}", x.astype(np.float32)


@cache
def word_vectors(folder: str) -> Points:
    vectors: Points = np.load(Path(folder) / "embeddings/word2vec_googlenews_300d_8k.npz")["vectors"]
    return vectors
