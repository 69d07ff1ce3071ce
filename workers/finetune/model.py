"""The model and tokenizer that a run starts from, by name."""

from dataclasses import dataclass
from hashlib import file_digest
from inspect import signature
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    set_seed,
)

from app.bundled import BUNDLED, bundled_folder
from app.db.config import RunConfig
from app.errors import InvalidError, NotFoundError
from app.settings import Settings

# Weights as safetensors, configuration, vocabularies: never code, never pickles.
HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


@dataclass(frozen=True)
class Source:
    """Where a model's files are on this machine."""

    folder: Path
    revision: str | None
    """Commit on the Hub; null for a model that did not come from there."""

    def weights_sha256(self) -> dict[str, str]:
        """Return the hash of each file of weights."""
        return {path.name: _sha256(path) for path in sorted(self.folder.glob("*.safetensors"))}


def find_source(name: str, settings: Settings, revision: str | None = None) -> Source:
    """Find a model by name: the bundled one, a folder of the models directory, or a Hub name, in this order.

    A Hub model is downloaded as it is now, or as it was at ``revision``.
    """
    folder = bundled_folder() if name == BUNDLED else _local_folder(name, settings)
    source = _download(name, revision) if folder is None else Source(folder, None)
    if not any(source.folder.glob("*.safetensors")):
        raise InvalidError(
            f"The model {name!r} has no weights as safetensors; pickled weights are never loaded. Convert it with "
            "save_pretrained() of a current transformers, or choose another.",
            "model",
        )
    return source


def load_model(source: Source, config: RunConfig) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the pretrained model with a new classification head, drawn by the run's seed, and its tokenizer."""
    tokenizer = _load_tokenizer(source, config.model)
    set_seed(config.seed)
    try:
        model: PreTrainedModel = AutoModelForSequenceClassification.from_pretrained(
            source.folder,
            num_labels=len(config.label_names),
            id2label=dict(enumerate(config.label_names)),
            label2id={name: number for number, name in enumerate(config.label_names)},
            # Never guessed from the labels: int8 ones would make it a multi-label task.
            problem_type="single_label_classification",
            # Trained in full precision, whatever the weights were saved in.
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except Exception as error:
        raise InvalidError(
            f"The model {config.model!r} cannot be loaded for classification: {_one_line(error)}", "model"
        ) from error
    model.config.pad_token_id = tokenizer.pad_token_id
    # A tokenizer saved without its class makes columns that some models do not take.
    taken = signature(model.forward).parameters
    tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name in taken]
    _require_layers(model, config)
    return model, tokenizer


def longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, config: RunConfig) -> int:
    """Return the number of tokens to cut texts at: the configuration's, but no more than the model can take."""
    positions = getattr(model.config, "max_position_embeddings", None) or config.max_length
    return int(min(config.max_length, tokenizer.model_max_length, positions))


def _load_tokenizer(source: Source, name: str) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source.folder, trust_remote_code=False)
    except Exception as error:
        raise InvalidError(
            f"The model {name!r} has no tokenizer that can be loaded: {_one_line(error)}", "model"
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


def _require_layers(model: PreTrainedModel, config: RunConfig) -> None:
    last = model.config.get_text_config().num_hidden_layers
    if config.layers is not None and max(config.layers, default=0) > last:
        raise InvalidError(
            f"Expected layers from 1 to {last}, which {config.model!r} has, got {config.layers}.", "layers"
        )


def _local_folder(name: str, settings: Settings) -> Path | None:
    # Whatever has a slash in it, or is "..", may lead out of the models directory.
    plain = name not in ("", ".", "..") and Path(name).name == name
    folder = settings.models / name
    return folder if plain and (folder / "config.json").is_file() else None


def _download(name: str, revision: str | None) -> Source:
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
            f"There is no model {name!r} on this machine, and the Hub refuses it: {_one_line(error)}", "model"
        ) from error
    return Source(folder, folder.name)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
