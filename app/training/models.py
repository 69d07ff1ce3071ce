"""Models that a fine-tune can start from."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.core.process import BUNDLED_MODEL, bundled_folder
from app.core.settings import Settings
from app.core.training_cost import ModelSize
from isoscope.core.errors import InvalidError, IsoscopeError
from isoscope.files.safetensors import read_safetensors

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
HUB_TIMEOUT_SECONDS = 5
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")
POSITION_KEYS = ("max_position_embeddings", "n_positions")
EMBEDDING_NAME = re.compile(r"embed|\bw[tp]e\b|lm_head")


class ModelChoice(NamedTuple):
    """A model that is on this machine."""

    name: str
    description: str
    layers: int | None
    width: int | None = None
    """Dimensions of a hidden state."""


def list_models(settings: Settings) -> list[ModelChoice]:
    folders = [(BUNDLED_MODEL, "22 million parameters, 384 dimensions; no download", bundled_folder())]
    if settings.models.is_dir():
        local_folders = sorted(path.parent for path in settings.models.glob("*/config.json"))
        folders += [(folder.name, "models directory", folder) for folder in local_folders]
    choices = []
    for name, description, folder in folders:
        config = _read_config(folder)
        layers, width = _first_number(config, DEPTH_KEYS), _first_number(config, WIDTH_KEYS)
        choices.append(ModelChoice(name, description, layers, width))
    return choices


def require_model(settings: Settings, name: str, *, ask_hub: bool = True) -> ModelChoice:
    """Return a model by name, or raise InvalidError. Without ``ask_hub``, any possible Hub name passes."""
    local_models = {choice.name: choice for choice in list_models(settings)}
    if name in local_models:
        return local_models[name]
    offered = ", ".join(local_models)
    invalid_name = InvalidError(
        f"Expected one of {offered}, or a Hub name such as google-bert/bert-base-cased, got {name!r}.", "model"
    )
    if HUB_NAME.fullmatch(name) is None:
        raise invalid_name
    if not ask_hub:
        return ModelChoice(name, "Hub", None)
    # Imported here because it takes longer than starting the rest of the web process.
    from httpx2 import TransportError  # noqa: PLC0415
    from huggingface_hub import HfApi  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    try:
        model_info = HfApi().model_info(name, timeout=HUB_TIMEOUT_SECONDS)
    except HFValidationError as error:
        raise invalid_name from error
    except (HfHubHTTPError, OSError, TransportError) as error:
        sentence = (
            f"There is no model {name!r} on this machine, and the Hub cannot be reached to look for it. "
            f"Models here: {offered}. To add one, put its folder into the models directory."
        )
        response = error.response if isinstance(error, HfHubHTTPError) else None
        if response is not None and response.status_code in (401, 403, 404):
            sentence = f"There is no model {name!r} here, and no public one on the Hub. Models here: {offered}."
        raise InvalidError(sentence, "model") from error
    if not any(file.rfilename.endswith(".safetensors") for file in model_info.siblings or []):
        raise InvalidError(
            f"The Hub's {name!r} has no safetensors weights; pickled weights are not loaded. "
            "Choose another model, or convert it and put it into the models directory.",
            "model",
        )
    return ModelChoice(name, "Hub", None)


def _read_config(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _first_number(config: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), None)


def find_model_folder(settings: Settings, name: str) -> Path | None:
    """Return a model's folder on this machine, which may be in the Hub's cache; None if there is none."""
    if name == BUNDLED_MODEL:
        return bundled_folder()
    if name in {choice.name for choice in list_models(settings)}:
        return settings.models / name
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - takes a quarter of a second
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    try:
        config = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def read_model_size(folder: Path) -> ModelSize | None:
    """Return the size of a model; None if its configuration or weights cannot be read."""
    config = _read_config(folder)
    layers, width = _first_number(config, DEPTH_KEYS), _first_number(config, WIDTH_KEYS)
    if layers is None or width is None:
        return None
    try:
        arrays = [array for path in folder.glob("*.safetensors") for array in read_safetensors(path)]
    except (OSError, IsoscopeError):
        return None
    matrices = [array for array in arrays if len(array.shape) == 2 and not EMBEDDING_NAME.search(array.name)]
    # ALBERT's layers share their weights in groups, so each stored matrix serves several layers.
    n_groups = _first_number(config, ("num_hidden_groups",))
    layers_per_matrix = layers // n_groups if n_groups else 1
    return ModelSize(
        layers=layers,
        width=width,
        parameters=sum(math.prod(array.shape) for array in arrays),
        matrix_weights=layers_per_matrix * sum(math.prod(array.shape) for array in matrices),
        positions=_first_number(config, POSITION_KEYS),
    )
