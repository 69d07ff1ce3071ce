"""Every measure of known clouds: the table ``isotropy/catalog/reference_values.json`` that reports show.

Run: OMP_NUM_THREADS=2 python -m benchmarks.reference_values > isotropy/catalog/reference_values.json

The encoder's layers are those of the train sentences in samples/agreement; generated clouds have as many rows and
dimensions, so that all differ in shape alone.
"""

import csv
import json
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from app.core.process import BUNDLED_MODEL, FILES, bundled_folder
from isoscope.hidden_states import mean_of_tokens
from isotropy.cloud import read_cloud
from isotropy.report import measure
from isotropy.rows import Rows

N, D = 2000, 384
SEED = 0
DIGITS = 6
BATCH = 100
DOMINATING = 20.0  # Standard deviation of the one direction, 1 in the others: it holds about half of the variance
MEAN = 4.0  # Length of the cone's mean, in typical distances of its rows from it: cosines are about 16/17

Points = NDArray[np.float32]


class Known(NamedTuple):
    """A cloud by its name, and what it is."""

    name: str
    about: str
    points: Points


def generated() -> Iterator[Known]:
    """Yield the clouds that are drawn."""
    drawn = np.random.default_rng(SEED).standard_normal((N, D)).astype(np.float32)
    first = np.eye(D, dtype=np.float32)[0]
    yield Known("Isotropic Gaussian", "All directions have the same variance.", drawn)
    yield Known(
        "Gaussian, one dominating direction",
        f"One direction has {DOMINATING**2:,.0f} times the variance of each other.",
        drawn * (1 + (DOMINATING - 1) * first),
    )
    yield Known(
        "Narrow cone",
        "An isotropic Gaussian about a mean that is four times as long as its rows are far from it.",
        drawn + MEAN * np.float32(D**0.5) * first,
    )


def encoded(layers: tuple[int, ...] | None = None) -> Iterator[Known]:
    """Yield layers of the bundled encoder, the mean over tokens; None takes all, 0 being the embedding layer."""
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415 - slow, and needed for this half alone

    with (FILES / "samples" / "agreement" / "train.tsv").open(encoding="utf-8", newline="") as file:
        sentences = [row["sentence"] for row in csv.DictReader(file, delimiter="\t")]
    if (folder := bundled_folder()) is None:
        raise SystemExit(f"{BUNDLED_MODEL} is not installed. Install isoscope[bundled-encoder].")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    pooled: dict[int, list[torch.Tensor]] = {}
    with torch.inference_mode():
        for start in range(0, len(sentences), BATCH):
            batch = tokenizer(sentences[start : start + BATCH], padding=True, truncation=True, return_tensors="pt")
            for layer, states in enumerate(model.eval()(**batch, output_hidden_states=True).hidden_states):
                if layers is None or layer in layers:
                    pooled.setdefault(layer, []).append(mean_of_tokens(states, batch["attention_mask"]))
    for layer, parts in pooled.items():
        about = f"Mean over tokens, {len(sentences):,} sample sentences."
        yield Known(f"{BUNDLED_MODEL}, layer {layer}", about, torch.cat(parts).numpy())


def values_of(points: Points) -> dict[str, list[float | int | None]]:
    """Return value, standard error and rows of every measure that is defined of a cloud without labels."""
    found = measure(read_cloud(Rows(points), SEED))
    return {
        slug: [_rounded(one.score.value), None if one.score.se is None else _rounded(one.score.se), one.n]
        for slug, one in found.items()
        if one.score.value is not None
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def main() -> None:
    """Print the table, a cloud a line."""
    lines = []
    for one in [*generated(), *encoded()]:
        n, d = one.points.shape
        lines.append(
            json.dumps({"name": one.name, "about": one.about, "n": n, "d": d, "values": values_of(one.points)})
        )
        sys.stderr.write(f"{one.name}: {len(lines)}\n")
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
