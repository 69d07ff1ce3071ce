"""Qrels that came with an encoding, for tasks on its layers."""

from typing import NamedTuple

from sqlalchemy import select

from app.context import Context
from app.db.models import Embedding, EmbeddingStatus, Qrels, TaskRun
from app.db.task import TaskConfig
from app.embeddings.service import get_embedding
from app.storage import Incoming
from app.tasks.service import create_task
from isoscope.core.errors import InvalidError
from isoscope.files.beir import choose_split


class SplitQrels(NamedTuple):
    """The relevant documents of one split, and the embedding of its queries by the model and layer of the corpus."""

    split: str
    judgments: int
    file_sha256: str
    queries_id: str | None
    """None until the queries are measured."""


def list_qrels(context: Context, corpus: Embedding) -> list[SplitQrels]:
    """Return the qrels that came with an embedding's texts, the usual split first; empty for texts without qrels."""
    if corpus.encoding_id is None:
        return []
    query = select(Qrels).where(Qrels.corpus_id == corpus.encoding_id).order_by(Qrels.place)
    matching_queries = select(Embedding.id).where(
        Embedding.layer == corpus.layer,
        Embedding.pooling == corpus.pooling,
        Embedding.d == corpus.d,
        Embedding.status == EmbeddingStatus.READY,
        Embedding.trashed_at.is_(None),
    )
    with context.sessions() as session:
        return [
            SplitQrels(
                qrels.split,
                qrels.judgments,
                qrels.file_sha256,
                session.scalar(matching_queries.where(Embedding.encoding_id == qrels.queries_id)),
            )
            for qrels in session.scalars(query)
        ]


def create_task_of_split(
    context: Context, embedding_id: str, config: TaskConfig, split: str, queries_id: str | None, *, launch: bool
) -> TaskRun:
    """Create a task with the qrels of a split that came with the texts of an embedding. Raises InvalidError."""
    corpus = get_embedding(context, embedding_id)
    splits = {qrels.split: qrels for qrels in list_qrels(context, corpus)}
    if not splits:
        raise InvalidError(f"{corpus.name} came without qrels. Upload a file of relevant documents.", "split")
    split_qrels = splits[choose_split(splits, split)]
    chosen_queries_id = queries_id or split_qrels.queries_id
    if chosen_queries_id is None:
        raise InvalidError("The queries of this data set are not measured yet. Wait for their encoding.", "queries_id")
    with context.storage.local_path(split_qrels.file_sha256).open("rb") as stream:
        truth = Incoming(stream, f"{split_qrels.split}.jsonl")
        return create_task(context, embedding_id, config, chosen_queries_id, truth, launch=launch)
