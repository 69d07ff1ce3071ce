"""Requests to a dashboard, and the errors that its refusals raise."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from io import FileIO
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import httpx2

from isoscope.address import TOKEN_ENV, URL_ENV, error_detail, error_sentence, is_retryable, open_client, read_address
from isoscope.core.errors import InvalidError, IsoscopeError, UnavailableError
from isoscope.core.task import SPLIT_STEMS

# Long, because the server reads a data set's files before it answers.
TIMEOUT = httpx2.Timeout(300.0, connect=10.0)
# How long to retry a request that the server refuses because it gets too many.
BUSY_SECONDS = 600.0
RETRY_SECONDS = 5.0  # if the server does not say when to retry
ROWS_PER_PAGE = 500

# A JSON object of the API: see ``/api/openapi.json`` of the server.
Row = dict[str, Any]
# A record on the server: its id, or the dictionary that the server returned for it.
Reference = str | Mapping[str, Any]
# Pairs of a form field and the path of a file.
Files = Iterable[tuple[str, str | Path]]
# Called with the number of bytes of each part of an upload that was read to be sent.
Progress = Callable[[int], object]


@dataclass
class RefusedError(IsoscopeError):
    """A request that the server refused, with the server's message, the field at fault if any, and the HTTP status."""

    status: int = 0


class Connection:
    """A connection to a dashboard. Methods take a path as text, or the parts from which ``path_of`` makes it."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        address = read_address(url, token)
        self.url = address.url
        self._client = open_client(address, TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request and return the JSON of the response, or None if it has no body."""
        return self._read_json(self._send(method, path, **arguments))

    def get(self, *path: Reference | int, **query: Any) -> Row:
        return cast("Row", self.ask("GET", path_of(*path), params=query))

    def get_list(self, *path: Reference | int, **query: Any) -> list[Any]:
        return cast("list[Any]", self.ask("GET", path_of(*path), params=query))

    def post(self, *path: Reference | int, **arguments: Any) -> Row:
        return cast("Row", self.ask("POST", path_of(*path), **arguments))

    def put(self, *path: Reference | int, **arguments: Any) -> Row:
        return cast("Row", self.ask("PUT", path_of(*path), **arguments))

    def patch(self, *path: Reference | int, **arguments: Any) -> Row:
        return cast("Row", self.ask("PATCH", path_of(*path), **arguments))

    def delete(self, *path: Reference | int) -> Row:
        """Delete a record and return the response, which is an empty dictionary if it has no body."""
        return cast("Row", self.ask("DELETE", path_of(*path)) or {})

    def send_files(
        self, path: str, files: Files, fields: Mapping[str, str | None], progress: Progress | None = None
    ) -> Row:
        """Send a form with files, which are read while they are sent. Fields that are None are left out."""
        form_values = {name: value for name, value in fields.items() if value is not None}
        file_parts = []
        with ExitStack() as stack:
            for field, file in files:
                try:
                    stream = stack.enter_context(_ReportedFile(Path(file), progress))
                except OSError as error:
                    raise InvalidError(f"{Path(file)} cannot be read: {error.strerror}.", "file") from error
                file_parts.append((field, (Path(file).name, stream)))
            return cast("Row", self.ask("POST", path, files=file_parts, data=form_values))

    def download(self, path: str, target: str | Path, **arguments: Any) -> Path:
        """Write the file at a path of the server to ``target`` and return that. An error leaves no partial file."""
        target = Path(target)
        partial_file = target.with_name(f"{target.name}.part")
        try:
            with closing(self._send("GET", path, stream=True, **arguments)) as response:
                if not response.is_success:
                    response.read()
                    raise self._refusal_error(response)
                with partial_file.open("wb") as stream:
                    for chunk in response.iter_bytes():
                        stream.write(chunk)
            partial_file.replace(target)
        except httpx2.TransportError as error:
            raise self._unavailable_error(str(error) or type(error).__name__) from error
        except OSError as error:
            raise InvalidError(f"{target} cannot be written: {error.strerror}.") from error
        finally:
            partial_file.unlink(missing_ok=True)
        return target

    def get_page(self, path: str, **query: Any) -> tuple[list[Row], int]:
        """Return one page of a list and the total number of rows. Query parameters that are None are left out."""
        response = self._send("GET", path, params={name: value for name, value in query.items() if value is not None})
        rows: list[Row] = self._read_json(response)
        return rows, int(response.headers.get("X-Total-Count", len(rows)))

    def all_rows(self, path: str, **query: Any) -> Iterator[Row]:
        """Yield the rows of all pages of a list."""
        offset, total = 0, 1  # the first page has the true total
        while offset < total:
            rows, total = self.get_page(path, **query, limit=ROWS_PER_PAGE, offset=offset)
            yield from rows
            offset += ROWS_PER_PAGE

    def _send(self, method: str, path: str, *, stream: bool = False, **arguments: Any) -> httpx2.Response:
        """Send a request, again while the server is too busy. With ``stream``, the caller closes the response."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                response = self._client.send(self._client.build_request(method, path, **arguments), stream=stream)
            except httpx2.TransportError as error:
                raise self._unavailable_error(str(error) or type(error).__name__) from error
            if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                return response
            retry_after = response.headers.get("Retry-After", "")
            retry_seconds = float(retry_after) if retry_after.isdecimal() else RETRY_SECONDS
            # Random, or clients that were refused together would all retry together.
            retry_seconds *= random.uniform(1, 1.5)  # noqa: S311 - no secret
            if time.monotonic() + retry_seconds > deadline:
                return response
            response.close()
            time.sleep(retry_seconds)
            for _, (_, file) in arguments.get("files", ()):
                file.seek(0)

    def _read_json(self, response: httpx2.Response) -> Any:
        """Return the JSON of a response, or None if it has no body. Raise an IsoscopeError if the server refused."""
        if not response.is_success:
            raise self._refusal_error(response)
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise RefusedError(f"What answers at {self.url} is no Isoscope.", status=response.status_code) from error

    def _refusal_error(self, response: httpx2.Response) -> IsoscopeError:
        """Return the error of a response: UnavailableError if none of a dashboard answered, else RefusedError."""
        status, detail = response.status_code, error_detail(response)
        if detail is None and is_retryable(response):
            return self._unavailable_error(f"status {status}")
        sentence = error_sentence(response)
        if status == HTTPStatus.UNAUTHORIZED:
            sentence += f" It is read from {TOKEN_ENV}."
        return RefusedError(sentence, detail[1] if detail else None, status=status)

    def _unavailable_error(self, reason: str) -> UnavailableError:
        return UnavailableError(
            f"No Isoscope answers at {self.url} ({reason}). Start it with isoscope serve, or name another by --url or "
            f"{URL_ENV}."
        )


def name_of_folder(file: str | Path) -> str | None:
    """Return the name of a file's folder if the file is called train or another split; None if it has its own name."""
    path = Path(file).resolve()
    return path.parent.name if path.name.partition(".")[0].lower() in SPLIT_STEMS else None


def path_of(*parts: Reference | int) -> str:
    """Return the path of the API for names, ids and records, such as ``/api/runs/ID`` for "runs" and a run."""
    return "".join(f"/{quote(id_of(part), safe='')}" for part in ("api", *parts))


def id_of(reference: Reference | int) -> str:
    """Return the id of a record that is given as a dictionary, or the name, id or number itself as text."""
    return str(reference["id"]) if isinstance(reference, Mapping) else str(reference)


class _ReportedFile(FileIO):
    """A file that calls ``progress`` with the number of bytes of each read."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        super().__init__(path)
        self._progress = progress

    def read(self, size: int | None = -1, /) -> bytes:
        chunk = super().read(size) or b""
        if self._progress is not None:
            self._progress(len(chunk))
        return chunk
