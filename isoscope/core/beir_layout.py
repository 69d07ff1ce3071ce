"""The layout of a BEIR data set in a folder or a zip file: corpus.jsonl, queries.jsonl and qrels/*.tsv."""

from collections.abc import Sequence
from pathlib import Path

from isoscope.core.errors import InvalidError

CORPUS, QUERIES, QRELS_SUFFIX = "corpus.jsonl", "queries.jsonl", ".tsv"
ZIP_SUFFIX = ".zip"
LAYOUT = "A BEIR data set holds corpus.jsonl, queries.jsonl and qrels/test.tsv"


def is_beir(filenames: Sequence[str]) -> bool:
    """Return whether file names are those of a BEIR data set: a zip file, or several files."""
    return len(filenames) > 1 or any(name.lower().endswith(ZIP_SUFFIX) for name in filenames)


def folder_paths(folder: Path) -> list[Path]:
    """Return the files of a BEIR data set in a folder; raise InvalidError if there are none."""
    texts = [path for path in (folder / CORPUS, folder / QUERIES) if path.is_file()]
    qrels = sorted((folder / "qrels").glob(f"*{QRELS_SUFFIX}"))
    if len(texts) < 2 or not qrels:
        raise InvalidError(f"{folder} is no BEIR data set. {LAYOUT}.", "file")
    return [*texts, *qrels]
