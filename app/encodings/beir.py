"""BEIR data sets: corpus and queries as two encodings, and their qrels, kept for the tasks of what comes out."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.context import Context
from app.core.names import base_name, clean_name
from app.db.encoding import EncodingConfig
from app.db.models import Encoding, Qrels
from app.db.types import new_id
from app.sandbox import read_in_sandbox
from app.storage import Incoming, Stored
from app.storage.ledger import Store
from app.storage.storage import CHECKING
from isoscope.core.beir_layout import CORPUS, QUERIES, ZIP_SUFFIX
from isoscope.files.beir import TEXT, BeirDescription, describe_beir
from isoscope.files.tables import TextsDescription
from isoscope.files.upload import NamedFile


def create_beir(context: Context, files: Sequence[Incoming], name: str | None = None) -> Encoding:
    """Keep a BEIR data set, a zip file or its files: a draft of the corpus, one of the queries, and the qrels.

    Returns the draft of the corpus; to launch it launches the queries with it.
    """
    given = clean_name(name, _name_of(files))
    root = context.settings.root
    with context.ledger.arriving() as store, tempfile.TemporaryDirectory(dir=root, prefix=CHECKING) as folder:
        arrived = [store(file.stream, context.settings.max_dataset_bytes) for file in files]
        found = _described(context, files, arrived, Path(folder))
        corpus, queries = (_kept(store, context, Path(folder) / filename) for filename in (CORPUS, QUERIES))
        qrels = [_kept(store, context, Path(folder) / split.filename) for split in found.splits]
        with context.ledger.recording(corpus, queries, *qrels) as session:
            made = draft_of(given, CORPUS, corpus, found.corpus)
            asking = draft_of(f"{given[:190]}, queries", QUERIES, queries, found.queries)
            session.add_all((made, asking))
            session.flush()
            session.add_all(
                Qrels(
                    corpus_id=made.id,
                    queries_id=asking.id,
                    split=split.name,
                    place=place,
                    judgments=split.judgments,
                    file_sha256=kept.sha256,
                )
                for place, (split, kept) in enumerate(zip(found.splits, qrels, strict=True))
            )
    context.ledger.release(*(one.sha256 for one in arrived))
    with context.sessions() as session:
        return session.get_one(Encoding, made.id)


def queries_of(context: Context, corpus: Encoding) -> Encoding | None:
    """Return the queries that came with a corpus; None of other texts, or where they were deleted."""
    if not corpus.qrels:
        return None
    return context.get(Encoding, corpus.qrels[0].queries_id)


def config_of_queries(config: EncodingConfig) -> EncodingConfig:
    """Return how queries are encoded beside a corpus: all of them, by the same model, layers and pooling."""
    return config.model_copy(update={"text_columns": [TEXT], "label_column": None, "max_rows": None})


def kept_qrels(session: Session, encoding_id: str) -> list[str]:
    """Return the hashes of the qrels that go with an encoding, of a corpus or of queries."""
    either = or_(Qrels.corpus_id == encoding_id, Qrels.queries_id == encoding_id)
    return list(session.scalars(select(Qrels.file_sha256).where(either)))


def _name_of(files: Sequence[Incoming]) -> str:
    first = base_name(files[0].filename)
    return first[: -len(ZIP_SUFFIX)] if first.lower().endswith(ZIP_SUFFIX) else "BEIR data set"


def _described(context: Context, files: Sequence[Incoming], arrived: Sequence[Stored], folder: Path) -> BeirDescription:
    named = [
        NamedFile(context.storage.local(stored.sha256), base_name(file.filename))
        for file, stored in zip(files, arrived, strict=True)
    ]
    return read_in_sandbox(context.settings, describe_beir, named, folder)


def _kept(store: Store, context: Context, path: Path) -> Stored:
    with path.open("rb") as stream:
        return store(stream, context.settings.max_upload_bytes)


def draft_of(name: str, filename: str, stored: Stored, found: TextsDescription) -> Encoding:
    """Return the draft, with an id, of texts that are stored and described."""
    return Encoding(
        id=new_id(),
        name=name,
        filename=filename,
        file_sha256=stored.sha256,
        n_texts=found.n,
        columns=found.columns,
        quoting=found.quoting,
    )
