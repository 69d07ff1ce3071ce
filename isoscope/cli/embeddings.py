"""Embeddings at the command line: upload vectors, encode texts with a model."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isoscope.cli.local import parse_names
from isoscope.cli.printing import (
    MEASURE_LEGEND,
    format_measure,
    lines_by_group,
    note,
    number,
    table,
    upload_progress,
    write,
    write_json,
)
from isoscope.client import Isoscope
from isoscope.client.encodings import likely_settings
from isoscope.core.beir_layout import list_beir_files
from isoscope.core.errors import InvalidError
from isoscope.stores import FAISS_SUFFIXES, LocalCopy, copy_index, copy_table
from isotropy.catalog import MEASURES

ENCODING_SETTINGS = (
    "label_column", "score_column", "match", "poolings", "layers", "max_rows", "max_length", "batch_size", "seed",
)  # fmt: skip
LAYER_MEASURES = ("isoscore", "mean_cosine")
ALL = "all"  # the value of an option that stands for null: no limit


def upload_arguments(command: ArgumentParser) -> None:
    source = command.add_mutually_exclusive_group(required=True)
    files_help = "vectors, or one FAISS index (.faiss, .index); several files are read as one matrix"
    source.add_argument("files", nargs="*", default=[], type=Path, metavar="FILE", help=files_help)
    source.add_argument("--table", help="table or view of PostgreSQL instead of files")
    table = command.add_argument_group("PostgreSQL", "read on this machine; only vectors and kept columns are sent")
    table.add_argument(
        "--postgres", default="", metavar="URL", help="connection string (default: PGSERVICE, PGHOST, ...)"
    )
    table.add_argument(
        "--column", metavar="COL", help="vector, halfvec, real[] or double precision[] (default: detected)"
    )
    table.add_argument("--keep", type=parse_names, default=[], metavar="COLS", help="other columns to send: id,topic")
    command.add_argument("--annotations", type=Path, metavar="FILE", help="file of names and labels for the rows")
    command.add_argument("--name", help="name on the dashboard (default: the file's)")
    command.add_argument(
        "--draft", action="store_true", help="upload without measuring, to choose columns on the page first"
    )
    command.add_argument("--wait", action="store_true", help="wait until it is measured and print the measures")


def upload(isoscope: Isoscope, arguments: Namespace) -> int:
    """Upload vectors to a dashboard and have them measured there; isoscope score measures without one."""
    with TemporaryDirectory(prefix="isoscope-") as folder:
        local_copy = _copy_stored_vectors(arguments, Path(folder))
        files = [local_copy.vectors] if local_copy else arguments.files
        annotations = arguments.annotations or (local_copy.annotations if local_copy else None)
        name = arguments.name or (local_copy.vectors.stem if local_copy else None)
        with upload_progress([*files, *([annotations] if annotations else [])]) as progress:
            embedding = isoscope.upload(
                *files, annotations=annotations, name=name, commit=not arguments.draft, progress=progress
            )
    if local_copy and local_copy.remark:
        note(local_copy.remark)
        isoscope.describe_embedding(embedding, notes=local_copy.remark)
    measurements = isoscope.score(embedding) if arguments.wait and not arguments.draft else {}
    if arguments.json:
        return write_json(isoscope.embedding(embedding) if measurements else embedding)
    address_line = f"{embedding['name']}: {isoscope.url}/embeddings/{embedding['id']}"
    if not measurements:
        return write([address_line])
    n_rows = isoscope.embedding(embedding)["n"]
    value_texts = {}
    measured_slugs = [slug for slug in MEASURES if slug in measurements]
    for slug in measured_slugs:
        value, se, reason, n = (measurements[slug][key] for key in ("value", "se", "reason", "n"))
        value_texts[slug] = format_measure(value, se, reason, n, n_rows, measurements[slug].get("detail"))
    return write([address_line, MEASURE_LEGEND, *lines_by_group(value_texts)])


def _copy_stored_vectors(arguments: Namespace, folder: Path) -> LocalCopy | None:
    """Copy a table or a FAISS index to files. Return None if the vectors are in files that can be uploaded."""
    if arguments.table:
        return copy_table(arguments.postgres, arguments.table, arguments.column, arguments.keep, folder)
    if arguments.postgres or arguments.column or arguments.keep:
        raise InvalidError("--postgres, --column and --keep read a table. Name it by --table.")
    is_index = len(arguments.files) == 1 and arguments.files[0].suffix.lower() in FAISS_SUFFIXES
    return copy_index(arguments.files[0], folder) if is_index else None


def encode_arguments(command: ArgumentParser) -> None:
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="texts: .txt with one per line, or a table; or the folder or zip file of a BEIR data set",
    )
    source.add_argument("--dataset", metavar="NAME", help="encode the texts of a data set, by its name or id")
    source.add_argument("--encoding", metavar="ID", help="encode the texts of a draft on the dashboard")
    command.add_argument("--split", choices=("train", "validation"), default="validation", help="split of the data set")
    command.add_argument("--name", help="name on the dashboard (default: the file's)")
    command.add_argument("--model", required=True, help="model of the dashboard, or a name on the Hub")
    command.add_argument(
        "--texts", dest="text_columns", action="append", metavar="COL", help="column of texts; give two for pairs"
    )
    command.add_argument("--labels", dest="label_column", metavar="COL", help="column of labels")
    command.add_argument(
        "--scores", dest="score_column", metavar="COL", help="column of scores of text pairs, which judge the layers"
    )
    command.add_argument("--match", type=float, metavar="SCORE", help="minimum score of a match, which sets a cutoff")
    command.add_argument(
        "--pooling",
        dest="poolings",
        action="append",
        choices=("first", "mean", "last"),
        help="how to pool tokens; repeatable",
    )
    command.add_argument(
        "--layers", type=_parse_layers, metavar="NUMBERS", help="layers from 0, separated by commas (default: all)"
    )
    command.add_argument("--max-rows", type=_parse_limit, metavar="N", help="at most this many rows, or all")
    command.add_argument("--max-length", type=int, metavar="TOKENS", help="truncate longer texts")
    command.add_argument("--batch-size", type=int, metavar="TEXTS", help="texts per batch")
    command.add_argument("--seed", type=int, help="seed for drawing rows")
    command.add_argument("--plan", action="store_true", help="print the plan without launching")
    command.add_argument("--wait", action="store_true", help="wait until all is measured and print a line per layer")


def encode(isoscope: Isoscope, arguments: Namespace) -> int:
    """Encode texts with a model on a dashboard: every layer becomes a measured embedding."""
    if arguments.encoding:
        texts = isoscope.encoding(arguments.encoding)
    elif arguments.dataset:
        dataset = isoscope.find_dataset(arguments.dataset)
        texts = isoscope.texts_of_dataset(dataset, arguments.split, name=arguments.name)
    else:
        files = list_beir_files(arguments.file) if arguments.file.is_dir() else [arguments.file]
        with upload_progress(files) as progress:
            texts = isoscope.upload_texts(arguments.file, name=arguments.name, progress=progress)
    settings: dict[str, Any] = {**likely_settings(texts), "model": arguments.model}
    settings |= {"text_columns": arguments.text_columns} if arguments.text_columns else {}
    given_options = {name: getattr(arguments, name) for name in ENCODING_SETTINGS}
    settings |= {name: None if value == ALL else value for name, value in given_options.items() if value is not None}
    if arguments.plan:
        plan = isoscope.plan_encoding(texts, settings)
        if arguments.json:
            return write_json(plan)
        return write([", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in plan.items())])
    encoding = isoscope.launch_encoding(texts, settings)
    address = f"{isoscope.url}/encodings/{encoding['id']}"
    query_lines = []
    if qrels := encoding["qrels"]:
        splits = ", ".join(f"{judged_split['split']} ({judged_split['judgments']:,})" for judged_split in qrels)
        query_lines = [f"queries: {isoscope.url}/encodings/{qrels[0]['queries_id']}; judgments: {splits}"]
    if not arguments.wait:
        return write_json(encoding) if arguments.json else write([f"{encoding['name']}: {address}", *query_lines])
    for line in (address, *query_lines):
        note(line)
    layers = isoscope.layers(isoscope.wait_for_encoding(encoding))
    if arguments.json:
        return write_json(layers)
    rows = []
    for layer in layers:
        values = {measurement["measure"]: measurement["value"] for measurement in layer["measurements"]}
        rows.append((str(layer["layer"]), layer["pooling"], *(number(values.get(slug)) for slug in LAYER_MEASURES)))
    return write(table(("Layer", "Pooling", "IsoScore", "Mean cosine"), rows))


def _parse_limit(text: str) -> int | str:
    if text == ALL:
        return text
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number or all, got {text!r}")
    return int(text)


def _parse_layers(text: str) -> list[int] | str:
    if text == ALL:
        return text
    numbers = text.replace(",", " ").split()
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise ArgumentTypeError(f"expected whole numbers with commas, or all, got {text!r}")
    return [int(number) for number in numbers]
