"""The measure job: the file of a committed embedding in, its measurements, zeta curves and data of figures out."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from sqlalchemy import delete

from app.db.models import (
    Base,
    Embedding,
    EmbeddingStatus,
    FigureData,
    Measurement,
    ResultStatus,
    ZetaCurve,
)
from app.db.session import Sessions
from app.db.types import utcnow
from app.queue import Job
from app.settings import Settings
from isoscope.files.matrix import Matrix
from isoscope.rows import values_of
from isotropy.cloud import Cloud, read_cloud
from isotropy.report import measure
from isotropy.spectrum import scaled_identity
from workers.embeddings import fail, waiting
from workers.figure_data import figure_data
from workers.found import columns_of
from workers.sessions import job_sessions
from workers.upload import open_embedding
from workers.zeta import zeta_lines

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
        cloud = read_cloud(matrix, SEED)
        names_of = partial(values_of, matrix, matrix.selection.names)
        figures = figure_data(cloud, names_of, SEED, matrix.dimension_names)
        data = [FigureData(embedding_id=embedding_id, slug=slug, data=one) for slug, one in figures.items()]
        rows = [*_measurements(embedding_id, cloud), *_curves(embedding_id, cloud), *data]
        _store(sessions, embedding, cloud, rows, _independent(cloud, matrix))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        fail(error, sessions, embedding)
    return ()


def _measurements(embedding_id: str, cloud: Cloud) -> list[Measurement]:
    """A row for every measure of the catalogue."""
    return [Measurement(embedding_id=embedding_id, **columns_of(slug, found)) for slug, found in measure(cloud).items()]


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


def _store(
    sessions: Sessions, read: Embedding, cloud: Cloud, rows: Sequence[Base], independent: dict[str, Any]
) -> None:
    with sessions.begin() as session:
        if (embedding := waiting(session, read)) is None:
            return
        session.execute(delete(Measurement).where(Measurement.embedding_id == read.id))
        session.execute(delete(FigureData).where(FigureData.embedding_id == read.id))
        own = ZetaCurve.embedding_id == read.id, ZetaCurve.source.in_(OWN_SOURCES)
        session.execute(delete(ZetaCurve).where(*own))
        session.add_all(rows)
        embedding.status = EmbeddingStatus.READY
        embedding.n_left_out = cloud.n_left_out
        embedding.independent = independent
        embedding.measured_at = utcnow()
        embedding.error = None
