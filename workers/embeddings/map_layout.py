"""The job that adds a neighbor layout to a map, after the report is stored."""

import io
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.db.models import FigureData, FigureFile, MapLayout
from app.db.point_map import MAP, MAP_LAYOUT, MIN_LAID_OUT, LayoutHeader, MapHeader
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import InvalidError
from isoscope.rows import draw_rows
from isotropy.cloud import NEIGHBORS
from isotropy.layout import count_neighbors_kept, lay_out, nearest_by_similarity
from isotropy.pairs import index_distinct_rows
from workers.embeddings.measure import SEED
from workers.embeddings.point_map import join_sections
from workers.files import fetch, open_embedding, storing_files
from workers.job_rows import ResultJob, run_result_job

MAX_ROWS = 5000
"""Maximum number of rows of a layout. Their layout takes 45 s on a slow core."""
ATTRACTING = 31
"""Neighbors that attract a point. With 91, as in t-SNE, a layout takes longer and keeps about as many neighbors."""


def _add_layout(job: ResultJob[MapLayout]) -> None:
    with job.sessions() as session:
        header = MapHeader.model_validate(session.get_one(FigureData, (job.embedding.id, MAP)).data)
        map_file = session.get_one(FigureFile, (job.embedding.id, MAP)).file_sha256
    content = fetch(map_file, "map", job.settings).read_bytes()
    matrix = open_embedding(job.embedding, job.settings)
    # These rows, in random order, are those whose neighbors were measured.
    x, rows = draw_rows(matrix, SEED)
    map_positions = _read_section(header, content, "row") if "row" in header.sections else np.arange(header.points)
    positions = matrix.file_positions(rows.numpy())
    points = np.searchsorted(map_positions, positions)  # numbers of the rows on the map, if they are on it
    is_mapped = map_positions[np.minimum(points, header.points - 1)] == positions
    selected = is_mapped.nonzero()[0][:MAX_ROWS]
    x, points = x[selected], points[selected]
    similarity = matrix.selection.similarity
    distinct, distinct_index = (numbers.numpy() for numbers in index_distinct_rows(x, similarity))
    if len(distinct) < MIN_LAID_OUT:
        raise InvalidError(f"A neighbor layout needs {MIN_LAID_OUT} different rows.")
    components = _read_section(header, content, "xy").reshape(-1, 2)[points[distinct]]
    k = min(ATTRACTING, len(distinct) - 1)
    indices, distances = nearest_by_similarity(x[distinct], k, similarity)
    layout = lay_out(indices, distances, components)
    # Equal rows share a position. By cosine, zero rows have none: their index is len(distinct).
    has_position = distinct_index < len(distinct)
    points, xy = points[has_position], layout[distinct_index[has_position]]
    order = points.argsort()
    sections, layout_bytes = join_sections({"point": points[order].astype(np.uint32), "xy": xy[order].ravel()})
    nearest = indices[:, :NEIGHBORS]
    layout_header = LayoutHeader(
        rows=len(points),
        k=NEIGHBORS,
        neighbors_kept=count_neighbors_kept(nearest, layout),
        kept_by_components=count_neighbors_kept(nearest, components),
        sections=sections,
    )
    ledger = Ledger(job.sessions, open_storage(job.settings))
    with storing_files(ledger) as store_file:
        stored = store_file(partial(io.BytesIO, layout_bytes))
        with ledger.recording(stored) as session:
            job.fill(session)
            # The row is gone if other vectors have been selected since.
            job.require_current_vectors(is_current=session.get(MapLayout, job.row.id) is not None)
            session.merge(FigureFile(embedding_id=job.embedding.id, slug=MAP_LAYOUT, file_sha256=stored.sha256))
            figure = session.get_one(FigureData, (job.embedding.id, MAP))
            figure.data = figure.data | {"layout": layout_header.model_dump()}


def _read_section(header: MapHeader, content: bytes, name: Literal["row", "xy"]) -> NDArray[np.generic]:
    section = header.sections[name]
    return np.frombuffer(content, np.dtype(section.type).newbyteorder("<"), section.count, section.offset)


add_layout = partial(run_result_job, MapLayout, _add_layout)
