import numpy as np
import pytest
from sqlalchemy import select

from app.db.models import (
    Embedding,
    EmbeddingFile,
    EmbeddingStatus,
    FigureData,
    FigureFile,
    MapLayout,
    ResultStatus,
    StoredFile,
)
from app.db.point_map import MAP, MAP_LAYOUT, MapHeader
from app.db.work import list_waiting_jobs
from app.storage import open_storage
from tests.integration.workers.conftest import KilledError
from workers.embeddings import map_layout
from workers.embeddings.map_layout import add_layout
from workers.embeddings.measure import measure_embedding

COPY, ZEROS, NOT_FINITE = 3, 5, 8


@pytest.fixture
def x():
    """60 rows in 5 dimensions, with a copy of the first, a zero row and one that is not finite."""
    x = np.random.default_rng(0).normal(size=(60, 5))
    x[COPY], x[ZEROS], x[NOT_FINITE, 1] = x[0], 0, np.nan
    return x


def measured(settings, make_embedding, x):
    """Measure an array; return the ids of its embedding and of its layout."""
    selection = {"vectors": "array"}
    embedding_id = make_embedding(x, status=EmbeddingStatus.MEASURING, n=len(x), d=x.shape[1], selection=selection)
    jobs = measure_embedding(embedding_id, settings, "cpu")
    return embedding_id, [job.row_id for job in jobs]


def read(settings, sessions, embedding_id):
    """Return the layout's row, the map's header and the bytes of the layout, if any."""
    with sessions() as session:
        row = session.scalars(select(MapLayout)).one_or_none()
        header = MapHeader.model_validate(session.get_one(FigureData, (embedding_id, MAP)).data)
        file = session.get(FigureFile, (embedding_id, MAP_LAYOUT))
    content = file and open_storage(settings).local_path(file.file_sha256).read_bytes()
    return row, header, content


def read_sections(header, content):
    sections = header.layout.sections
    return (
        np.frombuffer(content, sections[name].type, sections[name].count, sections[name].offset) for name in sections
    )


@pytest.mark.both_databases
def test_killed_layout_loses_nothing_and_starts_over(settings, sessions, make_embedding, monkeypatch, x):
    embedding_id, (layout_id,) = measured(settings, make_embedding, x)
    lay_out = map_layout.lay_out

    def kill(*_):
        raise KilledError

    monkeypatch.setattr(map_layout, "lay_out", kill)
    with pytest.raises(KilledError):
        add_layout(layout_id, settings, "cpu")
    row, header, content = read(settings, sessions, embedding_id)
    assert (row.status, header.layout, content) == (ResultStatus.QUEUED, None, None)
    assert [job.row_id for job in list_waiting_jobs(sessions)] == [layout_id]
    with sessions() as session:
        assert session.get_one(Embedding, embedding_id).status is EmbeddingStatus.READY
    monkeypatch.setattr(map_layout, "lay_out", lay_out)
    assert add_layout(layout_id, settings, "cpu") == add_layout("gone", settings, "cpu") == ()
    row, header, content = read(settings, sessions, embedding_id)
    assert (row.status, row.error, header.layout.rows) == (ResultStatus.READY, None, 58)
    points, xy = read_sections(header, content)
    # The map leaves out the row with NaN, and the layout the zero row.
    assert points.tolist() == [point for point in range(59) if point != ZEROS]
    assert np.isfinite(xy).all()
    assert xy.reshape(-1, 2)[0].tolist() == xy.reshape(-1, 2)[COPY].tolist()


def test_layout_is_drawn_from_larger_map_and_repeatable(settings, sessions, make_embedding, monkeypatch, x):
    monkeypatch.setattr(map_layout, "MAX_ROWS", 40)
    embedding_id, (layout_id,) = measured(settings, make_embedding, x)
    add_layout(layout_id, settings, "cpu")
    _, header, content = read(settings, sessions, embedding_id)
    points, _ = read_sections(header, content)
    assert header.layout.rows == len(set(points.tolist())) == 40 - (ZEROS not in points and header.layout.rows == 39)
    with sessions.begin() as session:
        session.get_one(MapLayout, layout_id).status = ResultStatus.QUEUED
    add_layout(layout_id, settings, "cpu")
    assert read(settings, sessions, embedding_id)[1:] == (header, content)


def test_layout_of_former_choice_is_dropped(settings, sessions, make_embedding, monkeypatch, x):
    embedding_id, (layout_id,) = measured(settings, make_embedding, x)
    lay_out = map_layout.lay_out

    def lay_out_while_chosen(*arguments):
        with sessions.begin() as session:
            session.delete(session.get_one(MapLayout, layout_id))
        return lay_out(*arguments)

    monkeypatch.setattr(map_layout, "lay_out", lay_out_while_chosen)
    add_layout(layout_id, settings, "cpu")
    row, header, content = read(settings, sessions, embedding_id)
    assert (row, header.layout, content) == (None, None, None)
    with sessions() as session:
        referenced = {
            *session.scalars(select(FigureFile.file_sha256)),
            *session.scalars(select(EmbeddingFile.file_sha256)),
        }
        assert set(session.scalars(select(StoredFile.sha256))) == referenced, "no stored layout is left without a map"


def test_few_rows_have_no_layout(settings, make_embedding, sessions, x):
    assert measured(settings, make_embedding, x[10:20])[1] == []
    embedding_id, (layout_id,) = measured(settings, make_embedding, np.vstack([x[10:20]] * 2))
    add_layout(layout_id, settings, "cpu")
    row, header, _ = read(settings, sessions, embedding_id)
    assert (row.status, row.error) == (ResultStatus.FAILED, "A neighbor layout needs 12 different rows.")
    assert header.layout is None
