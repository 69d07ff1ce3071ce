"""Put texts through a model on a dashboard: every layer becomes an embedding that is measured."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from isoscope.client import Isoscope
from isoscope.output import number, table, tell, write, write_json
from isoscope.progress import sending
from isoscope.remote.connection import Row
from isoscope.remote.encodings import likely_columns

HELP = "put texts through a model and measure every layer"
SETTINGS = ("label_column", "poolings", "layers", "max_rows", "max_length", "batch_size", "seed")
SCORES = ("isoscore", "mean_cosine")
ALL = "all"
"""How null is written, which leaves nothing out."""


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, metavar="FILE", help="texts: a line each in .txt, or a table")
    source.add_argument("--dataset", metavar="NAME", help="or those of a data set, by its name or id")
    source.add_argument("--encoding", metavar="ID", help="or those of a draft on the dashboard")
    command.add_argument("--split", choices=("train", "validation"), default="validation", help="of the data set")
    command.add_argument("--name", help="if not the file's")
    command.add_argument("--model", required=True, help="one of the dashboard's, or a name of the Hub")
    command.add_argument("--texts", dest="text_columns", action="append", metavar="COL", help="twice for pairs")
    command.add_argument("--labels", dest="label_column", metavar="COL")
    command.add_argument("--pooling", dest="poolings", action="append", choices=("first", "mean", "last"))
    command.add_argument("--layers", type=_numbers, metavar="NUMBERS", help="with commas, from 0; all if left out")
    command.add_argument("--max-rows", type=_number_or_all, metavar="N", help="or all")
    command.add_argument("--max-length", type=int, metavar="TOKENS")
    command.add_argument("--batch-size", type=int, metavar="TEXTS")
    command.add_argument("--seed", type=int, help="of the rows that are drawn")
    command.add_argument("--plan", action="store_true", help="say what it would make, and launch nothing")
    command.add_argument("--wait", action="store_true", help="until it is done, and print a line for each layer")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Launch it, and print where it is or what came out."""
    texts = _texts(isoscope, given)
    settings: dict[str, Any] = {"model": given.model, "text_columns": given.text_columns or likely_columns(texts)}
    settings |= {name: _null(value) for name in SETTINGS if (value := getattr(given, name)) is not None}
    if given.plan:
        return _say_plan(isoscope.plan_encoding(texts, settings), as_json=given.json)
    launched = isoscope.launch_encoding(texts, settings)
    if not given.wait:
        where = f"{launched['name']}: {isoscope.url}/encodings/{launched['id']}"
        return write_json(launched) if given.json else write([where])
    tell(f"{isoscope.url}/encodings/{launched['id']}")
    layers = isoscope.layers(isoscope.wait_for_encoding(launched))
    return write_json(layers) if given.json else write(_table(layers))


def _texts(isoscope: Isoscope, given: Namespace) -> Row:
    if given.encoding:
        return isoscope.encoding(given.encoding)
    if given.dataset:
        return isoscope.texts_of_dataset(isoscope.find_dataset(given.dataset), given.split, name=given.name)
    with sending([given.file]) as progress:
        return isoscope.upload_texts(given.file, name=given.name, progress=progress)


def _say_plan(plan: Row, *, as_json: bool) -> int:
    if as_json:
        return write_json(plan)
    return write([", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in plan.items())])


def _table(layers: list[Row]) -> list[str]:
    rows = []
    for layer in layers:
        scores = {one["measure"]: one["value"] for one in layer["measurements"]}
        rows.append((str(layer["layer"]), layer["pooling"], *(number(scores.get(slug)) for slug in SCORES)))
    return table(("Layer", "Pooling", "IsoScore", "Mean cosine"), rows)


def _null(value: object) -> object:
    return None if value == ALL else value


def _number_or_all(text: str) -> int | str:
    if text == ALL:
        return text
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number or all, got {text!r}")
    return int(text)


def _numbers(text: str) -> list[int] | str:
    if text == ALL:
        return text
    parts = text.replace(",", " ").split()
    if not parts or not all(part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"expected whole numbers with commas, or all, got {text!r}")
    return [int(part) for part in parts]
