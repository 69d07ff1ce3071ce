"""Embeddings: their files, measurements, figures, and derived results."""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from math import hypot
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint, select
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.evidence import block_degrees, t_quantile
from app.db.models.base import MAX_TAG_CHARACTERS, Base, Described, RequestedResult
from app.db.states import EmbeddingOrigin, EmbeddingStatus, FileRole, MeasurementStatus, Pooling, RowsBy
from app.db.types import new_id, utcnow
from isoscope.files.upload import NamedFile, Upload
from isotropy.catalog import MEASURES


class StoredFile(Base):
    """An uploaded file, stored once under its hash."""

    __tablename__ = "files"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)


class Embedding(Described, Base):
    """A matrix of embeddings: origin, files, selection, progress and results."""

    __tablename__ = "embeddings"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    filename: Mapped[str] = mapped_column(String(255))
    origin: Mapped[EmbeddingOrigin] = mapped_column(default=EmbeddingOrigin.UPLOAD)
    # How Isoscope made it, as names and numbers without references; null for an upload.
    # Post-processed: {"source", "method", "parameters", "fit_rows", "seed"}; by a task's map also {"which", "variant",
    # "dimensions", "similarity"}. Selected: {"source", "finding", "rows", "dimensions"} (numbers of excluded ones).
    # Encoded: {"model", "texts"} and the settings of the encoding.
    provenance: Mapped[dict[str, Any] | None]
    source_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="SET NULL"), index=True)
    # The PostProcessing or TaskRun whose map makes it. No foreign key: it is deleted with the source.
    made_by_id: Mapped[str | None] = mapped_column(String(32))
    # The encoding that it belongs to, as the vectors of one ``layer`` under one ``pooling``.
    encoding_id: Mapped[str | None] = mapped_column(ForeignKey("encodings.id", ondelete="CASCADE"), index=True)
    # Layer of an encoding, 0 for the embedding layer; or of an uploaded array [layers, n, d].
    layer: Mapped[int | None]
    pooling: Mapped[Pooling | None]
    format: Mapped[str] = mapped_column(String(16))
    status: Mapped[EmbeddingStatus] = mapped_column(default=EmbeddingStatus.INSPECTING, index=True)
    commit_when_inspected: Mapped[bool] = mapped_column(default=False)
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    inspection: Mapped[dict[str, Any] | None]
    selection: Mapped[dict[str, Any] | None]
    n: Mapped[int | None]
    d: Mapped[int | None]
    # Rows with NaN or infinity, which are not measured.
    n_left_out: Mapped[int | None]
    # {"by": "rows", "duplicates" or "groups", "groups": count, "blocks": hash of the rows' assignment to blocks,
    # "names" and "names_in_any_order": hashes of the rows' names}.
    independent: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(default=utcnow, index=True)
    measured_at: Mapped[datetime | None]
    trashed_at: Mapped[datetime | None] = mapped_column(index=True)

    tags: Mapped[list["EmbeddingTag"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="func.lower(EmbeddingTag.tag)", lazy="selectin"
    )
    files: Mapped[list["EmbeddingFile"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="EmbeddingFile.position", lazy="selectin"
    )
    measurements: Mapped[list["Measurement"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, order_by="Measurement.measure"
    )
    curves: Mapped[list["ZetaCurve"]] = relationship(
        cascade="all, delete-orphan", passive_deletes=True, foreign_keys="ZetaCurve.embedding_id"
    )
    findings_data: Mapped["FigureData | None"] = relationship(
        primaryjoin="and_(FigureData.embedding_id == Embedding.id, FigureData.slug == 'findings')", viewonly=True
    )

    def hash_request(self, *request: Any) -> str:
        """Return a key for the result of a request: the SHA-256 of the selection and of values that JSON can hold."""
        return hashlib.sha256(json.dumps([self.selection, *request], sort_keys=True).encode()).hexdigest()

    @property
    def shards(self) -> list["EmbeddingFile"]:
        return [file for file in self.files if file.role is FileRole.VECTORS]

    def upload(self, path_of: Callable[["EmbeddingFile"], Path]) -> Upload:
        """Return the files as readers take them. ``path_of`` returns the local path of a file."""
        named_files = {file: NamedFile(path_of(file), file.filename) for file in self.files}
        annotation_files = (named_files[file] for file in self.files if file.role is FileRole.ANNOTATIONS)
        return Upload(tuple(named_files[shard] for shard in self.shards), next(annotation_files, None))

    @property
    def findings(self) -> list[dict[str, Any]]:
        findings: list[dict[str, Any]] = [] if self.findings_data is None else self.findings_data.data["findings"]
        return findings

    @property
    def series(self) -> str | None:
        """Return a key that all layers of one encoding and pooling, or of one upload, share; None if it is no layer."""
        if self.layer is None:
            return None
        if self.encoding_id is not None:
            return f"{self.encoding_id} {self.pooling}"
        return " ".join(shard.file_sha256 for shard in self.shards)

    @property
    def n_measured(self) -> int:
        """Return the number of measured rows; 0 until the files have been read."""
        return (self.n or 0) - (self.n_left_out or 0)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class EmbeddingTag(Base):
    """A user's tag of an embedding."""

    __tablename__ = "embedding_tags"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


class EmbeddingFile(Base):
    """A file of an embedding: vectors, a shard of them, or names and labels of rows."""

    __tablename__ = "embedding_files"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    # Shards are concatenated in this order.
    position: Mapped[int] = mapped_column(primary_key=True)
    role: Mapped[FileRole] = mapped_column(default=FileRole.VECTORS)
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)

    stored: Mapped[StoredFile] = relationship(lazy="joined", innerjoin=True)

    @property
    def size_bytes(self) -> int:
        return self.stored.size_bytes


class Measurement(Base):
    """The value of one measure of one embedding."""

    __tablename__ = "measurements"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    measure: Mapped[str] = mapped_column(String(40), primary_key=True)
    status: Mapped[MeasurementStatus]
    value: Mapped[float | None]
    # Standard error of the value, where one is known.
    se: Mapped[float | None]
    # {"parts": [contribution of each block to the error], "at": {"1000": {"value", "parts"}}}; "at" is by number
    # of rows, for measures that depend on it: see isotropy.score and isotropy.neighbors.
    resampled: Mapped[dict[str, Any] | None]
    reason: Mapped[str | None] = mapped_column(Text)
    n: Mapped[int]

    @property
    def parts(self) -> list[float]:
        """Return the contribution of each block of rows to the standard error; empty if it is unknown."""
        parts: list[float] = (self.resampled or {}).get("parts", [])
        return parts

    @property
    def low(self) -> float | None:
        """Return the lower end of the population value's 95% interval; None for a measure without such an interval."""
        return None if (half := self._half_width) is None or self.value is None else self.value - half

    @property
    def high(self) -> float | None:
        return None if (half := self._half_width) is None or self.value is None else self.value + half

    @property
    def _half_width(self) -> float | None:
        measure = MEASURES.get(self.measure)
        if measure is None or measure.error != "population" or len(self.parts) < 2:
            return None
        return t_quantile(0.05, block_degrees(len(self.parts))) * hypot(*self.parts)

    # At most one list for pages: {"values": [number or null]}, largest first or by k from 1;
    # {"by_label": [{"label", "value", "n", "reason"}]}, both optionally with "unbiased";
    # {"dimensions": [{"dimension", "value"}]}; or {"parts": {name: number or null}}. Other keys are for figures.
    detail: Mapped[dict[str, Any] | None]


FULL_FINDINGS = "blamed"  # a slug in FigureData


class FigureData(Base):
    """Data of one figure of a report, other than measures. It is large, so only that figure reads it.

    ``sample_size``: ``{"n", "draws", "rows": [m], "drawn": [draws by m], "full": {"isoscore", "isoscore_unbiased"},
    "zetas", "isoscore": {"mean": [], "sd": []}, "isoscore_unbiased": {...}, "isoscore_star": [{...} by zeta],
    "reason"}``. A mean is null if a draw has no value, a standard deviation also for a single draw.
    ``projection``: ``{"n", "x": [], "y": [], "z": [], "shares": [3 shares of the variance], "names": null or [by
    point, at most 60 characters], "labels": null or {"names": [], "codes": [index in names by point]}, "density": null
    or {"x_edges": [], "y_edges": [], "counts": [[by x] by y], "outside"}, "reason"}``. Older data lack "names", or "z"
    and the third share. The last label name is empty, for rows without a label or of a small class.
    ``findings``: ``{"findings": [{"slug", "severity": "note", "warning" or "error", "title", "evidence", "rows":
    [at most 100 positions in the file, from 0], "row_count", "names": null or [by row], "dimensions",
    "dimension_count", "dimension_names": likewise for dimensions, "effect": {"measure", "before", "before_se",
    "after", "after_se"}, "advice"}]}``.
    ``blamed``: ``{slug of a finding: {"rows": [all positions in the file], "dimensions": [all]}}``, for findings that
    list only some of theirs.
    ``map``: ``app.db.point_map.MapHeader``, whose points are in a ``FigureFile``; or ``{"reason"}`` if there are none.
    ``neighbors``: ``{"k", "rows", "method", "parameters", "of": [{"name", "before": [{"name", "cosine"}],
    "after": [...]}]}``.
    In the first two, "reason" is null, or says why the data are empty.
    """

    __tablename__ = "figure_data"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    data: Mapped[dict[str, Any]]


class FigureFile(Base):
    """A file of a report's figure: see ``app.db.point_map``."""

    __tablename__ = "figure_files"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)


class MapLayout(RequestedResult, Base):
    """The job that adds a neighbor layout to an embedding's map: see ``app.db.point_map.LayoutHeader``."""

    __tablename__ = "map_layouts"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), unique=True)


class ZetaCurve(RequestedResult, Base):
    """IsoScore* at 101 values of zeta, for several numbers of rows drawn from the embedding.

    ``source`` of the shrinkage covariance is ``identity`` (scaled to the data), ``sample`` (all rows of the same file)
    or ``embedding`` (``source_id``).
    """

    __tablename__ = "zeta_curves"
    # One curve per source embedding, even if requested several times at once.
    __table_args__ = (UniqueConstraint("embedding_id", "source", "source_id"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    source: Mapped[str] = mapped_column(String(16))
    source_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    seed: Mapped[int] = mapped_column(default=0)
    # {"rows": m, "values": [101 numbers or null], "reason": str | null} for each number of rows.
    lines: Mapped[list[Any] | None]


class Lookup(RequestedResult, Base):
    """The rows of an embedding nearest to a new text."""

    __tablename__ = "lookups"
    # One lookup per text, even if requested several times at once.
    __table_args__ = (UniqueConstraint("embedding_id", "key"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    # SHA-256 of the selection and the text: see lookup_key.
    key: Mapped[str] = mapped_column(String(64))
    # The text.
    name: Mapped[str] = mapped_column(Text)
    # Neighbors as in FigureData, with their position in the file as "row", without "after".
    results: Mapped[dict[str, Any] | None]


def lookup_key(embedding: Embedding, text: str) -> str:
    return embedding.hash_request(text, "text")


class Alignment(RequestedResult, Base):
    """Alignment of two embeddings of the same rows, the lower id first."""

    __tablename__ = "alignments"
    # One alignment per pair of embeddings, even if requested several times at once.
    __table_args__ = (UniqueConstraint("embedding_id", "other_id"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    other_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    rows_by: Mapped[RowsBy]
    # {"shared": number of shared rows, "rows": compared rows, "scores": {slug of isotropy.catalog.ALIGNMENTS: {"value",
    # "parts", "reason"}}, as in Measurement, "upgrades": [this model's to the other's, the reverse] or []}.
    results: Mapped[dict[str, Any] | None]
    # {"references": rows searched for neighbors, "names": null or [at most 60 characters], "rows": [positions in
    # the file of the lower id], "other_rows": [in the other file], "kept": null or [share of neighbors], "residual":
    # null or [by row], "reason": null or why one of these is null}. See isotropy.alignment.
    moved: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)


class PostProcessing(RequestedResult, Base):
    """A post-processing method with parameters: fitted on part of an embedding's rows, evaluated on the others."""

    __tablename__ = "postprocessings"
    # One fit per method and parameters, even if requested several times at once.
    __table_args__ = (UniqueConstraint("embedding_id", "key"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    # SHA-256 of the selection, method and parameters: see Embedding.hash_request.
    key: Mapped[str] = mapped_column(String(64))
    # Slug of isotropy.catalog.METHODS.
    method: Mapped[str] = mapped_column(String(40))
    parameters: Mapped[dict[str, Any]]
    # {"rows", "distinct": distinct rows, "fit_rows", "seed", "before": {slug: measurement}, "after", "in_sample",
    # "neighbours": as in FigureData, null without names}. "before" and "after" measure held-out rows, "in_sample" the
    # fitted rows after fitting. Equal rows are fitted on or held out together.
    results: Mapped[dict[str, Any] | None]
    # The fitted map as safetensors, for isotropy.postprocess.methods.restore.
    state_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)

    def fits_selection_of(self, embedding: Embedding) -> bool:
        """Return whether it was fitted on the current selection of the embedding."""
        return self.key == embedding.hash_request(self.method, self.parameters)


# Seed that draws the sampled rows of an embedding, and the half of them on which methods are fitted.
SAMPLE_SEED = 0
# Ids of post-processings and tasks whose maps are being applied to make embeddings.
MAP_IDS_IN_USE = select(Embedding.made_by_id).where(
    Embedding.status == EmbeddingStatus.MAKING, Embedding.made_by_id.is_not(None)
)
