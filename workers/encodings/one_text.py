"""A new text encoded as the rows of an embedding were: by the same model, layer, pooling and length."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from app.core.settings import Settings
from app.db.encoding import EncodingConfig
from isoscope.core.errors import InvalidError
from workers.encodings.forward import Encoder, load_model
from workers.encodings.texts import Texts
from workers.models import be_quiet, find_source


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
