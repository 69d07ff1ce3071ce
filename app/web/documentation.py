"""The documentation's site under /docs, as `make docs` built it."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from app.core.installation import FILES

FOLDER = FILES / "frontend" / "docs"
NOT_BUILT = "The documentation is not built here. In a checkout, run `make docs`, or read the files in its docs folder."


def has_documentation() -> bool:
    """Whether the site is built, so that pages may link to it."""
    return FOLDER.is_dir()


class Documentation(StaticFiles):
    """Files of a folder that may be built after the start."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder, html=True, check_dir=False)
        self._folder = folder

    async def check_config(self) -> None:
        """Refuse with a sentence where nothing was built."""
        if not self._folder.is_dir():
            raise HTTPException(404, NOT_BUILT)
