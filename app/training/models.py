"""The models a fine-tune can start from."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from app.core.process import BUNDLED, bundled_folder
from app.core.settings import Settings
from isoscope.core.errors import InvalidError

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
HUB_TIMEOUT_SECONDS = 5
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")


class ModelChoice(NamedTuple):
    """A model that is on this machine."""

    name: str
    description: str
    layers: int | None
    width: int | None = None
    """Dimensions of a hidden state."""


def list_models(settings: Settings) -> list[ModelChoice]:
    """The bundled model, then the folders of the models directory that hold a configuration."""
    bundled = bundled_folder()
    choices = [
        ModelChoice(
            BUNDLED,
            "22 million parameters, 384 dimensions; no download",
            *_size(bundled),
        )
    ]
    if settings.models.is_dir():
        folders = sorted(path.parent for path in settings.models.glob("*/config.json"))
        choices += [ModelChoice(folder.name, "models directory", *_size(folder)) for folder in folders]
    return choices


def require_model(settings: Settings, name: str, *, ask_hub: bool = True) -> ModelChoice:
    """The model of that name, on this machine or on the Hub.

    Raises InvalidError where there is none, so that no run is queued that can only fail. Without ``ask_hub`` a name
    that could be the Hub's is taken for one: a form that is being filled in must not wait for the network.
    """
    here = {choice.name: choice for choice in list_models(settings)}
    if name in here:
        return here[name]
    offered = ", ".join(here)
    if HUB_NAME.fullmatch(name) is None:
        raise _no_name(name, offered)
    return _ask_the_hub(name, offered) if ask_hub else ModelChoice(name, "Hub", None)


def _ask_the_hub(name: str, offered: str) -> ModelChoice:
    # Imported here: it takes longer than all the rest of the web process's start.
    from httpx2 import TransportError  # noqa: PLC0415
    from huggingface_hub import HfApi  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    try:
        found = HfApi().model_info(name, timeout=HUB_TIMEOUT_SECONDS)
    except HFValidationError as error:
        raise _no_name(name, offered) from error
    except HfHubHTTPError as error:
        if error.response is not None and error.response.status_code in (401, 403, 404):
            raise InvalidError(
                f"There is no model {name!r} here or, openly, on the Hub. Here are: {offered}.", "model"
            ) from error
        raise _unreachable(name, offered) from error
    except (OSError, TransportError) as error:
        raise _unreachable(name, offered) from error
    if not any(file.rfilename.endswith(".safetensors") for file in found.siblings or []):
        raise InvalidError(
            f"The Hub's {name!r} has no safetensors weights; pickled weights are not loaded. "
            "Choose another model, or convert it and put it into the models directory.",
            "model",
        )
    return ModelChoice(name, "Hub", None)


def _no_name(name: str, offered: str) -> InvalidError:
    return InvalidError(
        f"Expected one of {offered}, or a Hub name such as google-bert/bert-base-cased, got {name!r}.", "model"
    )


def _unreachable(name: str, offered: str) -> InvalidError:
    return InvalidError(
        f"There is no model {name!r} on this machine, and the Hub cannot be reached to look for it. "
        f"Here are: {offered}. Further models: a folder each in the models directory.",
        "model",
    )


def _size(folder: Path | None) -> tuple[int | None, int | None]:
    """Numbers of layers and of dimensions by the model's own configuration, null where it does not say."""
    if folder is None:
        return None, None
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None, None
    if not isinstance(config, dict):
        return None, None
    layers, width = (
        next((config[key] for key in keys if isinstance(config.get(key), int)), None)
        for keys in (DEPTH_KEYS, WIDTH_KEYS)
    )
    return layers, width
