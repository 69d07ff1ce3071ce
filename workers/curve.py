"""The curve job: a shrinkage-zeta curve towards the covariance of another embedding."""

from collections.abc import Sequence

from sqlalchemy import update

from app.db.models import Embedding, ResultStatus, ZetaCurve
from app.errors import InvalidError
from app.queue import Job
from app.settings import Settings
from isotropy.cloud import read_cloud
from workers.failure import record
from workers.points import open_embedding
from workers.sessions import job_sessions
from workers.zeta import zeta_lines


def compute_curve(curve_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the lines of a curve into its row."""
    sessions = job_sessions(settings)
    row = update(ZetaCurve).where(ZetaCurve.id == curve_id, ZetaCurve.status == ResultStatus.QUEUED)
    with sessions() as session:
        curve = session.get(ZetaCurve, curve_id)
        if curve is None or curve.status is not ResultStatus.QUEUED:
            return ()
        points = session.get_one(Embedding, curve.embedding_id)
        source = session.get_one(Embedding, curve.source_id)
    try:
        lines = _lines(points, source, settings, curve.seed)
        with sessions.begin() as session:
            session.execute(row.values(status=ResultStatus.READY, lines=lines, error=None))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, row, status=ResultStatus.FAILED)
    return ()


def _lines(points: Embedding, source: Embedding, settings: Settings, seed: int) -> list[dict[str, object]]:
    cloud, other = (read_cloud(open_embedding(one, settings), seed) for one in (points, source))
    if cloud.moments.d != other.moments.d:
        raise InvalidError(
            f"Expected a shrinkage covariance of {cloud.moments.d:,} dimensions, as {points.name!r} has, got "
            f"{source.name!r} with {other.moments.d:,}. Choose an embedding of the same model."
        )
    # In units of the cloud. Beyond the bounds one of the two is nothing beside the other, by however much.
    ratio = min(max(other.unit / cloud.unit, 2.0**-200), 2.0**200)
    S = other.moments.covariance() * ratio**2
    (lines,) = zeta_lines(cloud, [lambda _: S])
    return lines
