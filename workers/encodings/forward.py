"""Texts through a model in batches: of each chosen layer a vector for each text, kept on the disk."""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from app.core.settings import Settings
from app.db.encoding import FLOAT_BYTES, EncodingConfig, require_sensible
from app.db.models import Pooling
from isoscope.core.errors import InvalidError
from isoscope.hidden_states import NOT_ONE_SEQUENCE, hidden_states_of, looking_at
from workers.encodings.texts import Texts
from workers.failure import out_of_memory
from workers.models import (
    Source,
    be_quiet,
    find_source,
    fit_together,
    load_tokenizer,
    load_weights,
    pool,
    require_weights,
)


def room_for(matrices: int, n: int, d: int, folder: Path) -> NDArray[np.float32]:
    """Return an array [matrices, n, d] mapped into memory from a file in ``folder`` that has no name.

    The disk has its room back when the array goes, or the process, however it ends.

    Raises:
        InvalidError: they are more than an encoding may make, or than the disk has room for.

    """
    size_bytes = matrices * n * d * FLOAT_BYTES
    require_sensible(matrices, size_bytes)
    _require_room(folder, size_bytes)
    with TemporaryFile(dir=folder) as file:  # the map keeps a descriptor of its own
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(matrices, n, d))


def _require_room(folder: Path, size_bytes: int) -> None:
    """Refuse what the disk has no room for: a mapped file would end the process."""
    # They lie there twice while they are put into the storage, if that is on the same disk.
    if (free := shutil.disk_usage(folder).free) < 2 * size_bytes:
        raise InvalidError(
            f"The disk of this worker has {free / 1e9:,.1f} GB left, and the vectors need "
            f"{2 * size_bytes / 1e9:,.1f} GB. Choose fewer layers, poolings or rows, or make room.",
            "layers",
        )


logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where vectors come from: a layer, 0 being the embedding layer, and how its tokens are pooled."""

    layer: int
    pooling: Pooling


class Encoded(NamedTuple):
    """The vectors of all places, in the order of the texts."""

    places: list[Place]
    vectors: NDArray[np.float32]
    """[places, texts, d], on the disk."""
    depth: int
    """Layers of the model, the embedding layer not counted."""
    batch_size: int
    """With which it went through in the end."""


class Encoder:
    """A model with its tokenizer, and what is wanted of it."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, config: EncodingConfig, max_length: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.config = config
        self.max_length = max_length

    def encode(self, texts: Texts, folder: Path, advance: Callable[[int], None]) -> Encoded:
        """Return the vectors of ``texts``, kept in ``folder``; ``advance`` hears how many are done.

        The longest come first: there is little padding, and too large a batch fails at once. Where memory runs out
        the batch is halved, once.

        Raises:
            InvalidError: a text has no token, the model gives NaN or infinity, or lacks a layer.

        """
        # By characters, not by tokens, which for all texts at once would take many times their memory.
        order = np.argsort([-sum(map(len, row)) for row in texts.rows], kind="stable")
        encoded: Encoded | None = None
        size, done = self.config.batch_size, 0
        with looking_at(self.model):
            while done < len(texts):
                chosen = order[done : done + size]
                try:
                    depth, pooled = self._pooled(texts, chosen)
                except Exception as error:
                    if size < self.config.batch_size or size == 1 or not out_of_memory(error):
                        raise
                    size //= 2
                    logger.warning("A batch of %s texts did not fit into memory; going on with %s.", 2 * size, size)
                    continue
                encoded = encoded or self._room(depth, pooled, len(texts), folder)
                self._keep(encoded, pooled, texts, chosen)
                done += len(chosen)
                advance(done)
        if encoded is None:
            raise InvalidError("Expected at least one text to encode, got none.", "text_columns")
        return encoded._replace(batch_size=size)

    def _pooled(self, texts: Texts, chosen: NDArray[np.int64]) -> tuple[int, dict[Place, Tensor]]:
        """Return the number of the last layer, and of each place the vectors [batch, d], on the CPU."""
        states, mask = self._forward(texts, chosen)
        last = len(states) - 1
        layers = list(range(len(states))) if self.config.layers is None else self.config.layers
        if layers[-1] > last:
            raise InvalidError(
                f"Expected layers from 0 to {last}, which {self.config.model!r} has, got {layers[-1]}.", "layers"
            )
        places = [Place(layer, pooling) for layer in layers for pooling in self.config.poolings]
        return last, {place: pool(states[place.layer], mask, place.pooling).cpu() for place in places}

    def _forward(self, texts: Texts, chosen: NDArray[np.int64]) -> tuple[Sequence[Tensor], Tensor]:
        """Return 1 + L tensors [batch, tokens, d] and the mask [batch, tokens]."""
        columns = [list(column) for column in zip(*(texts.rows[i] for i in chosen), strict=True)]
        tokens = self.tokenizer(*columns, truncation=True, max_length=self.max_length, return_attention_mask=True)
        for i, ids in zip(chosen, tokens["input_ids"], strict=True):
            if not ids:
                raise InvalidError(
                    f"Row {texts.numbers[i]} has no token that {self.config.model!r} knows, so it has no vector. Leave "
                    "that row out of the file.",
                    "text_columns",
                )
        batch = self.tokenizer.pad(tokens, return_tensors="pt", return_attention_mask=True).to(self.model.device)
        # Not every model takes the mask, and every pooling needs it.
        taken = {name: batch[name] for name in self.tokenizer.model_input_names if name in batch}
        states = hidden_states_of(self.model(**taken, output_hidden_states=True))
        return states, batch["attention_mask"]

    def _room(self, depth: int, pooled: Mapping[Place, Tensor], n: int, folder: Path) -> Encoded:
        """Return room for the vectors of all places, now that their width is known."""
        widths = sorted({vectors.shape[-1] for vectors in pooled.values()})
        if len(widths) > 1:
            raise InvalidError(
                f"Expected layers of one width, got layers of {widths[0]:,} and of {widths[-1]:,} dimensions. Encode "
                "them apart.",
                "layers",
            )
        return Encoded(list(pooled), room_for(len(pooled), n, widths[0], folder), depth, self.config.batch_size)

    def _keep(self, encoded: Encoded, pooled: Mapping[Place, Tensor], texts: Texts, chosen: NDArray[np.int64]) -> None:
        """Write the vectors of a batch into the rows of its texts."""
        for number, (place, vectors) in enumerate(pooled.items()):
            finite = torch.isfinite(vectors).all(dim=1).numpy()
            if not finite.all():
                raise InvalidError(
                    f"{self.config.model!r} gives NaN or infinity for row {texts.numbers[chosen[~finite][0]]} at layer "
                    f"{place.layer}. Its weights may be damaged; choose another model.",
                    "model",
                )
            encoded.vectors[number, chosen] = vectors.numpy()


# On top of the last layer, whose states do not depend on it; many checkpoints lack it.
UNSEEN = "pooler."


def load_model(source: Source, name: str, device: torch.device) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model on ``device`` and its tokenizer.

    Raises:
        InvalidError: it cannot be loaded, has an encoder and a decoder, or its files lack some of its weights.

    """
    tokenizer = load_tokenizer(source, name)
    # A model without positions of its own for each row counts from the left: padding there would shift the text.
    tokenizer.padding_side = "right"
    lacking: list[str] = []

    def load() -> PreTrainedModel:
        model: PreTrainedModel
        model, report = AutoModel.from_pretrained(
            source.folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        lacking.extend(sorted(key for key in report["missing_keys"] if not key.startswith(UNSEEN)))
        return model

    model = load_weights(load, name, "to encode texts")
    if model.config.is_encoder_decoder:
        raise InvalidError(NOT_ONE_SEQUENCE, "model")
    require_weights(lacking, name)
    fit_together(model, tokenizer)
    return model.to(device), tokenizer  # type: ignore[arg-type]


def encode_alike(text: str, provenance: Mapping[str, Any], settings: Settings) -> Tensor:
    """Return the vector [d] of a text, on the CPU; ``provenance`` is that of an embedding that was encoded here.

    Raises:
        InvalidError: the model is gone, or is not the one that encoded the rows; or the text has no token.

    """
    be_quiet()
    name = provenance["model"]
    source = find_source(name, settings, provenance["revision"])
    if source.weights_sha256() != provenance["weights_sha256"]:
        raise InvalidError(
            f"The weights of {name!r} are not those that encoded these rows, so vectors would not compare. Encode the "
            "texts again.",
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
    encoded = encoder.encode(Texts([(text,)], [1], None, None, 0), settings.root, lambda _: None)
    return torch.from_numpy(encoded.vectors[0, 0].copy())
