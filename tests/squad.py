"""SQuAD paragraphs and questions as vectors of two layers of the bundled encoder, cached."""

import gzip
import json
import os
from pathlib import Path

import numpy as np

PARAGRAPHS, QUESTIONS = 1000, 1500
LAYERS = (4, 6)
MAX_TOKENS = 256
BATCH = 16

DATA = os.environ.get("ISOSCOPE_BENCH_DATA")


def texts(folder: Path) -> tuple[list[str], list[str], list[int]]:
    positions: dict[str, int] = {}
    questions = []
    with gzip.open(folder / "squad" / "validation.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["context"] in positions or len(positions) < PARAGRAPHS:
                questions.append((row["question"], positions.setdefault(row["context"], len(positions))))
    drawn = np.sort(np.random.default_rng(0).permutation(len(questions))[:QUESTIONS])
    return list(positions), [questions[row][0] for row in drawn], [questions[row][1] for row in drawn]


def vectors(folder: Path, cache_path: Path) -> dict[str, np.ndarray]:
    """Return ``paragraphs_4``, ``questions_4`` and their last layer, each [n, 384], and ``relevant`` [questions]."""
    if not cache_path.is_file():
        paragraphs, questions, relevant = texts(folder)
        arrays = {f"paragraphs_{layer}": x for layer, x in _encode(paragraphs).items()}
        arrays |= {f"questions_{layer}": x for layer, x in _encode(questions).items()}
        partial = cache_path.with_suffix(".partial.npz")
        np.savez(partial, relevant=np.array(relevant), **arrays)
        partial.replace(cache_path)
    with np.load(cache_path) as stored:
        return dict(stored)


def _encode(texts: list[str]) -> dict[int, np.ndarray]:
    import torch  # noqa: PLC0415
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415

    from app.core.process import bundled_folder  # noqa: PLC0415
    from isoscope.hidden_states import mean_of_tokens  # noqa: PLC0415

    tokenizer, model = AutoTokenizer.from_pretrained(bundled_folder()), AutoModel.from_pretrained(bundled_folder())
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    arrays = {layer: np.empty((len(texts), model.config.hidden_size), np.float32) for layer in LAYERS}
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            )
            states = model.eval()(**batch, output_hidden_states=True).hidden_states
            for layer in LAYERS:
                arrays[layer][rows] = mean_of_tokens(states[layer], batch["attention_mask"]).numpy()
    return arrays
