"""The layout of a BEIR data set in a folder or a zip file: corpus.jsonl, queries.jsonl and qrels/*.tsv."""

from collections.abc import Sequence
from pathlib import Path

from isoscope.core.errors import InvalidError

CORPUS, QUERIES, QRELS_SUFFIX = "corpus.jsonl", "queries.jsonl", ".tsv"
ZIP_SUFFIX = ".zip"
BEIR_LAYOUT = "A BEIR data set holds corpus.jsonl, queries.jsonl and qrels/test.tsv"


def is_beir(filenames: Sequence[str]) -> bool:
    """Return whether file names are those of a BEIR data set: a zip file, or several files."""
    return len(filenames) > 1 or any(name.lower().endswith(ZIP_SUFFIX) for name in filenames)


def list_beir_files(folder: Path) -> list[Path]:
    """Return the paths of the corpus, the queries and the qrels in a folder; raise InvalidError if one is missing."""
    corpus, queries = folder / CORPUS, folder / QUERIES
    qrels = sorted((folder / "qrels").glob(f"*{QRELS_SUFFIX}"))
    if not corpus.is_file() or not queries.is_file() or not qrels:
        raise InvalidError(f"{folder} is no BEIR data set. {BEIR_LAYOUT}.", "file")
    return [corpus, queries, *qrels]
