"""Responses for errors: JSON for the API, a page for browsers."""

import logging
import tempfile
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.core.settings import Settings
from app.core.space import full_disk_error, is_full, list_disks
from app.core.validation_messages import list_messages
from app.db.failures import explain_error
from app.web.templating import templates
from isoscope.core.errors import (
    AbandonedError,
    BusyError,
    ConflictError,
    FieldError,
    FullDiskError,
    InvalidError,
    IsoscopeError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    UnsupportedFormatError,
    combine_errors,
)

logger = logging.getLogger(__name__)

STATUS: dict[type[IsoscopeError], HTTPStatus] = {
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    TooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    UnsupportedFormatError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    InvalidError: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    FullDiskError: HTTPStatus.INSUFFICIENT_STORAGE,
    BusyError: HTTPStatus.TOO_MANY_REQUESTS,
    AbandonedError: HTTPStatus.REQUEST_TIMEOUT,
}
TITLES = {
    404: "Not found", 405: "Not possible here", 409: "Not now", 413: "Too large", 415: "Not read here", 429: "Busy",
    503: "Not now", 507: "No room on the disk",
}  # fmt: skip
# Default messages of FastAPI and Starlette, with their replacements.
REPLACED_MESSAGES = {
    HTTPStatus.BAD_REQUEST: (
        "There was an error parsing the body",
        "The body cannot be read: expected JSON in UTF-8, or a form with its files.",
    ),
    HTTPStatus.NOT_FOUND: (HTTPStatus.NOT_FOUND.phrase, "There is no page {path}."),
    HTTPStatus.METHOD_NOT_ALLOWED: (HTTPStatus.METHOD_NOT_ALLOWED.phrase, "{path} does not take {method}."),
}
# Parts of a request, which precede field names in the location of a pydantic error.
REQUEST_PARTS = ("body", "query", "path")


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    field: str
    detail: str


class Problem(BaseModel):
    """The body of every error response."""

    detail: str
    field: str | None = None
    errors: list[FieldProblem] = []
    """Every invalid field, in order."""


RETRY_SECONDS = 5
SQLITE_LOCKED = "database is locked"
"""SQLite's message if another writer did not finish in time."""


def to_invalid_error(errors: Sequence[Any]) -> InvalidError:
    """Convert pydantic's errors of a request to an InvalidError with a sentence per field."""
    located_errors = [error | {"loc": [part for part in error["loc"] if part not in REQUEST_PARTS]} for error in errors]
    return combine_errors(
        FieldError(next((part for part in message.path if isinstance(part, str)), None), message.sentence)
        for message in list_messages(located_errors)
    )


def problem_response(
    request: Request,
    status: int,
    detail: str,
    field: str | None = None,
    errors: Sequence[FieldError] = (),
    request_id: str | None = None,
) -> Response:
    """Return JSON for the API and for clients that do not ask for HTML, else a page."""
    if request.scope["path"].startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
        fields = [FieldProblem(field=error.field, detail=error.detail) for error in errors if error.field is not None]
        return JSONResponse(Problem(detail=detail, field=field, errors=fields).model_dump(), status)
    url_without_field = None  # a link that leaves out the parameter at fault
    if request.method == "GET" and field is not None and field in request.query_params:
        query = request.url.remove_query_params(field).query
        url_without_field = request.scope["path"] + (f"?{query}" if query else "")
    values = {
        "status": status,
        "title": TITLES.get(status, "That did not work"),
        "message": detail,
        "request_id": request_id,
        "without": url_without_field,
    }
    return templates.TemplateResponse(request, "web/error.html", values, status_code=status)


def install_error_handlers(app: FastAPI, settings: Settings) -> None:
    # Coroutines, because plain functions would wait for a thread, and none may be free.
    @app.exception_handler(IsoscopeError)
    @app.exception_handler(RequestValidationError)
    async def handle_isoscope_error(request: Request, error: IsoscopeError | RequestValidationError) -> Response:
        if isinstance(error, RequestValidationError):
            return _error_response(request, to_invalid_error(error.errors()))
        return _error_response(request, error)

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        # FastAPI raises this if the temporary file of an upload cannot be written.
        if is_full(error.__cause__):
            return _error_response(request, full_disk_error(Path(tempfile.gettempdir())))
        detail, path = error.detail, request.scope["path"]
        default_message, replacement = REPLACED_MESSAGES.get(HTTPStatus(error.status_code), (None, ""))
        if detail == default_message:
            detail = replacement.format(path=path, method=request.method)
        response = problem_response(request, error.status_code, detail)
        response.headers.update(error.headers or {})
        return response

    _install_database_and_disk_handlers(app, settings)

    @app.exception_handler(Exception)
    async def handle_unexpected_error(request: Request, error: Exception) -> Response:
        request_id = uuid4().hex[:12]
        logger.error("request %s failed", request_id, exc_info=error)
        message = f"Isoscope failed on this request. Find the cause in the server log under {request_id}."
        return problem_response(request, 500, message, request_id=request_id)


def _install_database_and_disk_handlers(app: FastAPI, settings: Settings) -> None:
    @app.exception_handler(IntegrityError)
    async def handle_integrity_error(request: Request, error: IntegrityError) -> Response:
        logger.warning("a request was overtaken: %s", error.orig)
        detail = "Something on this page was just changed or deleted. Reload the page."
        return problem_response(request, 409, detail)

    @app.exception_handler(OSError)
    async def handle_os_error(request: Request, error: OSError) -> Response:
        if not is_full(error):
            raise error
        logger.error("a disk is full", exc_info=error)
        # The error names no disk; the fullest one is the likeliest.
        fullest = min((disk.free_bytes, disk.folder) for disk in list_disks(settings))[1]
        return _error_response(request, full_disk_error(fullest))

    @app.exception_handler(PoolTimeoutError)
    @app.exception_handler(DatabaseError)
    async def handle_database_error(request: Request, error: DatabaseError | PoolTimeoutError) -> Response:
        sentence = f"The database is busy. Try again in {RETRY_SECONDS} seconds."
        if not isinstance(error, PoolTimeoutError) and SQLITE_LOCKED not in str(error.orig):
            # Explain in a thread, because that may query the database for its schema.
            if (explanation := await run_in_threadpool(explain_error, error, settings)) is not None:
                logger.error("%s", explanation.message, exc_info=error)
                return _error_response(request, explanation)
            if not isinstance(error, OperationalError):
                raise error
            logger.error("the database does not answer: %s", error.orig, exc_info=error)
            sentence = "The database does not respond. Try again in a moment."
        response = problem_response(request, HTTPStatus.SERVICE_UNAVAILABLE, sentence)
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response


def _error_response(request: Request, error: IsoscopeError) -> Response:
    response = problem_response(request, STATUS[type(error)], error.message, error.field, error.errors)
    if isinstance(error, BusyError):
        response.headers["Retry-After"] = str(error.retry_seconds)
    return response
