"""The web application: routes, middleware, startup and shutdown."""

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import FastAPI
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import VERSION, routes
from app.context import create_context
from app.core.settings import Settings
from app.documentation.library import IMAGES
from app.operations.health import HealthCheck
from app.storage.storage import sweep_folders
from app.web import error_responses
from app.web.activity import AccessLog
from app.web.dependencies import MAX_WRITERS
from app.web.headers import HeadAsGet, SafeHeaders
from app.web.polls import SharedPolls
from app.web.responses import BINARY
from app.web.security import BodyLimit, Gate
from app.web.templating import STATIC, InMemoryFiles
from app.web.uploads import Parsers, parser_slots

DESCRIPTION = (
    "Measure the isotropy of embeddings, launch fine-tunes with isotropy regularizers, and read their results. "
    "Every error response has a sentence in `detail` and, if one field is wrong, its name in `field`."
)


class Application(FastAPI):
    """A FastAPI application that logs every request and adds security headers to every response."""

    def build_middleware_stack(self) -> ASGIApp:
        inner: Any = SafeHeaders(HeadAsGet(super().build_middleware_stack()))
        return AccessLog(cast("ASGIApp", ProxyHeadersMiddleware(inner, self.state.trusted_proxies)))


def create_app(settings: Settings | None = None) -> FastAPI:
    settings = settings or Settings()
    settings.create_folders()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        context = create_context(settings)
        # Startup needs disk space too. If it failed on a full disk, users could not delete anything.
        with context.spare_file.make_room():
            context.storage.sweep_temporary()
            sweep_folders(settings.root)
        app.state.context = context
        app.state.parsers = Parsers(parser_slots(settings))
        app.state.health_check = HealthCheck(context)
        app.state.writers = Semaphore(MAX_WRITERS)
        yield
        context.close()

    app = Application(
        title="Isoscope", version=VERSION, description=DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url="/api/openapi.json", routes=[*routes.router.routes],
    )  # fmt: skip
    app.state.trusted_proxies = ["127.0.0.1", "::1", *settings.trusted_proxies]
    error_responses.install_error_handlers(app, settings)
    app.mount("/static", InMemoryFiles(directory=STATIC), name="static")
    app.mount("/docs/images", InMemoryFiles(directory=IMAGES), name="docs-images")
    # The middleware added last is the first to see a request.
    app.add_middleware(SharedPolls)
    app.add_middleware(Gate, settings=settings)
    # Vectors hardly compress, and trying to compress a gigabyte of them would occupy a core for a minute.
    app.add_middleware(GZipMiddleware, exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, BINARY))
    app.add_middleware(BodyLimit, settings=settings)
    return app
