"""The vendored and own scripts and styles, served by their content's hash where a page names it."""

from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parents[1] / "frontend" / "static"


class HeldFiles(StaticFiles):
    """Files that are few and small enough to be held in memory: serving one waits neither for a thread nor a disk."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return the file at a path, or 304 where the client has it."""
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        try:
            found, status = self.lookup_path(path)
        except (OSError, ValueError):  # a name too long, or with NUL
            raise HTTPException(404) from None
        if status is None or not S_ISREG(status.st_mode):
            raise HTTPException(404)
        headers = FileResponse(found, stat_result=status).headers
        if self.is_not_modified(headers, Headers(scope=scope)):
            return NotModifiedResponse(headers)
        return Response(_held(found, status.st_mtime_ns), headers=headers)


def static_files() -> StaticFiles:
    """The application that serves the static folder."""
    return HeldFiles(directory=FOLDER)


@lru_cache(maxsize=200)
def _held(path: str, _: int) -> bytes:
    return Path(path).read_bytes()
