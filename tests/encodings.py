import io
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from app.db.models import Pooling
from app.storage import open_storage

TEXTS = [
    "the film", "a very good plot and a great cast", "", "so dull", "the plot was bad and the cast was dull", "good",
]  # fmt: skip
LABELS = ["x", "good", "bad", "bad", "bad", "good"]
FULL = [0, 1, 3, 4, 5]
ROWS = "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))


def read(settings, embedding):
    return np.load(io.BytesIO(open_storage(settings).local_path(embedding.files[0].file_sha256).read_bytes()))


def encode_individually(folder: Path, rows, max_length=64):
    """Return vectors by (layer, pooling), encoding each text alone: no batch, no padding, no custom mask."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    vectors = {}
    for row in rows:
        tokens = tokenizer(*row, return_tensors="pt", truncation=True, max_length=max_length)
        inputs = {"input_ids": tokens["input_ids"]}
        if "token_type_ids" in tokens and model.config.model_type == "bert":
            inputs["token_type_ids"] = tokens["token_type_ids"]
        with torch.no_grad():
            states = model(**inputs, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            for pooling, vector in (("first", state[0, 0]), ("mean", state[0].mean(0)), ("last", state[0, -1])):
                vectors.setdefault((layer, Pooling(pooling)), []).append(vector.numpy())
    return {key: np.stack(rows) for key, rows in vectors.items()}


def assert_vectors(settings, layers, expected):
    """Check the vectors of each layer and pooling, and return the layers."""
    for key, embedding in layers.items():
        np.testing.assert_allclose(read(settings, embedding), expected[key], rtol=1e-5, atol=1e-6)
    return layers
