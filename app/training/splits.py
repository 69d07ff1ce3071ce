"""How the rows of an upload become train, validation and test splits, and what a test split must have."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from app.context import Context
from app.core.validation_messages import message_of
from app.sandbox import read_in_sandbox
from app.storage import Stored
from app.storage.ledger import Store
from app.storage.storage import DIVIDING
from app.training.columns import propose
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote
from isoscope.files.columns import DatasetDescription
from isoscope.files.division import SUFFIX, ColumnDivision, Division, FractionDivision, divide_file
from isoscope.files.text import Quoting

FILE_SUFFIX = re.compile(r"\.[^.]*(\.gz)?$", re.IGNORECASE)
FIELDS = {
    "column": "split_column",
    "fraction": "test_fraction",
    "validation_fraction": "validation_fraction",
    "seed": "split_seed",
}


class SplitFile(NamedTuple):
    """The stored file of a split, and what it is called."""

    stored: Stored
    filename: str


def read_division(
    split_column: str = "",
    values: Mapping[str, str] | None = None,
    fractions: Mapping[str, str | float | None] | None = None,
    split_seed: str | int = "",
) -> Division | None:
    """Return how a form asks for rows to be divided, None where it does not; ``values`` have commas between them.

    A split without values takes the rows that hold its name. ``fractions`` are drawn for ``test`` and ``validation``.
    """
    by_column = split_column.strip()
    drawn = {split: fraction for split, fraction in (fractions or {}).items() if fraction not in ("", None)}
    if by_column and drawn:
        split = next(iter(drawn))
        raise InvalidError(f"Choose either a split column or a {split} fraction, not both.", f"{split}_fraction")
    if by_column:
        mapped = {split: _listed(text) for split, text in (values or {}).items() if text.strip()}
        return _checked(ColumnDivision, {"column": by_column, **mapped})
    if drawn:
        seed = {} if split_seed == "" else {"seed": split_seed}
        fraction_values = {"fraction": drawn.get("test"), "validation_fraction": drawn.get("validation")}
        return _checked(FractionDivision, fraction_values | seed)
    return None


def check_files(division: Division | None, *, has_validation: bool, has_test: bool) -> None:
    """Raise InvalidError where the files that were given do not go with the division."""
    if isinstance(division, ColumnDivision):
        if has_validation or has_test:
            field = "validation" if has_validation else "test"
            raise InvalidError(
                f"A split column divides one file: remove the {field} file, or leave the split column empty.", field
            )
        return
    drawn = {} if division is None else division.fractions
    if not has_validation and "validation" not in drawn:
        raise InvalidError(
            "No validation file. Choose one, or split the train file: by a validation fraction, or by a column that "
            "names the split of each row.",
            "validation",
        )
    for split, has_file in (("test", has_test), ("validation", has_validation)):
        if has_file and split in drawn:
            raise InvalidError(f"Choose either a {split} file or a {split} fraction, not both.", f"{split}_fraction")


def divide_upload(
    context: Context, division: Division, files: Mapping[str, SplitFile], store: Store, quoting: Quoting | None
) -> tuple[dict[str, SplitFile], dict[str, Quoting]]:
    """Divide the rows of the train file, in the sandbox.

    Return the new file of every split that it becomes, and how quotes were read.
    """
    settings = context.settings
    train, validation = files["train"], files.get("validation")
    validation_file = (
        None if validation is None else (context.storage.local(validation.stored.sha256), validation.filename)
    )
    with tempfile.TemporaryDirectory(dir=settings.root, prefix=DIVIDING) as folder:
        counts, readings = read_in_sandbox(
            settings,
            divide_file,
            division,
            context.storage.local(train.stored.sha256),
            train.filename,
            validation_file,
            Path(folder),
            quoting,
        )
        stem, split_files = FILE_SUFFIX.sub("", train.filename)[:200], {}
        for split in counts:
            with (Path(folder) / f"{split}{SUFFIX}").open("rb") as file:
                stored = store(file, settings.max_dataset_bytes)
            split_files[split] = SplitFile(stored, f"{stem}-{split}{SUFFIX}")
    return split_files, readings


def require_labels(description: DatasetDescription) -> None:
    """Raise InvalidError where the test rows have no labels of the task that the columns look like."""
    proposal = propose(description.columns)
    label = next((column for column in description.columns if proposal and column.name == proposal.label_column), None)
    if label is None:
        return
    if label.test_unlabelled or label.n_test_unseen == description.n_test:
        raise InvalidError(
            f"The test rows have no labels: none has a value in column {quote(label.name)} that train rows have, as in "
            "published test files whose labels are -1. Leave the test file out, or upload one with labels.",
            "test",
        )


def _listed(text: str) -> list[str]:
    return [value for part in text.split(",") if (value := part.strip())]


def _checked(kind: type[ColumnDivision] | type[FractionDivision], values: Mapping[str, Any]) -> Division:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        message = message_of(error.errors())
        field = next((str(part) for part in message.path), "column")
        raise InvalidError(message.sentence, FIELDS.get(field, f"split_{field}")) from None
