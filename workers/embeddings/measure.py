"""The measure job: a committed embedding in; measurements, zeta curves and data of figures out."""

import io
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import (
    BLAMED,
    Base,
    Embedding,
    EmbeddingStatus,
    FigureData,
    FigureFile,
    Measurement,
    MeasurementStatus,
    ResultStatus,
    ZetaCurve,
)
from app.db.point_map import MAP, MAX_MAPPED
from app.db.types import utcnow
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.files.matrix import Matrix
from isoscope.files.selection import MAX_LISTED as MAX_CHOSEN
from isoscope.rows import values_of, with_names
from isotropy.cloud import Cloud, read_cloud
from isotropy.findings import findings_of
from isotropy.findings.finding import MAX_LISTED
from isotropy.findings.finding import Finding as Blaming
from isotropy.projection import PointMap, projection
from isotropy.report import Finding, measure
from isotropy.sample_size import sample_size
from isotropy.score import Score
from isotropy.spectrum import scaled_identity
from workers.embeddings.inspection import open_embedding
from workers.embeddings.neighbours import neighbours_data
from workers.embeddings.point_map import map_files
from workers.embeddings.zeta_curves import zeta_lines
from workers.files import keeping
from workers.job_rows import fail, job_sessions, waiting


def columns_of(slug: str, found: Finding) -> dict[str, Any]:
    """Return the columns of a ``Measurement``, but for its embedding."""
    value = found.score.value
    return {
        "measure": slug,
        "status": MeasurementStatus.UNDEFINED if value is None else MeasurementStatus.OK,
        "value": value,
        "se": found.score.se,
        "resampled": _resampled(found),
        "reason": found.score.reason,
        "n": found.n,
        "detail": found.detail,
    }


def _resampled(found: Finding) -> dict[str, Any] | None:
    if not found.score.parts and not found.at_sizes:
        return None
    at = {str(size): _with_parts(score) for size, score in found.at_sizes.items() if score.parts}
    return {"parts": list(found.score.parts), "at": at}


def _with_parts(score: Score) -> dict[str, Any]:
    return {"value": score.value, "parts": list(score.parts)}


def figure_data(cloud: Cloud, matrix: Matrix, mapped: PointMap, seed: int) -> dict[str, dict[str, Any]]:
    """Return the data of each figure that there can be by its slug, in the form of ``FigureData``.

    ``mapped`` collects the rows of the map; ``seed`` is of what is drawn.
    """
    names_of = partial(values_of, matrix, matrix.selection.names)
    found = findings_of(cloud, names_of, matrix.dimension_names)
    found = [one.in_file(matrix.row_places, matrix.dimension_numbers) for one in found]
    data: dict[str, dict[str, Any]] = {
        "sample_size": sample_size(cloud),
        "projection": projection(cloud, seed, names_of, mapped),
        "findings": {"findings": [one.document() for one in found]},
        BLAMED: {one.slug: _blamed(one) for one in found if _is_cut(one)},
    }
    neighbours = neighbours_data(cloud, names_of(cloud.rows[: len(cloud.pairs)]), seed, matrix.selection.lists_by)
    return data if neighbours is None else data | {"neighbours": neighbours}


def _is_cut(one: Blaming) -> bool:
    """Whether a finding lists fewer rows or dimensions than it has, but no more than a selection leaves out."""
    counts = len(one.every_row), len(one.every_dimension)
    return max(counts) > MAX_LISTED and max(counts) <= MAX_CHOSEN


def _blamed(one: Blaming) -> dict[str, list[int]]:
    return {"rows": one.every_row.tolist(), "dimensions": one.every_dimension.tolist()}


SEED = 0
OWN_SOURCES = ("identity", "sample")


def measure_embedding(embedding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Measure an embedding and make it ready, in one transaction; on the CPU, which leaves GPUs to the fine-tunes."""
    sessions = job_sessions(settings)
    with sessions() as session:
        embedding = session.get(Embedding, embedding_id)
    if embedding is None or embedding.status is not EmbeddingStatus.MEASURING:
        return ()
    try:
        matrix = open_embedding(embedding, settings)
        cloud = read_cloud(matrix, SEED, similarity=matrix.selection.neighbors_by)
        mapped = PointMap(min(cloud.n, MAX_MAPPED), SEED)
        figures = figure_data(cloud, matrix, mapped, SEED)
        files = map_files(cloud, matrix, mapped, figures["projection"])
        figures[MAP] = files.header.model_dump() if files else {"reason": figures["projection"]["reason"]}
        data = [FigureData(embedding_id=embedding_id, slug=slug, data=one) for slug, one in figures.items()]
        rows = [*_measurements(embedding_id, cloud, matrix), *_curves(embedding_id, cloud), *data]
        ledger = Ledger(sessions, open_storage(settings))
        with keeping(ledger) as keep:
            kept = {slug: keep(partial(io.BytesIO, one)) for slug, one in (files.stored if files else {}).items()}
            rows += [FigureFile(embedding_id=embedding_id, slug=slug, file_sha256=one.sha256)
                     for slug, one in kept.items()]  # fmt: skip
            with ledger.recording(*kept.values()) as session:
                replaced = _replace(session, embedding, cloud, rows, _independent(cloud, matrix))
        ledger.release(*replaced)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        fail(error, sessions, embedding)
    return ()


def _measurements(embedding_id: str, cloud: Cloud, matrix: Matrix) -> list[Measurement]:
    """A row for every measure of the catalog."""
    return [
        Measurement(embedding_id=embedding_id, **columns_of(slug, with_names(found, matrix, matrix.selection.names)))
        for slug, found in measure(cloud).items()
    ]


def _independent(cloud: Cloud, matrix: Matrix) -> dict[str, Any]:
    """What ``Embedding.independent`` holds."""
    dealing = cloud.dealing
    told: dict[str, Any] = {"by": dealing.by, "groups": dealing.groups, "blocks": dealing.key()}
    if matrix.selection.names is None:
        return told
    in_order, in_any_order = sha256(), 0
    for name in matrix.contents.values(matrix.selection.names):
        own = sha256(name.encode()).digest()[:8]
        in_order.update(own)
        in_any_order += int.from_bytes(own)
    return told | {"names": in_order.hexdigest()[:16], "names_in_any_order": f"{in_any_order % 2**64:016x}"}


def _curves(embedding_id: str, cloud: Cloud) -> list[ZetaCurve]:
    """The curves with the identity scaled to the rows, and with the covariance of all rows of the file."""
    S = cloud.moments.covariance()
    lines = zeta_lines(cloud, [scaled_identity, lambda _: S])
    return [
        ZetaCurve(embedding_id=embedding_id, source=source, status=ResultStatus.READY, seed=SEED, lines=own)
        for source, own in zip(OWN_SOURCES, lines, strict=True)
    ]


def _replace(
    session: Session, read: Embedding, cloud: Cloud, rows: Sequence[Base], independent: dict[str, Any]
) -> Sequence[str]:
    """Put the rows in the place of those before, unless nobody waits for them; return the hashes of files they left."""
    if (embedding := waiting(session, read)) is None:
        return []
    session.execute(delete(Measurement).where(Measurement.embedding_id == read.id))
    session.execute(delete(FigureData).where(FigureData.embedding_id == read.id))
    files = delete(FigureFile).where(FigureFile.embedding_id == read.id)
    left = session.scalars(files.returning(FigureFile.file_sha256)).all()
    own = ZetaCurve.embedding_id == read.id, ZetaCurve.source.in_(OWN_SOURCES)
    session.execute(delete(ZetaCurve).where(*own))
    session.add_all(rows)
    embedding.status = EmbeddingStatus.READY
    embedding.n_left_out = cloud.n_left_out
    embedding.independent = independent
    embedding.measured_at = utcnow()
    embedding.error = None
    return left
