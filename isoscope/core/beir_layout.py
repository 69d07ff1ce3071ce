"""How a BEIR data set lies in a folder or a zip file: corpus.jsonl, queries.jsonl and qrels/*.tsv."""

from collections.abc import Sequence
from pathlib import Path

from isoscope.core.errors import InvalidError

CORPUS, QUERIES, QRELS_SUFFIX = "corpus.jsonl", "queries.jsonl", ".tsv"
ZIP_SUFFIX = ".zip"
LAYOUT = "A BEIR data set holds corpus.jsonl, queries.jsonl and qrels/test.tsv"


def is_beir(filenames: Sequence[str]) -> bool:
    """Whether files with these names are a BEIR data set rather than one file of texts: a zip file, or several."""
    return len(filenames) > 1 or any(name.lower().endswith(ZIP_SUFFIX) for name in filenames)


def folder_paths(folder: Path) -> list[Path]:
    """Return the files of a data set in a folder.

    Raises:
        InvalidError: the folder holds none.

    """
    texts = [path for path in (folder / CORPUS, folder / QUERIES) if path.is_file()]
    qrels = sorted((folder / "qrels").glob(f"*{QRELS_SUFFIX}"))
    if len(texts) < 2 or not qrels:
        raise InvalidError(f"{folder} is no BEIR data set. {LAYOUT}.", "file")
    return [*texts, *qrels]
