"""SQuAD paragraphs and questions as vectors of two layers of the bundled encoder, cached."""

from pathlib import Path

import numpy as np

from benchmarks._encoded_texts import encode_layers, read_squad_texts

LAYERS = (4, 6)


def vectors(folder: Path, cache_path: Path) -> dict[str, np.ndarray]:
    """Return ``paragraphs_4``, ``questions_4`` and their last layer, each [n, 384], and ``relevant`` [questions]."""
    if not cache_path.is_file():
        paragraphs, questions, relevant = read_squad_texts(folder)
        arrays = {f"paragraphs_{layer}": x for layer, x in encode_layers(paragraphs, LAYERS).items()}
        arrays |= {f"questions_{layer}": x for layer, x in encode_layers(questions, LAYERS).items()}
        partial = cache_path.with_suffix(".partial.npz")
        np.savez(partial, relevant=np.array(relevant), **arrays)
        partial.replace(cache_path)
    with np.load(cache_path) as stored:
        return dict(stored)
