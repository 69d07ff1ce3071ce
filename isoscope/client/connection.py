"""Requests to a dashboard, whose refusals are raised with its message."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from isoscope.address import TOKEN_ENV, URL_ENV, error_detail, error_sentence, is_retryable, open_client, read_address
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from isoscope.core.task import SPLIT_STEMS

# Long, because the server reads a data set's files before it answers.
TIMEOUT = httpx2.Timeout(300.0, connect=10.0)
# How long to retry a request that the server refuses because it gets too many.
BUSY_SECONDS = 600.0
ROWS_PER_PAGE = 500

# A JSON object of the API: see ``/api/openapi.json`` of the server.
Row = dict[str, Any]
# A record on the server: its id, or the dictionary that the server returned for it.
Reference = str | Mapping[str, Any]
# Form fields with the file of each.
Files = Iterable[tuple[str, str | Path]]
# Called with the number of bytes in each part of an upload.
Progress = Callable[[int], object]


@dataclass
class RefusedError(IsoscopeError):
    """The server refused a request: its message, the field at fault, if any, and the HTTP status."""

    status: int = 0


class Connection:
    """Address of a dashboard and its access token."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        address = read_address(url, token)
        self.url = address.url
        self._client = open_client(address, TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, path: str, **arguments: Any) -> Any:
        """Return the JSON of a response, None for one without a body."""
        return self._read(self._send(method, path, **arguments))

    def get(self, *path: Reference | int, **query: Any) -> Row:
        document: Row = self.ask("GET", path_of(*path), params=query)
        return document

    def get_list(self, *path: Reference | int, **query: Any) -> list[Any]:
        rows: list[Any] = self.ask("GET", path_of(*path), params=query)
        return rows

    def post(self, *path: Reference | int, **body: Any) -> Row:
        document: Row = self.ask("POST", path_of(*path), **body)
        return document

    def put(self, *path: Reference | int, **body: Any) -> Row:
        document: Row = self.ask("PUT", path_of(*path), **body)
        return document

    def patch(self, *path: Reference | int, **body: Any) -> Row:
        document: Row = self.ask("PATCH", path_of(*path), **body)
        return document

    def delete(self, *path: Reference | int) -> Row:
        document: Row = self.ask("DELETE", path_of(*path)) or {}
        return document

    def send_files(
        self, path: str, files: Files, fields: Mapping[str, str | None], progress: Progress | None = None
    ) -> Row:
        """Return the response to a form with files, which are streamed."""
        form_values = {name: value for name, value in fields.items() if value is not None}
        parts = []
        with ExitStack() as stack:
            for name, file in files:
                try:
                    part = stack.enter_context(_ReportedFile(Path(file), progress))
                except OSError as error:
                    raise InvalidError(f"{Path(file)} cannot be read: {error.strerror}.", "file") from error
                parts.append((name, (Path(file).name, part)))
            document: Row = self.ask("POST", path, files=parts, data=form_values)
        return document

    def download(self, path: str, target: str | Path, **arguments: Any) -> Path:
        """Write the file at a path of the server to ``target``, whole or not at all."""
        target = Path(target)
        unfinished = target.with_name(f"{target.name}.part")
        try:
            with self._client.stream("GET", path, **arguments) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal(response)
                with unfinished.open("wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            unfinished.replace(target)
        except httpx2.TransportError as error:
            raise self._unavailable_error(str(error) or type(error).__name__) from error
        except OSError as error:
            raise InvalidError(f"{target} cannot be written: {error.strerror}.") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return target

    def listed(self, path: str, **query: Any) -> tuple[list[Row], int]:
        """Return one page of a list and the total number of rows."""
        response = self._send("GET", path, params={name: value for name, value in query.items() if value is not None})
        rows: list[Row] = self._read(response)
        return rows, int(response.headers.get("X-Total-Count", len(rows)))

    def all_rows(self, path: str, **query: Any) -> Iterator[Row]:
        offset, total = 0, 1
        while offset < total:
            rows, total = self.listed(path, **query, limit=ROWS_PER_PAGE, offset=offset)
            yield from rows
            offset += ROWS_PER_PAGE

    def _send(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        """Return the response, retrying while the server is too busy."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                response = self._client.request(method, path, **arguments)
            except httpx2.TransportError as error:
                raise self._unavailable_error(str(error) or type(error).__name__) from error
            if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                return response
            seconds = response.headers.get("Retry-After", "")
            # Random, or clients that were refused together would all retry together.
            wait = random.uniform(1, 1.5) * (float(seconds) if seconds.isdecimal() else 5.0)  # noqa: S311 - no secret
            if time.monotonic() + wait > deadline:
                return response
            time.sleep(wait)
            for _, (_, file) in arguments.get("files", ()):
                file.seek(0)

    def _read(self, response: httpx2.Response) -> Any:
        if not response.is_success:
            raise self._refusal(response)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise RefusedError(f"What answers at {self.url} is no Isoscope.", status=response.status_code) from error

    def _refusal(self, response: httpx2.Response) -> IsoscopeError:
        status, detail = response.status_code, error_detail(response)
        if detail is None and is_retryable(response):
            return self._unavailable_error(f"status {status}")
        sentence = (
            f"{error_sentence(response)} It is read from {TOKEN_ENV}."
            if status == HTTPStatus.UNAUTHORIZED
            else error_sentence(response)
        )
        return RefusedError(sentence, detail[1] if detail else None, status=status)

    def _unavailable_error(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"No Isoscope answers at {self.url} ({why}). Start it with isoscope serve, or name another by --url or "
            f"{URL_ENV}."
        )


def name_of_folder(file: str | Path) -> str | None:
    """Return the name of a file's folder if the file is only called train or the like."""
    path = Path(file).resolve()
    return path.parent.name if path.name.partition(".")[0].lower() in SPLIT_STEMS else None


def path_of(*parts: Reference | int) -> str:
    """Join names and ids to a path of the API."""
    return "".join(f"/{quote(id_of(part), safe='')}" for part in ("api", *parts))


def id_of(reference: Reference | int) -> str:
    return str(reference["id"]) if isinstance(reference, Mapping) else str(reference)


class _ReportedFile(FileIO):
    """A file that reports the bytes read."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        super().__init__(path)
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size) or b""
        if self._progress is not None:
            self._progress(len(chunk))
        return chunk
