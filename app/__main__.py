"""The web process: ``python -m app``."""

import argparse
import gc

from app.lifeline import FLAG, hold_lifeline
from app.settings import Settings

SECONDS_TO_END = 5


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    # Here, because the sandbox's processes import this module too and need none of it.
    import uvicorn  # noqa: PLC0415

    from app.connections import connection_settings  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m app", description=__doc__)
    parser.add_argument(FLAG, action="store_true", help="stop when standard input closes")
    if parser.parse_args().lifeline:
        hold_lifeline()
    settings = Settings()
    app = create_app(settings)
    # What was imported stays: without it a collection of garbage, for which an answer has to wait, takes a tenth of a
    # second less.
    gc.collect()
    gc.freeze()
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_END,
        **connection_settings(),
    )


if __name__ == "__main__":
    main()
