"""Equivalent commands of a form: curl, command line, Python and YAML to copy and run elsewhere."""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from fastapi import Request

from app.context import Context
from app.db.encoding import EncodingConfig
from app.db.models import Dataset
from app.services.relaunch import plain, yaml_of
from app.services.studies import StudyRequest
from app.services.sweeps import SweepRequest
from app.settings import Settings
from isoscope.core.errors import InvalidError

AUTHORIZATION = '-H "Authorization: Bearer $ISOSCOPE_ACCESS_TOKEN"'
JSON = "-H 'Content-Type: application/json'"
JOINED = " \\\n  "
OPTIONS = {
    "text_columns": "--texts",
    "label_column": "--labels",
    "poolings": "--pooling",
    "layers": "--layers",
    "max_rows": "--max-rows",
    "max_length": "--max-length",
    "batch_size": "--batch-size",
    "seed": "--seed",
}
"""Of `isoscope encode`, by the setting that each is."""


class Server(NamedTuple):
    """Where this dashboard is, as the one who asks has found it, and whether it wants a token."""

    url: str
    token: bool

    @classmethod
    def of(cls, request: Request, settings: Settings) -> Self:
        """The server that answers a request."""
        return cls(str(request.base_url).rstrip("/"), settings.access_token is not None)

    def curl(self, path: str, *options: str) -> str:
        """A request as a command; without a method of its own, what the options make it."""
        headers = [AUTHORIZATION] if self.token else []
        return JOINED.join([f"curl {shlex.quote(f'{self.url}/api{path}')}", *headers, *options])

    def python(self, *lines: str) -> str:
        """Lines of Python after those that name this server; the token is read of the environment."""
        begin = f"from isoscope.client import Isoscope\n\nisoscope = Isoscope({self.url!r})\n"
        return begin + "".join(f"{line}\n" for line in lines)


class Way(NamedTuple):
    """One way to do the same."""

    name: str
    text: str


def ways_of_sweep(server: Server, request: SweepRequest | StudyRequest, dataset: Dataset) -> list[Way]:
    """Launch a sweep, or a search."""
    said, yaml = plain(request), yaml_of(request, dataset)
    path = "/studies" if isinstance(request, StudyRequest) else "/experiments"
    return [
        Way("curl", server.curl(path, *_sent(said))),
        # Each line of the document begins with a name, a blank or a number sign: none ends it early.
        Way("Command line", f"isoscope sweep --url {shlex.quote(server.url)} - <<'YAML'\n{yaml}YAML"),
        Way("Python", server.python(f"experiment = isoscope.sweep({_written(said)})", "isoscope.wait(experiment)")),
        Way("YAML", yaml),
    ]


def ways_of_form(
    request: Request, context: Context, dataset: Dataset | None, parse: Callable[[], SweepRequest | StudyRequest]
) -> list[Way]:
    """What the form of a sweep or a search means, as ``parse`` reads it; nothing where it means no request."""
    if dataset is None:
        return []
    try:
        return ways_of_sweep(Server.of(request, context.settings), parse(), dataset)
    except InvalidError:
        return []


def ways_of_encoding(server: Server, encoding_id: str, config: EncodingConfig) -> list[Way]:
    """Launch an encoding whose texts are here."""
    said = config.model_dump(mode="json", exclude_defaults=True)
    options = [f"--model={shlex.quote(config.model)}", *_options(said)]
    command = f"isoscope encode --url {shlex.quote(server.url)} --encoding {shlex.quote(encoding_id)}"
    return [
        Way("curl", server.curl(f"/encodings/{encoding_id}/launch", *_sent(said))),
        Way("Command line", JOINED.join([command, *options])),
        Way("Python", server.python(f"encoding = isoscope.launch_encoding({encoding_id!r}, {_written(said)})")),
    ]


def ways_of_texts(server: Server, model: str) -> list[Way]:
    """Upload a file of texts and put them through a model."""
    settings = {"model": model, "text_columns": ["line"]}
    upload = server.curl("/encodings", "-F file=@texts.txt")
    launch = server.curl("/encodings/ID/launch", *_sent(settings))
    options = f"texts.txt --model={shlex.quote(model)}"
    return [
        Way("curl", f"{upload}\n{launch}"),
        Way("Command line", f"isoscope encode --url {shlex.quote(server.url)} {options}"),
        Way("Python", server.python(f"encoding = isoscope.encode('texts.txt', model={model!r})")),
    ]


def ways_of_upload(server: Server) -> list[Way]:
    """Upload a file of vectors and have it measured as it is found."""
    return [
        Way("curl", server.curl("/embeddings?commit=auto", "-F file=@embeddings.npy")),
        Way("Command line", f"isoscope upload --url {shlex.quote(server.url)} embeddings.npy"),
        Way("Python", server.python("embedding = isoscope.upload('embeddings.npy')")),
    ]


def _sent(said: Mapping[str, Any]) -> tuple[str, str]:
    """Options of curl that send this."""
    return JSON, f"--data-raw {shlex.quote(json.dumps(said, indent=1, ensure_ascii=False))}"


def _written(said: Mapping[str, Any]) -> str:
    """A dictionary in Python, a line for each name."""
    return "{\n" + "".join(f"    {name!r}: {value!r},\n" for name, value in said.items()) + "}"


def _options(said: Mapping[str, Any]) -> Iterable[str]:
    """Options with their values joined by =, since a column may be called -1; null is all."""
    for name, option in OPTIONS.items():
        if name in said:
            value = said[name]
            values = value if isinstance(value, list) and name != "layers" else [value]
            for one in values:
                text = ",".join(map(str, one)) if isinstance(one, list) else "all" if one is None else str(one)
                yield f"{option}={shlex.quote(text)}"
