"""Read BEIR data sets: corpus.jsonl, queries.jsonl and qrels/*.tsv, in a folder or a zip file.

Uploaded data sets are rewritten as texts with ids, and judgments by split.
"""

import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

from isoscope.core.beir_layout import BEIR_LAYOUT, CORPUS, QRELS_SUFFIX, QUERIES, list_beir_files
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import listed, prefixed_errors, quote
from isoscope.files.columns import TextsDescription, describe_texts, open_table
from isoscope.files.compressed import COMPRESSIONS, ENCRYPTED, open_zip, reading_zip, require_plausible_size
from isoscope.files.contents import cell_text
from isoscope.files.ground_truth import QRELS, read_qrels, write_lines
from isoscope.files.strict import Frozen
from isoscope.files.upload import NamedFile
from isoscope.files.upload_formats import ZIP_MAGIC, Role

USUAL_SPLIT = "test"
MAX_MEMBERS = 10_000
MAX_SPLITS = 20
MAX_SPLIT_CHARACTERS = 100
ZIP_ERROR = "The zip file cannot be read: {reason}. Write it again."
# Files that macOS and editors add begin like this.
IGNORED_PREFIXES = ("__MACOSX", ".")
ID, TITLE, TEXT = "_id", "title", "text"


class BeirFiles(NamedTuple):
    """The files of a data set."""

    corpus: NamedFile
    queries: NamedFile
    qrels: dict[str, NamedFile]


def find_beir(files: Iterable[NamedFile]) -> BeirFiles:
    """Identify the files of a data set by name, in any folder; raise InvalidError if one is missing or repeated."""
    texts: dict[str, NamedFile] = {}
    qrels: dict[str, NamedFile] = {}
    for file in files:
        name = PurePosixPath(file.filename).name
        is_qrels = name.endswith(QRELS_SUFFIX)
        if not is_qrels and name not in (CORPUS, QUERIES):
            raise InvalidError(f"{quote(name)} has no place here. {BEIR_LAYOUT}.", "file")
        files_by_key, key = (qrels, name.removesuffix(QRELS_SUFFIX)) if is_qrels else (texts, name)
        if key in files_by_key:
            raise InvalidError(f"{quote(name)} is there twice. Choose the files of one data set.", "file")
        files_by_key[key] = file
    missing = [name for name in (CORPUS, QUERIES) if name not in texts] + ([] if qrels else ["qrels/test.tsv"])
    if missing:
        raise InvalidError(f"There is no {' and no '.join(missing)}. {BEIR_LAYOUT}.", "file")
    if len(qrels) > MAX_SPLITS:
        raise TooLargeError(f"There are {len(qrels):,} files of qrels, more than {MAX_SPLITS}. Leave some out.", "file")
    if invalid_splits := [split for split in qrels if not 0 < len(split) <= MAX_SPLIT_CHARACTERS]:
        raise InvalidError(
            f"{quote(invalid_splits[0] + QRELS_SUFFIX)} names no split: expected 1 to {MAX_SPLIT_CHARACTERS} "
            f"characters before {QRELS_SUFFIX}.",
            "file",
        )
    splits = sorted(qrels, key=lambda split: (split != USUAL_SPLIT, split))
    return BeirFiles(texts[CORPUS], texts[QUERIES], {split: qrels[split] for split in splits})


def choose_split(splits: Iterable[str], requested: str | None) -> str:
    available = list(splits)
    if requested is not None and requested not in available:
        raise InvalidError(
            f"There are no qrels of the split {quote(requested)}. Splits are: {listed(available)}.", "split"
        )
    return requested or (USUAL_SPLIT if USUAL_SPLIT in available else available[0])


@contextmanager
def open_beir(path: Path) -> Iterator[BeirFiles]:
    """Open a data set in a folder or a zip file, unpacked until the context ends."""
    if path.is_dir():
        yield find_beir(NamedFile(member, member.name) for member in list_beir_files(path))
        return
    with TemporaryDirectory(prefix="isoscope-beir-") as folder:
        yield find_beir(unpack(path, Path(folder)))


def unpack(path: Path, folder: Path) -> list[NamedFile]:
    """Write the members of a zip file that belong to a data set into ``folder``, under new names.

    Raises InvalidError for a damaged or encrypted file, TooLargeError for one made to exhaust memory or disk.
    """
    with path.open("rb") as stream:
        if not stream.read(4).startswith(ZIP_MAGIC):
            raise InvalidError(f"This is not a zip file. {BEIR_LAYOUT}, in a folder or a zip file.", "file")
    with open_zip(path, ZIP_ERROR) as archive:
        members = _select_members(archive.infolist())
        files = []
        for number, member in enumerate(members):
            target = folder / f"{number}{PurePosixPath(member.filename).suffix}"
            with reading_zip(ZIP_ERROR), archive.open(member) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)  # zipfile reads no more than the directory declares
            files.append(NamedFile(target, member.filename))
    return files


def _select_members(directory: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    if len(directory) > MAX_MEMBERS:
        raise TooLargeError(f"The zip file has {len(directory):,} members, more than {MAX_MEMBERS:,}. {BEIR_LAYOUT}.")
    members = []
    for member in directory:
        path = PurePosixPath(member.filename)
        belongs = path.name in (CORPUS, QUERIES) or (path.parent.name == "qrels" and path.suffix == QRELS_SUFFIX)
        if belongs and not any(part.startswith(IGNORED_PREFIXES) for part in path.parts):
            members.append(member)
    for member in members:
        name = quote(member.filename)
        if member.flag_bits & ENCRYPTED:
            raise InvalidError(f"{name} is encrypted. Write the zip file without a password.")
        if member.compress_type not in COMPRESSIONS:
            raise InvalidError(f"{name} is compressed by a method that is not read here. Use ordinary zip compression.")
        require_plausible_size(name, member.file_size, member.compress_size)
    require_plausible_size(
        "The zip file", sum(entry.file_size for entry in members), sum(entry.compress_size for entry in members)
    )
    return members


class BeirSplit(Frozen):
    """The file of a split's judgments, and their number."""

    name: str
    filename: str
    judgments: int


class BeirDescription(Frozen):
    """Contents of a data set, whose files ``describe_beir`` has written."""

    corpus: TextsDescription
    queries: TextsDescription
    splits: list[BeirSplit]


def describe_beir(files: list[NamedFile], folder: Path) -> BeirDescription:
    """Read a data set and write corpus, queries and judgments to ``folder``. Run it in the sandbox.

    Puts a document's title before its text, as BEIR does. Errors have the field ``file``.
    """
    if len(files) == 1:
        with prefixed_errors(files[0].filename, "file"):
            unpacked = folder / "unpacked"
            unpacked.mkdir(exist_ok=True)
            files = unpack(files[0].path, unpacked)
    data_set = find_beir(files)
    for file, name, columns in ((data_set.corpus, CORPUS, [ID, TITLE, TEXT]), (data_set.queries, QUERIES, [ID, TEXT])):
        with (folder / name).open("w", encoding="utf-8") as output:
            for row_id, *texts in _read_rows(file, columns):
                text = " ".join(part for part in texts if part.strip())
                output.write(f"{json.dumps({ID: row_id, TEXT: text})}\n")
    splits = []
    for number, (name, file) in enumerate(data_set.qrels.items()):
        target = folder / f"qrels-{number}.jsonl"
        with prefixed_errors(file.filename, "file"):
            judgments = read_qrels(file.path, file.filename)
        if not judgments:
            raise InvalidError(f"{file.filename} judges nothing: expected lines of query-id, corpus-id, score.", "file")
        write_lines(QRELS, judgments, target)
        splits.append(BeirSplit(name=name, filename=target.name, judgments=len(judgments)))
    corpus, queries = (describe_texts(folder / name, name) for name in (CORPUS, QUERIES))
    return BeirDescription(corpus=corpus, queries=queries, splits=splits)


def read_beir_ids(file: NamedFile) -> list[str]:
    """Return the ids of a corpus or of queries, in file order."""
    return [row[0] for row in _read_rows(file, [ID])]


def _read_rows(file: NamedFile, columns: list[str]) -> Iterator[list[str]]:
    with prefixed_errors(file.filename, "file"):
        table = open_table(file.path, file.filename, Role.TEXTS)
        if missing := [name for name in columns if name not in table.columns and name != TITLE]:
            raise InvalidError(f"no key {missing[0]!r} in its lines. Keys are: {listed(table.columns)}.")
        for number, row in enumerate(table.rows([name for name in columns if name in table.columns]), 1):
            values = list(map(cell_text, row))
            if not values[0]:
                raise InvalidError(f"row {number:,} has no {ID!r}, by which qrels name it.")
            yield values
