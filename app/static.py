"""The vendored and own scripts and styles, served by their content's hash where a page names it."""

import gzip
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

from app.installation import FILES

TEXTS = (".js", ".mjs", ".css", ".svg", ".json")
FOLDER = FILES / "frontend" / "static"


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
        headers, asked = FileResponse(found, stat_result=status).headers, Headers(scope=scope)
        if self.is_not_modified(headers, asked):
            return NotModifiedResponse(headers)
        packed = "gzip" in asked.get("accept-encoding", "") and found.endswith(TEXTS)
        content = _held(found, status.st_mtime_ns, packed)
        headers.update({"content-length": str(len(content)), "vary": "Accept-Encoding"})
        if packed:  # here, once, as the middleware would compress megabytes for each request while all others wait
            headers["content-encoding"] = "gzip"
        del headers["accept-ranges"]
        return Response(content, headers=headers)


def static_files() -> StaticFiles:
    """The application that serves the static folder."""
    return HeldFiles(directory=FOLDER)


@lru_cache(maxsize=400)
def _held(path: str, _: int, packed: bool) -> bytes:
    content = Path(path).read_bytes()
    return gzip.compress(content, 6, mtime=0) if packed else content
