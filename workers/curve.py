"""The curve job: a shrinkage-zeta curve towards the covariance of another embedding."""

from collections.abc import Sequence

from app.db.models import Embedding, ZetaCurve
from app.queue import Job
from app.settings import Settings
from isoscope.core.errors import InvalidError
from isotropy.cloud import read_cloud
from workers.results import Asked, answer
from workers.upload import open_embedding
from workers.zeta import covariance_in_units_of, zeta_lines


def compute_curve(curve_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Write the lines of a curve into its row."""
    return answer(ZetaCurve, curve_id, settings, _compute)


def _compute(asked: Asked[ZetaCurve]) -> None:
    with asked.sessions() as session:
        source = session.get_one(Embedding, asked.row.source_id)
    lines = _lines(asked.embedding, source, asked.settings, asked.row.seed)
    with asked.sessions.begin() as session:
        asked.fill(session, lines=lines)


def _lines(points: Embedding, source: Embedding, settings: Settings, seed: int) -> list[dict[str, object]]:
    cloud, other = (read_cloud(open_embedding(one, settings), seed) for one in (points, source))
    if cloud.moments.d != other.moments.d:
        raise InvalidError(
            f"Expected a shrinkage covariance of {cloud.moments.d:,} dimensions, as {points.name!r} has, got "
            f"{source.name!r} with {other.moments.d:,}. Choose an embedding of the same model."
        )
    S = covariance_in_units_of(cloud, other)
    (lines,) = zeta_lines(cloud, [lambda _: S])
    return lines
