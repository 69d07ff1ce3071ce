"""Embeddings: their files, what was measured of them, and what was made of them."""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from math import hypot
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint, select
from sqlalchemy.orm import Mapped, mapped_column, relationship

from app.core.evidence import block_degrees, quantile
from app.db.models.base import MAX_TAG_CHARACTERS, Answered, Base, Described
from app.db.states import EmbeddingOrigin, EmbeddingStatus, FileRole, MeasurementStatus, Pooling, RowsBy
from app.db.types import new_id, utcnow
from isoscope.files.upload import NamedFile, Upload
from isotropy.catalog import MEASURES


class StoredFile(Base):
    """The bytes of an upload, kept once under their hash however often they are uploaded."""

    __tablename__ = "files"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(default=utcnow)


class Embedding(Described, Base):
    """A matrix of embeddings: where it is from, what was found in its files, what was chosen, how far it is."""

    __tablename__ = "embeddings"

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    filename: Mapped[str] = mapped_column(String(255))
    """What the files are called together."""
    origin: Mapped[EmbeddingOrigin] = mapped_column(default=EmbeddingOrigin.UPLOAD)
    provenance: Mapped[dict[str, Any] | None]
    """How it was made here, null for an upload: of another embedding ``{"source", "method", "parameters", "fit_rows",
    "seed"}``, by the map of a task also ``{"which", "variant", "dimensions", "similarity"}``, as a selection of one
    ``{"source", "finding", "rows", "dimensions"}``, the latter two how many it leaves out, of texts ``{"model",
    "texts"}`` and what else repeats it. Words and numbers, not references."""
    source_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="SET NULL"), index=True)
    """The embedding that it was made of."""
    made_by_id: Mapped[str | None] = mapped_column(String(32))
    """The ``PostProcessing`` or ``TaskRun`` whose map makes it, which goes with the source: no foreign key."""
    encoding_id: Mapped[str | None] = mapped_column(ForeignKey("encodings.id", ondelete="CASCADE"), index=True)
    """The encoding of texts that it is a layer of; the next two say which."""
    layer: Mapped[int | None]
    """Of an encoding, 0 being the embedding layer; or of an uploaded array [layers, n, d]."""
    pooling: Mapped[Pooling | None]
    format: Mapped[str] = mapped_column(String(16))
    status: Mapped[EmbeddingStatus] = mapped_column(default=EmbeddingStatus.INSPECTING, index=True)
    commit_when_inspected: Mapped[bool] = mapped_column(default=False)
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=0)
    inspection: Mapped[dict[str, Any] | None]
    """What the files hold: see ``isoscope.files.matrix``."""
    selection: Mapped[dict[str, Any] | None]
    """Which part of it is the matrix, its names and its labels: see ``isoscope.files.selection``."""
    n: Mapped[int | None]
    d: Mapped[int | None]
    n_left_out: Mapped[int | None]
    """Rows with NaN or infinity, which no measure sees."""
    independent: Mapped[dict[str, Any] | None]
    """Which rows are taken as independent: ``{"by": "rows", "duplicates" or "groups", "groups": how many, "blocks":
    what is equal where rows were dealt to blocks alike, "names" and "names_in_any_order": hashes of the rows' names,
    where they have any}``. Null from older versions."""
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

    def key_of(self, *question: Any) -> str:
        """Return the key of a question about the vectors that are chosen at present."""
        return hashlib.sha256(json.dumps([self.selection, *question], sort_keys=True).encode()).hexdigest()

    @property
    def shards(self) -> list["EmbeddingFile"]:
        """The files that hold the vectors, in the order of their rows."""
        return [file for file in self.files if file.role is FileRole.VECTORS]

    def upload(self, path_of: Callable[["EmbeddingFile"], Path]) -> Upload:
        """Return the files as readers take them; ``path_of`` tells where one lies on this machine."""
        named_files = {file: NamedFile(path_of(file), file.filename) for file in self.files}
        annotation_files = (named_files[file] for file in self.files if file.role is FileRole.ANNOTATIONS)
        return Upload(tuple(named_files[shard] for shard in self.shards), next(annotation_files, None))

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What is wrong with the cloud, as ``FigureData`` has it; none from older versions."""
        findings: list[dict[str, Any]] = [] if self.findings_data is None else self.findings_data.data["findings"]
        return findings

    @property
    def n_measured(self) -> int:
        """Rows that measures see; 0 until the files have been read."""
        return (self.n or 0) - (self.n_left_out or 0)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


class EmbeddingTag(Base):
    """A word that a user put on an embedding, to find it by."""

    __tablename__ = "embedding_tags"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(String(MAX_TAG_CHARACTERS), primary_key=True, index=True)


class EmbeddingFile(Base):
    """A file of an embedding: its vectors, or a shard of them, or what names and labels the rows."""

    __tablename__ = "embedding_files"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    """The rows of one shard lie below those of the one before."""
    role: Mapped[FileRole] = mapped_column(default=FileRole.VECTORS)
    filename: Mapped[str] = mapped_column(String(255))
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)

    stored: Mapped[StoredFile] = relationship(lazy="joined", innerjoin=True)

    @property
    def size_bytes(self) -> int:
        return self.stored.size_bytes


class Measurement(Base):
    """One measure of one embedding. ``detail`` holds what is not a single number: a spectrum, a profile."""

    __tablename__ = "measurements"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    measure: Mapped[str] = mapped_column(String(40), primary_key=True)
    """Slug of ``isotropy.catalog``."""
    status: Mapped[MeasurementStatus]
    value: Mapped[float | None]
    se: Mapped[float | None]
    """Standard error of the value, in its units, where one is known."""
    resampled: Mapped[dict[str, Any] | None]
    """``{"parts": [what each block of rows adds to the error], "at": {"1000": {"value", "parts"}}}``, "at" for measures
    that depend on the number of rows: see ``isotropy.score`` and ``isotropy.neighbours``. Null from older versions."""
    reason: Mapped[str | None] = mapped_column(Text)
    n: Mapped[int]
    """Rows behind the value."""

    @property
    def parts(self) -> list[float]:
        """What each block of rows adds to the error; none where that is not known."""
        parts: list[float] = (self.resampled or {}).get("parts", [])
        return parts

    @property
    def low(self) -> float | None:
        """Lower end of the 95% interval of the population's value; None where the measure is no estimate of it."""
        return None if (half := self._half_width) is None or self.value is None else self.value - half

    @property
    def high(self) -> float | None:
        """Upper end of that interval."""
        return None if (half := self._half_width) is None or self.value is None else self.value + half

    @property
    def _half_width(self) -> float | None:
        measure = MEASURES.get(self.measure)
        if measure is None or measure.error != "population" or len(self.parts) < 2:
            return None
        return quantile(0.05, block_degrees(len(self.parts))) * hypot(*self.parts)

    detail: Mapped[dict[str, Any] | None]
    """Lists that pages show, one at most: ``{"values": [number or null]}``, greatest or first at k = 1;
    ``{"by_label": [{"label", "value", "n", "reason"}]}``, each also with "unbiased", a number or null, where that is
    measured; ``{"dimensions": [{"dimension", "value"}]}``; or ``{"parts": {name: number or null}}``. Others are for
    figures."""


BLAMED = "blamed"


class FigureData(Base):
    """What a figure of a report shows and no single measure holds; large, so that only that figure reads it.

    ``sample_size``: ``{"n", "draws", "rows": [m], "drawn": [draws of each], "full": {"isoscore", "isoscore_unbiased"},
    "zetas", "isoscore": {"mean": [], "sd": []}, "isoscore_unbiased": {...}, "isoscore_star": [{...} of each zeta],
    "reason"}``; a mean is null where a draw has no value, the sd also of one draw, as that of all rows is.
    ``projection``: ``{"n", "x": [], "y": [], "z": [], "shares": [3 shares of the variance], "names": null or [a name
    of each point, cut to 60 characters], "labels": null or {"names": [], "codes": [a place in names of each
    point]}, "density": null or {"x_edges": [], "y_edges": [], "counts": [rows of y, of x each], "outside"},
    "reason"}``; older data lack "names", or "z" and the third share. Rows without a label or of a
    small class have an empty name, the last.
    ``findings``: ``{"findings": [{"slug", "severity": "note", "warning" or "error", "title", "evidence", "rows":
    [at most 100 places in the file, from 0], "row_count", "names": null or [of each of these rows], "dimensions",
    "dimension_count", "dimension_names": the same of dimensions, "effect": {"measure", "before", "before_se", "after",
    "after_se"}, "advice"}]}``.
    ``blamed``: ``{slug of a finding: {"rows": [all places in the file], "dimensions": [all]}}``, of those that list
    fewer than they have.
    ``map``: ``app.db.point_map.MapHeader``, whose points lie in a ``FigureFile``, or ``{"reason"}`` why there are none.
    Of the first two, the reason is null, or why there are no rows and no points.
    ``neighbours``: ``{"k", "rows", "method", "parameters", "of": [{"name", "before": [{"name", "cosine"}],
    "after": [...]}]}``.
    """

    __tablename__ = "figure_data"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    data: Mapped[dict[str, Any]]


class FigureFile(Base):
    """A file that a figure of a report reads: see ``app.db.point_map``."""

    __tablename__ = "figure_files"

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True)
    slug: Mapped[str] = mapped_column(String(40), primary_key=True)
    file_sha256: Mapped[str] = mapped_column(ForeignKey("files.sha256"), index=True)


class ZetaCurve(Answered, Base):
    """IsoScore* at 101 values of zeta, for each of several numbers of rows drawn from the embedding.

    ``source`` is where the shrinkage covariance comes from: ``identity`` (scaled to the data), ``sample``
    (all rows of the same file) or ``embedding`` (``source_id``).
    """

    __tablename__ = "zeta_curves"
    # Of another embedding's covariance there is one curve, however often it is asked for at once.
    __table_args__ = (UniqueConstraint("embedding_id", "source", "source_id"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    source: Mapped[str] = mapped_column(String(16))
    source_id: Mapped[str | None] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    seed: Mapped[int] = mapped_column(default=0)
    lines: Mapped[list[Any] | None]
    """One ``{"rows": m, "values": [101 numbers or null], "reason": str | null}`` for each number of rows."""


class Lookup(Answered, Base):
    """The rows of an embedding that are nearest to a new text, encoded as they were."""

    __tablename__ = "lookups"
    # A text is looked up once, however often it is asked for at once.
    __table_args__ = (UniqueConstraint("embedding_id", "key"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    key: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the chosen vectors and the text: see ``lookup_key``."""
    name: Mapped[str] = mapped_column(Text)
    """The text, as it was asked for."""
    results: Mapped[dict[str, Any] | None]
    """Neighbors as in ``FigureData``, of the text, each with its position in the file as ``row``; none "after"."""

    def is_current(self, embedding: Embedding) -> bool:
        """Whether it was asked for of the vectors that are chosen now, and not of others chosen before."""
        return self.key == lookup_key(embedding, self.name)


def lookup_key(embedding: Embedding, text: str) -> str:
    """Return the key of the look-up of a text among the vectors that are chosen now."""
    return embedding.key_of(text, "text")


class Alignment(Answered, Base):
    """How alike two embeddings of the same rows are: the same whichever is named first, so the lower id is."""

    __tablename__ = "alignments"
    # Two embeddings are aligned once, however often it is asked for at once.
    __table_args__ = (UniqueConstraint("embedding_id", "other_id"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    other_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    rows_by: Mapped[RowsBy]
    results: Mapped[dict[str, Any] | None]
    """``{"shared": rows that both have, "rows": how many of them were compared, "scores": {slug of
    ``isotropy.catalog.ALIGNMENTS``: {"value", "parts", "reason"}}}``, as in ``Measurement``."""
    moved: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """How far each row moves: ``{"references": rows among which neighbors were sought, "names": null or [a name of
    each, cut to 60 characters], "rows": [places in the file of the lower id], "other_rows": [in that of the other],
    "kept": null or [share of neighbors], "residual": null or [of each], "reason": null or why one of them is null}``.
    See ``isotropy.alignment``."""


class PostProcessing(Answered, Base):
    """A method of post-processing and its parameters: fitted on part of an embedding's rows, judged by the others."""

    __tablename__ = "postprocessings"
    # The same method with the same parameters is fitted once, however often it is asked for at once.
    __table_args__ = (UniqueConstraint("embedding_id", "key"),)

    embedding_id: Mapped[str] = mapped_column(ForeignKey("embeddings.id", ondelete="CASCADE"), index=True)
    key: Mapped[str] = mapped_column(String(64))
    """SHA-256 of method and parameters."""
    method: Mapped[str] = mapped_column(String(40))
    """Slug of ``isotropy.catalog.METHODS``."""
    parameters: Mapped[dict[str, Any]]
    results: Mapped[dict[str, Any] | None]
    """``{"rows", "distinct", "fit_rows", "seed", "before": {slug: finding}, "after": {...}, "in_sample": {...},
    "neighbours"}``: distinct is the number of rows that differ, as equal ones are fitted on or held out together; a
    finding is a ``Measurement`` as a dict without its embedding; neighbors as in ``FigureData``, null without names.
    Before and after are of the rows held out, in sample of those fitted on, after."""
    state_sha256: Mapped[str | None] = mapped_column(ForeignKey("files.sha256"), index=True)
    """The fitted map as safetensors, for ``isotropy.postprocess.methods.restore``."""

    def is_of(self, embedding: Embedding) -> bool:
        """Whether it was asked for of the vectors that are chosen now, and not of others chosen before."""
        return self.key == embedding.key_of(self.method, self.parameters)


SAMPLE_SEED = 0
"""Of the rows that are drawn from an embedding, and of the half of them that methods are fitted on."""
MAKING = select(Embedding.made_by_id).where(
    Embedding.status == EmbeddingStatus.MAKING, Embedding.made_by_id.is_not(None)
)
"""Trials and tasks whose maps are making embeddings."""
