"""The page that asks for the access token where one is needed."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from app.security import SESSION_KEY, Gate
from app.templating import templates
from isoscope.core.errors import InvalidError

router = APIRouter(include_in_schema=False)


@router.get("/login")
def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 - the name in the URL
    """Ask for the token."""
    return templates.TemplateResponse(request, "login.html", {"next": next, "problem": None})


@router.post("/login")
async def create_login(
    request: Request,
    token: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "/",  # noqa: A002
) -> Response:
    """Compare the token and, if it is right, remember that in a signed cookie."""
    gate: Gate = request.app.state.gate
    if not gate.accepts(token):
        problem = InvalidError(
            "That is not the access token. It is the value of ISOSCOPE_ACCESS_TOKEN on the server.", "token"
        )
        shown = {"next": next, "problem": problem}
        wrong = templates.TemplateResponse(request, "login.html", shown, status_code=401)
        return await gate.slowed(request, wrong)
    request.session[SESSION_KEY] = True
    return RedirectResponse(next if _is_local(next) else "/", 303)


@router.post("/logout")
def delete_login(request: Request) -> Response:
    """Forget in the cookie that the token was shown."""
    if "session" in request.scope:  # there is none where no token is asked for
        request.session.clear()
    return RedirectResponse("/login", 303)


def _is_local(target: str) -> bool:
    """Whether a redirect to ``target`` stays on this server."""
    return target.startswith("/") and not target.startswith(("//", "/\\"))
