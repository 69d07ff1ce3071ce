"""Encodings: texts run through a model, with one embedding per layer and pooling."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.db.encoding import EncodingConfig
from app.db.models.base import Base
from app.db.models.embeddings import Embedding
from app.db.states import EncodingStatus
from app.db.types import Typed, new_id, utcnow
from isoscope.files.columns import Column
from isoscope.files.text import Quoting


class Encoding(Base):
    """A file of texts, the model that encodes them, progress, and the resulting embeddings."""

    __tablename__ = "encodings"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)
    n_texts: Mapped[int]
    columns: Mapped[list[Column]] = mapped_column(Typed(list[Column]))
    quoting: Mapped[Quoting | None]
    config: Mapped[EncodingConfig | None] = mapped_column(Typed(EncodingConfig))
    status: Mapped[EncodingStatus] = mapped_column(default=EncodingStatus.DRAFT, index=True)
    # Encoded texts, out of ``total``.
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int | None]
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str | None] = mapped_column(Text)
    # Model revision, hashes, package versions, device.
    environment: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    # Launch time, by which the queue is ordered; for a draft, upload time.
    queued_at: Mapped[datetime] = mapped_column(default=utcnow)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    # By split; empty unless this is a BEIR corpus.
    qrels: Mapped[list["Qrels"]] = relationship(
        foreign_keys="Qrels.corpus_id", lazy="selectin", viewonly=True, order_by="Qrels.place"
    )
    embeddings: Mapped[list[Embedding]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="Embedding.layer"
    )


class Qrels(Base):
    """Relevance judgments of one split of a BEIR data set, whose corpus and queries are encodings."""

    __tablename__ = "qrels"
    __table_args__ = (UniqueConstraint("corpus_id", "split"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    corpus_id: Mapped[str] = mapped_column(ForeignKey("encodings.id", ondelete="CASCADE"), index=True)
    queries_id: Mapped[str] = mapped_column(ForeignKey("encodings.id", ondelete="CASCADE"), index=True)
    split: Mapped[str] = mapped_column(String(100))
    # Position in the list of splits, the usual split first.
    place: Mapped[int]
    judgments: Mapped[int]
    # As JSON lines: see isoscope.files.ground_truth.
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)
