"""The curve job: IsoScore* by zeta, for growing numbers of rows, with a given shrinkage covariance."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from app.db.models import Embedding, ZetaCurve
from isoscope.core.errors import InvalidError
from isotropy.cloud import Cloud, read_cloud
from isotropy.isoscore import ShrinkageCurve, isoscore_from_covariance
from isotropy.spectrum import CHUNK_ROWS, Moments
from workers.files import open_embedding
from workers.job_rows import ResultJob, run_result_job

ZETAS = torch.linspace(0, 1, 101, dtype=torch.float64)
FIRST_ROWS = 32
MAX_LINES = 12

TargetMaker = Callable[[Tensor], Tensor]
"""Returns the shrinkage covariance [d, d] for the covariance [d, d] of the rows."""


def compute_zeta_lines(cloud: Cloud, target_makers: list[TargetMaker]) -> list[list[dict[str, Any]]]:
    """Return IsoScore* by zeta for each maker: a line for each sample of 32, 64 ... rows, and one for all rows."""
    lines_by_target: list[list[dict[str, Any]]] = [[] for _ in target_makers]
    moments = Moments(cloud.moments.d)
    sizes = [FIRST_ROWS * 2**power for power in range(MAX_LINES - 1)]
    for n in [*(size for size in sizes if size < cloud.n and size <= len(cloud.sample)), cloud.n]:
        if n < cloud.n:
            for chunk in torch.split(cloud.sample[moments.n : n], CHUNK_ROWS):
                moments.update(chunk.double())  # squares may overflow float32
        S = (moments if n < cloud.n else cloud.moments).covariance()
        reason_at_zero = isoscore_from_covariance(S).reason
        for lines, make_target in zip(lines_by_target, target_makers, strict=True):
            values = [math.nan] * len(ZETAS)
            if cloud.moments.d > 1:
                values = ShrinkageCurve.from_covariances(S, make_target(S)).isoscore_star(ZETAS).tolist()
            values_or_none = [None if math.isnan(value) else value for value in values]
            lines.append({"rows": n, "values": values_or_none, "reason": reason_at_zero})
    return lines_by_target


def covariance_in_units_of(cloud: Cloud, target_cloud: Cloud) -> Tensor:
    """Return the covariance [d, d] of ``target_cloud`` in the units of ``cloud``."""
    # Beyond these bounds, one of the two covariances is negligible.
    ratio = min(max(target_cloud.unit / cloud.unit, 2.0**-200), 2.0**200)
    return target_cloud.moments.covariance() * ratio**2


def _compute(job: ResultJob[ZetaCurve]) -> None:
    with job.sessions() as session:
        source = session.get_one(Embedding, job.row.source_id)
    cloud, target_cloud = (
        read_cloud(open_embedding(embedding, job.settings), job.row.seed) for embedding in (job.embedding, source)
    )
    if cloud.moments.d != target_cloud.moments.d:
        raise InvalidError(
            f"{job.embedding.name!r} has {cloud.moments.d:,} dimensions, but the shrinkage covariance of "
            f"{source.name!r} has {target_cloud.moments.d:,}. Choose an embedding of the same model."
        )
    S = covariance_in_units_of(cloud, target_cloud)
    (lines,) = compute_zeta_lines(cloud, [lambda _: S])
    with job.sessions.begin() as session:
        job.fill(session, lines=lines)


compute_curve = partial(run_result_job, ZetaCurve, _compute)
