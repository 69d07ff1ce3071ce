"""Upload the rows of a data set to a dashboard: train and validation, and test rows whose scores are sealed."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from isoscope.client import Isoscope
from isoscope.output import write, write_json
from isoscope.progress import sending

HELP = "upload train, validation and test rows to a dashboard"
MEANINGS = {"text": "are part of the text", "quoted": "enclose cells"}
SPLITS = ("train", "validation", "test")


def add_arguments(command: ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("train", type=Path, metavar="TRAIN", help="train rows, or all rows with --split-column")
    command.add_argument("validation", type=Path, nargs="?", metavar="VALIDATION", help="validation rows")
    command.add_argument("--test", type=Path, metavar="FILE", help="test rows with labels; scores on them are sealed")
    command.add_argument(
        "--test-fraction", type=float, metavar="F", help="draw this fraction of train rows for testing"
    )
    command.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    command.add_argument("--split-column", metavar="COL", help="the column that names the split of each row")
    for split in SPLITS:
        command.add_argument(
            f"--{split}-values", metavar="VALUES", help=f"its values of {split} rows, with commas (default: {split})"
        )
    command.add_argument(
        "--quoting",
        choices=tuple(MEANINGS),
        help="how quotes of .tsv files are read (default: they enclose cells where every one does)",
    )
    command.add_argument("--name", help="if not the train file's")


def run(isoscope: Isoscope, given: Namespace) -> int:
    """Upload, and print where it is and how many rows each split has."""
    files = [file for file in (given.train, given.validation, given.test) if file is not None]
    values = {split: text.split(",") for split in SPLITS if (text := getattr(given, f"{split}_values")) is not None}
    with sending(files) as progress:
        found = isoscope.upload_dataset(
            given.train,
            given.validation,
            test=given.test,
            test_fraction=given.test_fraction,
            split_seed=given.seed,
            split_column=given.split_column,
            split_values=values,
            quoting=given.quoting,
            name=given.name,
            progress=progress,
        )
    if given.json:
        return write_json(found)
    counts = ", ".join(f"{found[f'n_{split}']} {split}" for split in SPLITS if found[f"n_{split}"] is not None)
    quotes = [f"quotes of {split} rows {MEANINGS[reading]}" for split, reading in (found["quoting"] or {}).items()]
    return write([f"{found['name']}: {isoscope.url}/datasets/{found['id']}", f"rows: {counts}", *quotes])
