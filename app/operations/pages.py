"""The page of access tokens and activity, and the buttons that launch a sample again."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.context import PAGE_ROWS, Context, read_page
from app.db.models import AccessScope
from app.operations.samples import launch_sample_encoding, launch_sample_sweep
from app.web.activity import list_activity, note_change
from app.web.dependencies import ContextDep, FormDep, PageNumber
from app.web.responses import redirect_to, render
from app.web.tokens import create_token, list_tokens, parse_token_request, revoke_token
from isoscope.core.errors import InvalidError

router = APIRouter(prefix="/samples")


@router.post("/sweep")
def launch_sweep(context: ContextDep) -> Response:
    return redirect_to(f"/experiments/{launch_sample_sweep(context).id}")


@router.post("/embedding")
def launch_encoding(context: ContextDep) -> Response:
    return redirect_to(f"/encodings/{launch_sample_encoding(context).id}")


access_router = APIRouter()


@access_router.get("/access")
def show_access(request: Request, context: ContextDep, page: PageNumber = 1) -> Response:
    return _render_access(request, context, page)


@access_router.post("/tokens")
def create_access_token(request: Request, context: ContextDep, form: FormDep) -> Response:
    """Show the page with the secret of the new token, which is shown only once."""
    fields = {name: str(text) for name, text in form.items() if text}
    try:
        token, secret = create_token(context, parse_token_request(fields))
    except InvalidError as error:
        return _render_access(request, context, problem=error, fields=fields)
    note_change("create access token", f"/tokens/{token.id}", token.name)
    return _render_access(request, context, new_token=token, secret=secret)


@access_router.post("/tokens/{token_id}/delete")
def revoke_access_token(context: ContextDep, token_id: str) -> Response:
    revoke_token(context, token_id)
    return redirect_to("/access")


def _render_access(
    request: Request, context: Context, page: int = 1, problem: InvalidError | None = None, **values: Any
) -> Response:
    activity, page, pages = read_page(lambda offset: list_activity(context, PAGE_ROWS, offset), page)
    values = {"fields": {}, "new_token": None, "scopes": list(AccessScope)} | values
    values |= {"tokens": list_tokens(context), "activity": activity.rows, "page": page, "pages": pages}
    return render(request, "operations/access.html", values, problem, headers={"Cache-Control": "no-store"})
