"""The settings of the papers over the API."""

from fastapi import APIRouter

from app.routes.api.schemas.presets import PresetOut
from app.services.presets import PRESETS

router = APIRouter(prefix="/presets", tags=["experiments"])


@router.get("")
def list_presets() -> list[PresetOut]:
    """The settings of both papers by stage. Name, data set, columns, task and model are to be added."""
    return [PresetOut.model_validate({"slug": slug} | preset._asdict()) for slug, preset in PRESETS.items()]
