"""Measure reference clouds: writes the table ``isotropy/catalog/reference_values.json`` that reports show.

Run: OMP_NUM_THREADS=2 python -m benchmarks.reference_values > isotropy/catalog/reference_values.json

Layers of the bundled encoder are of the train sentences in samples/agreement. Generated clouds have the same numbers of
rows and dimensions, so that only the shape of the cloud differs.
"""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.core.process import BUNDLED_MODEL, FILES
from benchmarks import _encoded_texts
from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows

N, D = 2000, 384
SEED = 0
DIGITS = 6
ENCODER_LAYERS = range(7)
DOMINATING = 20.0  # Standard deviation of the dominating direction, 1 in the others: about half of the variance
MEAN = 4.0  # Length of the cone's mean, relative to the typical distance of rows from it: cosines are about 16/17

Points = NDArray[np.float32]


class ReferenceCloud(NamedTuple):
    """A cloud with its name and description."""

    name: str
    about: str
    points: Points


def generate_clouds() -> Iterator[ReferenceCloud]:
    points = np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)
    first = np.eye(D, dtype=np.float32)[0]
    yield ReferenceCloud("Isotropic Gaussian", "All directions have the same variance.", points)
    yield ReferenceCloud(
        "Gaussian, one dominating direction",
        f"One direction has {DOMINATING**2:,.0f} times the variance of each other.",
        points * (1 + (DOMINATING - 1) * first),
    )
    yield ReferenceCloud(
        "Narrow cone",
        "An isotropic Gaussian about a mean that is four times as long as its rows are far from it.",
        points + MEAN * np.float32(D**0.5) * first,
    )


def encode_layers(layers: Sequence[int] = ENCODER_LAYERS) -> Iterator[ReferenceCloud]:
    """Yield layers of the bundled encoder, averaged over tokens; 0 is the embedding layer."""
    with (FILES / "samples" / "agreement" / "train.tsv").open(encoding="utf-8", newline="") as file:
        sentences = [row["sentence"] for row in csv.DictReader(file, delimiter="\t")]
    about = f"Mean over tokens, {len(sentences):,} sample sentences."
    for layer, points in _encoded_texts.encode_layers(sentences, layers).items():
        yield ReferenceCloud(f"{BUNDLED_MODEL}, layer {layer}", about, points)


def values_of(points: Points) -> dict[str, list[float | int | None]]:
    """Return value, standard error and number of rows of every measure that is defined without labels."""
    results = measure(read_cloud(Rows(points), SEED))
    return {
        slug: [_round(result.score.value), None if result.score.se is None else _round(result.score.se), result.n]
        for slug, result in results.items()
        if result.score.value is not None
    }


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def main() -> None:
    """Print the table, one cloud per line."""
    lines = []
    for cloud in [*generate_clouds(), *encode_layers()]:
        n, d = cloud.points.shape
        lines.append(
            json.dumps({"name": cloud.name, "about": cloud.about, "n": n, "d": d, "values": values_of(cloud.points)})
        )
        sys.stderr.write(f"{cloud.name}: {len(lines)}\n")
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
