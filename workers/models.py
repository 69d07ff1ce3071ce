"""Models and tokenizers by name, the device and environment they run on, one vector for each text."""

import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import datasets
import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from app.core.process import BUNDLED, bundled_folder
from app.core.settings import Settings
from app.db.models import Pooling
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.hidden_states import hidden_states_of, looking_at, mean_of_tokens


def choose_device(device: str) -> None:
    """Hide all other GPUs from this process: the Trainer would spread each batch over them."""
    if device.startswith("cuda"):
        number = torch.device(device).index or 0
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number] if visible else str(number)


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


# Weights as safetensors, configuration, vocabularies: never code, never pickles.
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are on this machine."""

    folder: Path
    revision: str | None
    """Commit on the Hub; null for a model that did not come from there."""

    def weights_sha256(self) -> dict[str, str]:
        hashes = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as file:
                hashes[path.name] = file_digest(file, "sha256").hexdigest()
        return hashes


def find_source(name: str, settings: Settings, revision: str | None = None) -> ModelSource:
    """Find a model by name: the bundled one, a folder of the models directory, or a Hub name, in this order.

    A Hub model is downloaded as it is now, or as it was at ``revision``.
    """
    folder = bundled_folder() if name == BUNDLED else None
    # Whatever has a slash in it, or is "..", may lead out of the models directory.
    plain = name not in ("", ".", "..") and Path(name).name == name
    if name != BUNDLED and plain and (settings.models / name / "config.json").is_file():
        folder = settings.models / name
    if folder is None:
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=HUB_FILES))
        except HFValidationError as error:
            raise NotFoundError(f"There is no model {name!r}, and it cannot be a Hub name either.", "model") from error
        except LocalEntryNotFoundError as error:
            raise NotFoundError(
                f"There is no model {name!r} on this machine, and the Hub cannot be reached to fetch it. "
                f"Choose {BUNDLED}, or put the model into the models directory, a folder with its name.",
                "model",
            ) from error
        except HfHubHTTPError as error:
            raise NotFoundError(
                f"There is no model {name!r} on this machine, and the Hub refuses it: {one_line(error)}", "model"
            ) from error
        source = ModelSource(folder, folder.name)
    else:
        source = ModelSource(folder, None)
    if not any(source.folder.glob("*.safetensors")):
        raise InvalidError(
            f"The model {name!r} has no weights as safetensors; pickled weights are never loaded. Convert it with "
            "save_pretrained() of a current transformers, or choose another.",
            "model",
        )
    return source


def load_tokenizer(source: ModelSource, name: str) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model; it has a token to pad with."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source.folder, trust_remote_code=False)
    except Exception as error:
        raise InvalidError(
            f"The model {name!r} has no tokenizer that can be loaded: {one_line(error)}", "model"
        ) from error
    # Without its files transformers makes a tokenizer that knows no word at all.
    if not any((source.folder / file).is_file() for file in tokenizer.vocab_files_names.values()):
        raise InvalidError(
            f"The model {name!r} has no tokenizer: expected one of {', '.join(tokenizer.vocab_files_names.values())} "
            "in its folder. Save the tokenizer there with save_pretrained().",
            "model",
        )
    if tokenizer.pad_token is None:
        # Models that only ever generated text, as GPT-2, have none; masked out, any token will do.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise InvalidError(
            f"The tokenizer of {name!r} has no token to pad with; give it a pad_token and save it again.", "model"
        )
    return tokenizer


def load_weights(
    auto_class: Any, source: ModelSource, name: str, purpose: str, **options: Any
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Return a model in full precision, whatever its weights were saved in, and what transformers reports of them."""
    try:
        model, report = auto_class.from_pretrained(
            source.folder,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    except Exception as error:
        raise InvalidError(f"The model {name!r} cannot be loaded {purpose}: {one_line(error)}", "model") from error
    return model, report


def require_weights(lacking: Sequence[str], name: str) -> None:
    """Refuse a model whose files lack some of its weights, which transformers draws at random."""
    if lacking:
        raise InvalidError(
            f"The files of {name!r} lack {len(lacking):,} of its weights, such as {lacking[0]}, which would be drawn "
            "at random. Save the whole model with save_pretrained(), or choose another.",
            "model",
        )


def fit_together(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the model its tokenizer's padding, and have the tokenizer make only what the model takes."""
    model.config.pad_token_id = tokenizer.pad_token_id
    # A tokenizer saved without its class makes columns that some models do not take.
    accepted = set(signature(model.forward).parameters)
    if getattr(model.config, "type_vocab_size", 0) < 2:
        # RoBERTa knows one type only, and GPT-2 would take a type for a word.
        accepted.discard("token_type_ids")
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in accepted]


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int) -> int:
    """Return the number of tokens to cut texts at: ``max_length``, but no more than the model can take."""
    positions: int | None = getattr(model.config, "max_position_embeddings", None)
    if positions is None or positions < 1:  # it states no number; XLNet says -1
        return int(min(max_length, tokenizer.model_max_length))
    for name, module in model.named_modules():
        # Models such as RoBERTa count from behind the number of their padding.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= int(module.padding_idx) + 1
            break
    return int(min(max_length, tokenizer.model_max_length, positions or max_length))


def be_quiet() -> None:
    """Keep progress bars and advice out of the worker's log; what matters is in the row."""
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


PACKAGES = ("accelerate", "datasets", "numpy", "scikit-learn", "tokenizers", "torch", "transformers")


def describe_environment(source: ModelSource, device: torch.device, max_length: int) -> dict[str, Any]:
    """Return versions, hashes and the device, as stored in the row."""
    return {
        "model": {"revision": source.revision, "weights_sha256": source.weights_sha256()},
        "max_length": max_length,
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def pool(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """Return a vector for each text: that of its first token, the mean, or that of its last token.

    Padding counts nowhere, whether it stands before the tokens or behind them; special tokens are tokens.

    Args:
        states: [batch, tokens, d].
        attention_mask: [batch, tokens], zero where a token is padding; no text is all padding.
        pooling: which of the three.

    Returns:
        [batch, d].

    """
    if pooling is Pooling.MEAN:
        return mean_of_tokens(states, attention_mask)
    real = attention_mask.bool()
    if pooling is Pooling.FIRST:
        positions = real.int().argmax(dim=1)
    else:
        positions = real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), positions]


def sentence_pooling(model: PreTrainedModel) -> Pooling:
    """Return how a model pools the vector that stands for a text, which its head for classification reads.

    The mean where the model's configuration says so; else the last token of a causal model, whose first knows nothing
    of the others, and the first token of an encoder. The same where the head, as that for spans, reads every token.
    """
    config = model.config.get_text_config()
    if getattr(config, "classifier_pooling", None) in ("mean", "late"):
        return Pooling.MEAN
    if getattr(config, "summary_type", None) == "last":
        return Pooling.LAST
    # No single setting says that a model is causal: that a first token's state ignores the second.
    first_id, changed = [token for token in range(3) if token != config.pad_token_id][:2]
    ids = torch.tensor([[first_id, first_id], [first_id, changed]], device=model.device)
    with looking_at(model):
        states = hidden_states_of(model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True))
    first = states[-1][:, 0]
    return Pooling.LAST if torch.allclose(first[0], first[1]) else Pooling.FIRST
