"""Encode texts in batches: a vector for each text, layer and pooling, stored on disk."""

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from app.core.settings import Settings
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_within_limits
from app.db.models import Pooling
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote, storable
from isoscope.files.columns import label_text, read_columns
from isoscope.files.contents import cell_text
from isoscope.files.ground_truth import ScoredPair
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import Role
from isoscope.hidden_states import NOT_ONE_SEQUENCE, evaluation_mode, hidden_states_of
from workers.failure import is_out_of_memory
from workers.files import ID, LABEL, NAME
from workers.models import (
    ModelSource,
    find_source,
    load_pretrained,
    load_tokenizer,
    match_tokenizer_to_model,
    pool,
    require_weights,
    silence_libraries,
)

NAME_CHARACTERS = 80
# Separates the two texts of a pair in a row's name.
PAIR_SEPARATOR = " / "
# Prefix of weights on top of the last layer that do not affect its states; many checkpoints lack them.
UNUSED_WEIGHTS = "pooler."

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Texts:
    """The texts to encode, in the order of the file."""

    rows: list[tuple[str, ...]]
    row_numbers: list[int]
    """Rows of the file, from 1."""
    labels: list[str] | None
    """Empty where a row has none; None without a column of labels."""
    ids: list[str] | None
    """Ids that ground truth uses; None if the file has no column of ids."""
    n_empty: int
    """Rows of the file that were left out because a text or the score is empty."""
    pairs: list[ScoredPair] | None = None
    """Scored pairs of the ids; None if the file has no column of scores."""

    def __len__(self) -> int:
        return len(self.rows)

    def annotations(self) -> dict[str, Iterable[str]]:
        """Return the columns of names, labels and ids by name, without those that the file lacks."""
        columns = {NAME: map(_row_name, self.rows), LABEL: self.labels, ID: self.ids}
        return {column: values for column, values in columns.items() if values is not None}


def _row_name(texts: tuple[str, ...]) -> str:
    """Return the text or the two texts of a row on one line, shortened to ``NAME_CHARACTERS`` without separator."""
    max_characters = NAME_CHARACTERS // len(texts)
    lines = [storable(" ".join(text.split())) for text in texts]
    return PAIR_SEPARATOR.join(
        line if len(line) <= max_characters else f"{line[: max_characters - 1]}…" for line in lines
    )


def load_texts(
    path: Path, filename: str, config: EncodingConfig, quoting: Quoting | None = None, ids: str | None = None
) -> Texts:
    """Return the nonempty texts of a file, or a seeded sample of ``config.max_rows`` of them.

    ``ids`` names the column of row ids. Raises InvalidError if the file cannot be read, lacks a column, or has no text
    in the chosen columns.
    """
    annotations = [column for column in (config.label_column, config.score_column, ids) if column]
    names = list(dict.fromkeys([*config.text_columns, *annotations]))
    columns = read_columns(path, filename, names, Role.TEXTS, quoting)
    text_rows = list(zip(*(columns[name] for name in config.text_columns), strict=True))
    required = [column for column in (*config.text_columns, config.score_column) if column]
    cell_rows = zip(*(columns[name] for name in required), strict=True)
    is_filled = [all(cell is not None and str(cell).strip() for cell in cells) for cells in cell_rows]
    filled_rows = np.flatnonzero(is_filled)
    if not len(filled_rows):
        required_columns = " and ".join(map(quote, required))
        raise InvalidError(
            f"None of the {len(text_rows):,} rows of {filename} has text in {required_columns}: choose another column.",
            "text_columns",
        )
    selected_rows = filled_rows
    if config.max_rows is not None and config.max_rows < len(filled_rows):
        selected_rows = np.sort(np.random.default_rng(config.seed).choice(filled_rows, config.max_rows, replace=False))
    labels = None
    if config.label_column:
        cells = [columns[config.label_column][i] for i in selected_rows]
        labels = ["" if cell is None else storable(label_text(cell)) for cell in cells]
    n_empty = len(text_rows) - len(filled_rows)
    if config.score_column:
        scores = columns[config.score_column]
        return _texts_of_pairs([(int(i), text_rows[i], float(str(scores[i]))) for i in selected_rows], n_empty)
    return Texts(
        rows=[tuple(str(text) for text in text_rows[i]) for i in selected_rows],
        row_numbers=[int(i) + 1 for i in selected_rows],
        labels=labels,
        ids=None if ids is None else [cell_text(columns[ids][i]) for i in selected_rows],
        n_empty=n_empty,
    )


def _texts_of_pairs(scored_rows: Iterable[tuple[int, Sequence[Any], float]], n_empty: int) -> Texts:
    """Return the distinct texts of scored rows (index in the file, cells of two texts, score); ids count from 0."""
    row_number_by_text: dict[str, int] = {}
    pairs = []
    for file_index, cells, score in scored_rows:
        first, second = map(str, cells)
        for text in (first, second):
            row_number_by_text.setdefault(text, file_index + 1)
        pairs.append((first, second, score))
    id_by_text = {text: str(index) for index, text in enumerate(row_number_by_text)}
    return Texts(
        rows=[(text,) for text in row_number_by_text],
        row_numbers=[*row_number_by_text.values()],
        labels=None,
        ids=[*id_by_text.values()],
        n_empty=n_empty,
        pairs=[ScoredPair(id_by_text[first], id_by_text[second], score) for first, second, score in pairs],
    )


class LayerPooling(NamedTuple):
    """A layer, 0 being the embedding layer, and how its tokens are pooled."""

    layer: int
    pooling: Pooling


class EncodedTexts(NamedTuple):
    """The vectors of all layers and poolings."""

    layer_poolings: list[LayerPooling]
    vectors: NDArray[np.float32]  # [layers and poolings, texts, d]
    depth: int
    """Layers of the model, without the embedding layer."""
    batch_size: int
    """The batch size used in the end, halved if memory ran out."""


@dataclass(frozen=True)
class Encoder:
    """A model with its tokenizer and the configuration of an encoding."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    config: EncodingConfig
    max_length: int

    def encode(self, texts: Texts, folder: Path, advance: Callable[[int], None]) -> EncodedTexts:
        """Return the vectors of ``texts``, stored in ``folder``; call ``advance`` with the number encoded so far.

        The longest texts come first: padding is small, and a batch that is too large fails at once. If memory runs out,
        the batch size is halved once. Raises InvalidError if a text has no token, or the model gives NaN or infinity.
        """
        # Sort by characters, because tokenizing all texts at once would take many times their memory.
        order = np.argsort([-sum(map(len, row)) for row in texts.rows], kind="stable")
        encoded: EncodedTexts | None = None
        batch_size, done = self.config.batch_size, 0
        with evaluation_mode(self.model):
            while done < len(texts):
                batch = order[done : done + batch_size]
                try:
                    depth, pooled = self._pool_layers(texts, batch)
                except Exception as error:
                    if batch_size < self.config.batch_size or batch_size == 1 or not is_out_of_memory(error):
                        raise
                    batch_size //= 2
                    logger.warning(
                        "A batch of %s texts did not fit into memory; continuing with %s.", 2 * batch_size, batch_size
                    )
                    continue
                encoded = encoded or self._allocate(depth, pooled, len(texts), folder)
                for i, (layer_pooling, vectors) in enumerate(pooled.items()):
                    is_finite = torch.isfinite(vectors).all(dim=1).numpy()
                    if not is_finite.all():
                        row_number = texts.row_numbers[batch[~is_finite][0]]
                        raise InvalidError(
                            f"{self.config.model!r} gives NaN or infinity for row {row_number} at layer "
                            f"{layer_pooling.layer}. Its weights may be damaged; choose another model.",
                            "model",
                        )
                    encoded.vectors[i, batch] = vectors.numpy()
                done += len(batch)
                advance(done)
        if encoded is None:
            raise InvalidError("Expected at least one text to encode, got none.", "text_columns")
        return encoded._replace(batch_size=batch_size)

    def _pool_layers(self, texts: Texts, batch: NDArray[np.int64]) -> tuple[int, dict[LayerPooling, Tensor]]:
        """Return the number of the last layer, and the vectors [batch, d] of each layer and pooling, on the CPU."""
        states, mask = self._forward(texts, batch)
        depth = len(states) - 1
        layers = list(range(len(states))) if self.config.layers is None else self.config.layers
        if layers[-1] > depth:
            raise InvalidError(f"{self.config.model!r} has layers 0 to {depth}, got {layers[-1]}.", "layers")
        return depth, {
            LayerPooling(layer, pooling): pool(states[layer], mask, pooling).cpu()
            for layer in layers
            for pooling in self.config.poolings
        }

    def _forward(self, texts: Texts, batch: NDArray[np.int64]) -> tuple[Sequence[Tensor], Tensor]:
        """Return the 1 + L hidden states [batch, tokens, d] and the mask [batch, tokens]."""
        columns = [list(column) for column in zip(*(texts.rows[i] for i in batch), strict=True)]
        tokens = self.tokenizer(*columns, truncation=True, max_length=self.max_length, return_attention_mask=True)
        for i, ids in zip(batch, tokens["input_ids"], strict=True):
            if not ids:
                raise InvalidError(
                    f"Row {texts.row_numbers[i]} has no token that {self.config.model!r} knows, so it has no vector. "
                    "Leave that row out of the file.",
                    "text_columns",
                )
        inputs = self.tokenizer.pad(tokens, return_tensors="pt", return_attention_mask=True).to(self.model.device)
        # Some models accept no mask, but every pooling needs it.
        arguments = {name: inputs[name] for name in self.tokenizer.model_input_names if name in inputs}
        return hidden_states_of(self.model(**arguments, output_hidden_states=True)), inputs["attention_mask"]

    def _allocate(self, depth: int, pooled: Mapping[LayerPooling, Tensor], n: int, folder: Path) -> EncodedTexts:
        """Return encoded texts whose array for all vectors is mapped to an unnamed file in ``folder``.

        The disk space is freed when the array or the process ends, even by a kill. Raises InvalidError if layers differ
        in width, or the vectors exceed the limit of an encoding or the free disk space.
        """
        widths = sorted({vectors.shape[-1] for vectors in pooled.values()})
        if len(widths) > 1:
            raise InvalidError(
                f"The layers differ in width: {widths[0]:,} and {widths[-1]:,} dimensions. Encode them separately.",
                "layers",
            )
        shape = len(pooled), n, widths[0]
        size_bytes = math.prod(shape) * FLOAT_BYTES
        require_within_limits(len(pooled), size_bytes)
        # Twice the size, because storing copies the vectors, perhaps to the same disk. Check it now, because writing a
        # mapped file to a full disk kills the process.
        if (free := shutil.disk_usage(folder).free) < 2 * size_bytes:
            raise InvalidError(
                f"The disk of this worker has {free / 1e9:,.1f} GB left, and the vectors need "
                f"{2 * size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows, or make room.",
                "layers",
            )
        with TemporaryFile(dir=folder) as file:  # the map keeps its own descriptor
            vectors = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        return EncodedTexts(list(pooled), vectors, depth, self.config.batch_size)


def load_model(source: ModelSource, name: str, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model on ``device`` and its tokenizer.

    Raises InvalidError if either cannot be loaded, or the model has a decoder beside its encoder or lacks weights.
    """
    tokenizer = load_tokenizer(source, name)
    # In models that count positions from the left of the batch, padding there would shift the text.
    tokenizer.padding_side = "right"
    model, report = load_pretrained(AutoModel, source, name, "to encode texts")
    if model.config.is_encoder_decoder:
        raise InvalidError(NOT_ONE_SEQUENCE, "model")
    require_weights(sorted(key for key in report["missing_keys"] if not key.startswith(UNUSED_WEIGHTS)), name)
    match_tokenizer_to_model(model, tokenizer)
    return model.to(device), tokenizer  # type: ignore[arg-type]


def encode_with_provenance(text: str, provenance: Mapping[str, Any], settings: Settings) -> Tensor:
    """Encode a text on the CPU as the embedding with this ``provenance`` was; return its vector [d].

    Raises InvalidError if the model is gone or its weights have changed, or if the text has no token.
    """
    silence_libraries()
    name = provenance["model"]
    source = find_source(name, settings, provenance["revision"])
    if source.weights_sha256 != provenance["weights_sha256"]:
        raise InvalidError(
            f"The weights of {name!r} are not those that encoded these rows, so the vectors would not be comparable. "
            "Encode the texts again.",
            "text",
        )
    config = EncodingConfig(
        model=name,
        text_columns=provenance["text_columns"],
        poolings=[provenance["pooling"]],
        layers=[provenance["layer"]],
        max_length=provenance["max_length"],
    )
    model, tokenizer = load_model(source, name, torch.device("cpu"))
    encoder = Encoder(model, tokenizer, config, provenance["max_length"])
    texts = Texts(rows=[(text,)], row_numbers=[1], labels=None, ids=None, n_empty=0)
    encoded = encoder.encode(texts, settings.root, advance=lambda _: None)
    return torch.from_numpy(encoded.vectors[0, 0].copy())
