"""The web process: ``python -m app``."""

import argparse
import gc
import logging
import os
import sys
from asyncio import CancelledError
from contextlib import suppress

from app.core import process
from app.core.settings import Settings

SHUTDOWN_SECONDS = 5
STARTUP_FAILURE = 3

logger = logging.getLogger("app")


def main() -> int:
    """Serve until SIGTERM or SIGINT. Return the exit code; it is not 0 if the server cannot start."""
    # Imports leave little garbage, and collecting it takes a quarter of the startup time.
    gc.disable()
    # Imported here, after garbage collection is off.
    import uvicorn  # noqa: PLC0415
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from app.db.migration import require_schema  # noqa: PLC0415
    from app.db.session import driver_message  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415
    from app.web.connections import CONNECTION_SETTINGS, DashboardServer  # noqa: PLC0415
    from isoscope.core.errors import IsoscopeError  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    parser.add_argument(process.LIFELINE_FLAG, action="store_true", help="stop when standard input closes")
    if parser.parse_args().lifeline:
        process.watch_parent()
    os.umask(process.PRIVATE_UMASK)
    process.configure_logs("web")
    process.raise_file_limit()
    # Requests cancelled at shutdown need no traceback: uvicorn has already reported them in one line.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not (record.exc_info and isinstance(record.exc_info[1], CancelledError))
    )
    settings = Settings()
    try:
        app = create_app(settings)
        require_schema(settings.database)
    except SQLAlchemyError as error:  # the database may come back
        logger.warning("The metrics database does not answer: %s.", driver_message(error))
    except IsoscopeError as error:
        logger.error("%s", error)
        return 1
    process.enable_rare_garbage_collection()
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        **CONNECTION_SETTINGS,
    )
    server = DashboardServer(config)
    with suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else STARTUP_FAILURE


if __name__ == "__main__":
    sys.exit(main())
