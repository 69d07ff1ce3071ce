"""Routes of the buttons that launch a sample again."""

from fastapi import APIRouter, Response

from app.operations.samples import launch_sample_encoding, launch_sample_sweep
from app.web.dependencies import ContextDep
from app.web.responses import redirect_to

router = APIRouter(prefix="/samples")


@router.post("/sweep")
def launch_sweep(context: ContextDep) -> Response:
    return redirect_to(f"/experiments/{launch_sample_sweep(context).id}")


@router.post("/embedding")
def launch_encoding(context: ContextDep) -> Response:
    return redirect_to(f"/encodings/{launch_sample_encoding(context).id}")
