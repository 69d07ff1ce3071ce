"""The vendored and own scripts and styles, served by their content's hash where a page names it."""

from pathlib import Path

from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).parents[1] / "frontend" / "static"


def static_files() -> StaticFiles:
    """The application that serves the static folder."""
    return StaticFiles(directory=FOLDER)
