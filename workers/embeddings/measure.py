"""The jobs that inspect uploaded files in a sandbox and measure the selected vectors."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import (
    FULL_FINDINGS,
    Base,
    Embedding,
    EmbeddingStatus,
    FigureData,
    FigureFile,
    MapLayout,
    Measurement,
    MeasurementStatus,
    ResultStatus,
    TaskRun,
    TaskStatus,
    ZetaCurve,
)
from app.db.point_map import MAP, MAX_MAPPED, MIN_LAID_OUT, MapHeader
from app.db.session import Sessions
from app.db.types import utcnow
from app.sandbox import read_in_sandbox
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import InvalidError
from isoscope.files import selection as selections
from isoscope.files.matrix import NO_FINITE_ROW, Inspection, Matrix, inspect
from isoscope.files.selection import Selection
from isoscope.remedies import MAX_NUMBERS
from isoscope.rows import values_of, with_hub_names
from isotropy.cloud import Cloud, read_cloud
from isotropy.findings import findings_of
from isotropy.findings.finding import MAX_LISTED
from isotropy.projection import PointMapCollector, projection
from isotropy.report import MeasureResult, measure
from isotropy.sample_size import sample_size
from isotropy.spectrum import scaled_identity
from workers.embeddings.point_map import make_map_files
from workers.embeddings.remedies import propose_task
from workers.embeddings.zeta_curves import compute_zeta_lines
from workers.files import fetch_upload, open_embedding, storing_files
from workers.job_rows import lock_waiting_row, run_embedding_job

SEED = 0
CURVE_SOURCES = ("identity", "sample")


def _inspect(embedding: Embedding, settings: Settings, sessions: Sessions) -> Sequence[Job]:
    """Inspect an embedding's files; make its row a draft, or queue the measurement if it was requested.

    The files are read in a sandboxed process, so that a malicious file exhausts only that process.
    """
    selection = None if embedding.selection is None else Selection.model_validate(embedding.selection)
    inspection: Inspection = read_in_sandbox(settings, inspect, fetch_upload(embedding, settings), selection)
    with sessions.begin() as session:
        if (row := lock_waiting_row(session, embedding)) is None:
            return ()
        row.inspection = inspection.model_dump(mode="json")
        row.selection = inspection.selection.model_dump(mode="json")
        row.format = inspection.format
        row.n, row.d = inspection.n, inspection.d
        if row.encoding_id is None:
            row.layer = inspection.layer
        row.error = None
        if not row.commit_when_inspected or inspection.n_nonfinite == inspection.n:
            row.status = EmbeddingStatus.DRAFT
            return ()
        row.status = EmbeddingStatus.MEASURING
        row.attempts = 0
        return (Job(job_kinds.MEASURE, row.id),)


inspect_embedding = partial(run_embedding_job, EmbeddingStatus.INSPECTING, _inspect)


def measurement_columns(slug: str, result: MeasureResult) -> dict[str, Any]:
    """Return the columns of a ``Measurement``, except its embedding."""
    score = result.score
    resampled = None
    if score.parts or result.at_sizes:
        estimates_by_size = {
            str(size): {"value": score_at_size.value, "parts": list(score_at_size.parts)}
            for size, score_at_size in result.at_sizes.items()
            if score_at_size.parts
        }
        resampled = {"parts": list(score.parts), "at": estimates_by_size}
    return {
        "measure": slug,
        "status": MeasurementStatus.UNDEFINED if score.value is None else MeasurementStatus.OK,
        "value": score.value,
        "se": score.se,
        "resampled": resampled,
        "reason": score.reason,
        "n": result.n,
        "detail": result.detail,
    }


def compute_figures(cloud: Cloud, matrix: Matrix, point_map: PointMapCollector, seed: int) -> dict[str, dict[str, Any]]:
    """Return the data of each available figure by slug, as stored in ``FigureData``; ``seed`` drives all draws."""
    names_of = partial(values_of, matrix, matrix.selection.names)
    findings = [
        finding.renumber(matrix.file_rows, matrix.dimension_numbers)
        for finding in findings_of(cloud, names_of, matrix.dimension_names)
    ]
    return {
        "sample_size": sample_size(cloud),
        "projection": projection(cloud, seed, names_of, point_map),
        "findings": {"findings": [finding.to_dict() for finding in findings]},
        # All rows and dimensions, where a finding lists only the first and a selection can exclude that many.
        FULL_FINDINGS: {
            finding.slug: {"rows": finding.all_rows.tolist(), "dimensions": finding.all_dimensions.tolist()}
            for finding in findings
            if MAX_LISTED < max(len(finding.all_rows), len(finding.all_dimensions)) <= selections.MAX_LISTED
        },
    }


def _measure(embedding: Embedding, settings: Settings, sessions: Sessions) -> Sequence[Job]:
    matrix = open_embedding(embedding, settings)
    cloud = read_cloud(matrix, SEED, similarity=matrix.selection.similarity)
    if cloud.n == 0:
        raise InvalidError(NO_FINITE_ROW)
    point_map = PointMapCollector(min(cloud.n, MAX_MAPPED), SEED)
    figures = compute_figures(cloud, matrix, point_map, SEED)
    map_files = make_map_files(cloud, matrix, point_map, figures["projection"])
    header, openers = map_files or (None, {})
    figures[MAP] = header.model_dump() if header else {"reason": figures["projection"]["reason"]}
    rows: list[Base] = [
        Measurement(
            embedding_id=embedding.id,
            **measurement_columns(slug, with_hub_names(result, matrix, matrix.selection.names)),
        )
        for slug, result in measure(cloud).items()
    ]
    S = cloud.moments.covariance()
    curves = compute_zeta_lines(cloud, [scaled_identity, lambda _: S])  # in the order of CURVE_SOURCES
    rows += [
        ZetaCurve(embedding_id=embedding.id, source=source, status=ResultStatus.READY, seed=SEED, lines=lines)
        for source, lines in zip(CURVE_SOURCES, curves, strict=True)
    ]
    rows += [FigureData(embedding_id=embedding.id, slug=slug, data=data) for slug, data in figures.items()]
    ledger = Ledger(sessions, open_storage(settings))
    with storing_files(ledger) as store_file:
        stored = {slug: store_file(opener) for slug, opener in openers.items()}
        rows += [
            FigureFile(embedding_id=embedding.id, slug=slug, file_sha256=file.sha256) for slug, file in stored.items()
        ]
        with ledger.recording(*stored.values()) as session:
            replaced_files = _replace_results(session, embedding, cloud, rows, _describe_rows(cloud, matrix))
            jobs = () if replaced_files is None else _add_jobs(session, embedding, header)
    ledger.release(*(replaced_files or ()))
    return jobs


measure_embedding = partial(run_embedding_job, EmbeddingStatus.MEASURING, _measure)


def _add_jobs(session: Session, job_embedding: Embedding, map_header: MapHeader | None) -> Sequence[Job]:
    """Add a task that tries remedies and a neighbor layout of the map, if they are possible; return their jobs."""
    embedding = session.get_one(Embedding, job_embedding.id)
    has_layout = map_header is not None and map_header.points >= MIN_LAID_OUT
    layout = MapLayout(embedding_id=embedding.id) if has_layout else None
    row_by_kind = {job_kinds.JUDGE: _queue_remedies(session, embedding), job_kinds.LAYOUT: layout}
    session.add_all(filter(None, row_by_kind.values()))
    session.flush()
    return tuple(Job(kind, row.id) for kind, row in row_by_kind.items() if row is not None)


def _queue_remedies(session: Session, embedding: Embedding) -> TaskRun | None:
    """Queue and return the task that tries remedies: the draft of the texts' scored pairs, else a new one of labels.

    None without pairs and labels, if the task was queued before, or if no task takes these vectors; a draft then stays.
    """
    if embedding.n_left_out or (embedding.n or 0) * (embedding.d or 0) > MAX_NUMBERS:
        return None
    for task in session.scalars(select(TaskRun).where(TaskRun.embedding_id == embedding.id)):
        if task.config.remedies:
            if task.status is not TaskStatus.DRAFT:
                return None
            task.status = TaskStatus.QUEUED
            return task
    return propose_task(embedding, (embedding.independent or {})["groups"])


def _describe_rows(cloud: Cloud, matrix: Matrix) -> dict[str, Any]:
    """Return the value of ``Embedding.independent``."""
    dealing = cloud.dealing
    description: dict[str, Any] = {"by": dealing.grouping, "groups": cloud.n_independent, "blocks": dealing.key()}
    if matrix.selection.names is None:
        return description
    ordered_hash, unordered_sum = sha256(), 0
    for name in matrix.contents.values(matrix.selection.names):
        digest = sha256(name.encode()).digest()[:8]
        ordered_hash.update(digest)
        unordered_sum += int.from_bytes(digest)
    return description | {"names": ordered_hash.hexdigest()[:16], "names_in_any_order": f"{unordered_sum % 2**64:016x}"}


def _replace_results(
    session: Session, job_embedding: Embedding, cloud: Cloud, rows: Sequence[Base], independent: dict[str, Any]
) -> Sequence[str] | None:
    """Replace an embedding's results; return the hashes of the replaced files, or None if its row no longer waits."""
    if (embedding := lock_waiting_row(session, job_embedding)) is None:
        return None
    for table in (Measurement, FigureData, MapLayout):
        session.execute(delete(table).where(table.embedding_id == embedding.id))
    removal = delete(FigureFile).where(FigureFile.embedding_id == embedding.id)
    replaced_files = session.scalars(removal.returning(FigureFile.file_sha256)).all()
    session.execute(
        delete(ZetaCurve).where(ZetaCurve.embedding_id == embedding.id, ZetaCurve.source.in_(CURVE_SOURCES))
    )
    session.add_all(rows)
    embedding.status = EmbeddingStatus.READY
    embedding.n_left_out = cloud.n_left_out
    embedding.independent = independent
    embedding.measured_at = utcnow()
    embedding.error = None
    return replaced_files
