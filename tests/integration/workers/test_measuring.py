import numpy as np
import pytest
from IsoScore import IsoScore
from sqlalchemy import select

from app.db import job_kinds, models
from app.db.job_kinds import Job
from app.db.point_map import MAP, MAP_LAYOUT, MapHeader
from app.db.work import list_waiting_jobs
from app.storage import open_storage
from isoscope import rows
from isoscope.core.errors import InvalidError
from isotropy import cloud
from isotropy.catalog import MEASURES
from tests.integration.workers.conftest import KilledError
from workers.embeddings import map_layout
from workers.embeddings import measure as measuring
from workers.embeddings.map_layout import add_layout
from workers.embeddings.measure import inspect_embedding, measure_embedding
from workers.embeddings.zeta_curves import compute_curve

READERS = [
    (inspect_embedding, models.EmbeddingStatus.INSPECTING, "read_in_sandbox"),
    (measure_embedding, models.EmbeddingStatus.MEASURING, "read_cloud"),
]
COPY, ZEROS, NOT_FINITE = 3, 5, 8


def get(sessions, embedding_id):
    with sessions() as session:
        row = session.get(models.Embedding, embedding_id)
        measured = {measurement.measure: measurement for measurement in row.measurements}
        return row, measured, {curve.source: curve for curve in row.curves}


def get_data(sessions, embedding_id):
    with sessions() as session:
        rows = session.scalars(select(models.FigureData).where(models.FigureData.embedding_id == embedding_id))
        return {row.slug: row.data for row in rows}


@pytest.fixture
def measure_array(settings, make_embedding, sessions):
    def measure_array(x):
        embedding_id = make_embedding(
            x, status=models.EmbeddingStatus.MEASURING, n=len(x), d=x.shape[1], selection={"vectors": "array"}
        )
        jobs = measure_embedding(embedding_id, settings, "cpu")
        assert {job.kind for job in jobs} <= {job_kinds.LAYOUT}
        return get(sessions, embedding_id)

    return measure_array


@pytest.fixture
def x():
    """600 points in 6 dimensions of unequal spread, away from the origin; three of them not finite."""
    x = np.random.default_rng(0).normal(size=(600, 6)) * np.arange(1, 7) + 3
    x[[5, 100], [0, 1]] = np.nan
    x[17, 3] = np.inf
    return x


def clean(x):
    return x[np.isfinite(x).all(axis=1)]


@pytest.fixture
def report(module_cache, measure_array, sessions, x):
    """Return the row of points x, its measurements, curves and figure data, measured once."""
    if "report" not in module_cache:
        row, scores, curves = measure_array(x)
        module_cache["report"] = row, scores, curves, get_data(sessions, row.id)
    return module_cache["report"]


@pytest.mark.parametrize("ending", ["numbers", "an error"])
@pytest.mark.parametrize(("job", "status", "reader"), READERS, ids=["inspecting", "measuring"])
@pytest.mark.both_databases
def test_results_of_a_former_selection_are_not_written(
    settings, sessions, make_embedding, x, monkeypatch, job, status, reader, ending
):
    embedding_id = make_embedding(x, status=status, selection={"vectors": "array"}, commit_when_inspected=True)
    chosen = {"vectors": "array", "transpose": True}
    read = getattr(measuring, reader)

    def select_and_read(*arguments, **options):
        with sessions.begin() as session:
            session.get(models.Embedding, embedding_id).selection = chosen
        if ending == "an error":
            raise InvalidError("The former choice cannot be read.")
        return read(*arguments, **options)

    monkeypatch.setattr(measuring, reader, select_and_read)
    assert job(embedding_id, settings, "cpu") == ()
    row, scores, curves = get(sessions, embedding_id)
    assert (row.status, row.error, row.selection) == (status, None, chosen)
    assert (scores, curves, row.measured_at) == ({}, {}, None)


class TestInspecting:
    def test_inspected_file_becomes_a_draft(self, settings, make_embedding, sessions, x):
        embedding_id = make_embedding(x)
        assert inspect_embedding(embedding_id, settings, "cpu") == ()
        row, _, _ = get(sessions, embedding_id)
        assert (row.status, row.n, row.d, row.format) == (models.EmbeddingStatus.DRAFT, 600, 6, "npy")
        assert row.inspection["n_nonfinite"] == 3
        assert row.selection == row.inspection["selection"]

    def test_requested_measuring_follows_inspection(self, settings, make_embedding, sessions, x):
        embedding_id = make_embedding(x, commit_when_inspected=True, attempts=1)
        job = inspect_embedding(embedding_id, settings, "cpu")
        assert job == (Job(job_kinds.MEASURE, embedding_id),)
        row, _, _ = get(sessions, embedding_id)
        assert (row.status, row.attempts) == (models.EmbeddingStatus.MEASURING, 0)
        measure_embedding(embedding_id, settings, "cpu")
        assert get(sessions, embedding_id)[0].status is models.EmbeddingStatus.READY

    def test_selection_is_kept(self, settings, make_embedding, sessions, x):
        first = make_embedding(clean(x))
        inspect_embedding(first, settings, "cpu")
        selection = {**get(sessions, first)[0].selection, "transpose": True}
        second = make_embedding(clean(x), selection=selection)
        inspect_embedding(second, settings, "cpu")
        row, _, _ = get(sessions, second)
        assert (row.n, row.d, row.selection["transpose"]) == (6, 597, True)

    def test_damaged_file_fails(self, settings, make_embedding, sessions, x):
        embedding_id = make_embedding(x)
        (file,) = get(sessions, embedding_id)[0].files
        open_storage(settings).local_path(file.file_sha256).write_bytes(b"\x93NUMPY garbage")
        assert inspect_embedding(embedding_id, settings, "cpu") == ()
        row, _, _ = get(sessions, embedding_id)
        assert (row.status, bool(row.error), row.inspection) == (models.EmbeddingStatus.FAILED, True, None)


@pytest.mark.parametrize(
    ("work", "status"),
    [(inspect_embedding, models.EmbeddingStatus.READY), (measure_embedding, models.EmbeddingStatus.DRAFT)],
)
def test_finished_or_deleted_row_is_left_alone(settings, make_embedding, sessions, x, work, status):
    embedding_id = make_embedding(x, status=status)
    assert work(embedding_id, settings, "cpu") == work("gone", settings, "cpu") == ()
    row, measurements, _ = get(sessions, embedding_id)
    assert (row.inspection, measurements) == (None, {})


class TestMeasuring:
    def test_every_measure_uses_the_finite_rows(self, report, x):
        row, measurements, _, _ = report
        assert (row.status, row.n_left_out, row.error) == (models.EmbeddingStatus.READY, 3, None)
        assert set(measurements) == set(MEASURES)
        for slug, measured in measurements.items():
            if MEASURES[slug].group == "labels":
                assert (measured.status, measured.n) == (models.MeasurementStatus.UNDEFINED, 0)
                assert "no labels" in measured.reason
            else:
                assert (measured.status, measured.n) == (models.MeasurementStatus.OK, 597), slug
        points = clean(x)
        variances = np.linalg.eigvalsh(np.cov(points.T))[::-1]
        assert measurements["isoscore"].value == pytest.approx(float(IsoScore.IsoScore(points)), abs=1e-7)
        assert measurements["spectrum"].detail["eigenvalues"] == pytest.approx(variances)
        assert measurements["spectrum"].value == pytest.approx(variances[0])
        assert measurements["participation_ratio"].value == pytest.approx(variances.sum() ** 2 / (variances**2).sum())
        assert measurements["anisotropy_centred"].detail["values"] == pytest.approx(variances / variances.sum())
        assert measurements["activation_profile"].detail["mean"] == pytest.approx(points.mean(axis=0))
        assert measurements["activation_profile"].detail["std"] == pytest.approx(points.std(axis=0, ddof=1))
        units = points / np.linalg.norm(points, axis=1, keepdims=True)
        cosines = (units @ units.T)[np.triu_indices(597, 1)]
        assert measurements["mean_cosine"].value == pytest.approx(cosines.mean())
        assert measurements["cosine_histogram"].value == pytest.approx(cosines.mean())
        assert sum(measurements["cosine_histogram"].detail["counts"]) == len(cosines)
        assert measurements["isoscore"].value < measurements["isoscore_star"].value

    def test_outlier_dimension_is_named(self, measure_array):
        x = np.random.default_rng(0).normal(size=(500, 40))
        x[:, 7] *= 50
        outliers = measure_array(x)[1]["activation_profile"]
        assert outliers.value == 1
        assert outliers.detail["outliers"][0]["dimension"] == 7
        assert "variance_5x" in outliers.detail["outliers"][0]["rules"]

    def test_curves_and_figures_grow_with_rows_to_known_ends(self, report):
        _, measurements, curves, data = report
        for curve in curves.values():
            assert curve.status is models.ResultStatus.READY
            assert [line["rows"] for line in curve.lines] == [32, 64, 128, 256, 512, 597]
            assert all(len(line["values"]) == 101 for line in curve.lines)
        isoscore = measurements["isoscore"].value
        assert curves["identity"].lines[-1]["values"][0] == pytest.approx(isoscore)
        assert curves["identity"].lines[-1]["values"][20] == pytest.approx(measurements["isoscore_star"].value)
        assert [line["values"][100] for line in curves["identity"].lines] == pytest.approx([1] * 6)
        assert [line["values"][100] for line in curves["sample"].lines] == pytest.approx([isoscore] * 6)
        assert curves["sample"].lines[0]["values"][0] != pytest.approx(isoscore)
        assert data["sample_size"]["rows"] == [8, 16, 32, 64, 128, 256, 512, 597]
        assert data["sample_size"]["isoscore"]["mean"][-1] == isoscore
        assert data["sample_size"]["full"] == {
            slug: measurements[slug].value for slug in ("isoscore", "isoscore_unbiased")
        }
        variances = measurements["spectrum"].detail["eigenvalues"]
        assert len(data["projection"]["x"]) == data["projection"]["n"] == 597
        assert np.var(data["projection"]["x"], ddof=1) == pytest.approx(variances[0], rel=1e-3)
        assert data["projection"]["shares"] == pytest.approx(measurements["anisotropy_centred"].detail["values"][:3])

    @pytest.mark.both_databases
    def test_measuring_again_replaces_results(self, settings, sessions, measure_array, x):
        row, first, _ = measure_array(x)
        data = get_data(sessions, row.id)
        with sessions.begin() as session:
            session.get(models.Embedding, row.id).status = models.EmbeddingStatus.MEASURING
            session.get(models.FigureData, (row.id, "projection")).data = {"n": 1}
            session.add(models.FigureData(embedding_id=row.id, slug="of_old", data={}))
        measure_embedding(row.id, settings, "cpu")
        _, second, curves = get(sessions, row.id)
        assert {slug: row.value for slug, row in second.items()} == {slug: row.value for slug, row in first.items()}
        assert set(curves) == {"identity", "sample"}
        assert get_data(sessions, row.id) == data
        assert set(data) >= {"sample_size", "projection"}

    def test_fewer_rows_than_dimensions_are_measured(self, measure_array):
        x = np.random.default_rng(0).normal(size=(10, 30))
        _, measurements, curves = measure_array(x)
        assert measurements["isoscore"].value == pytest.approx(float(IsoScore.IsoScore(x)), abs=1e-7)
        assert [line["rows"] for line in curves["identity"].lines] == [10]

    def test_too_many_columns_fail(self, monkeypatch, measure_array, x):
        monkeypatch.setattr(rows, "MAX_DIMENSIONS", 5)
        row, measurements, _ = measure_array(x)
        assert row.status is models.EmbeddingStatus.FAILED
        assert "Expected at most 5 columns" in row.error
        assert measurements == {}

    def test_large_sample_is_drawn_without_replacement(self, monkeypatch, measure_array):
        monkeypatch.setattr(cloud, "SAMPLE_ROWS", 100)
        x = np.random.default_rng(0).normal(size=(1000, 3))
        _, measurements, curves = measure_array(x)
        assert [line["rows"] for line in curves["identity"].lines] == [32, 64, 1000]
        assert measurements["cosine_histogram"].detail["rows"] == measurements["cosine_histogram"].n == 100

    def test_missing_file_fails(self, settings, sessions, measure_array, x):
        row, _, _ = measure_array(x)
        open_storage(settings).delete(row.files[0].file_sha256)
        with sessions.begin() as session:
            session.get(models.Embedding, row.id).status = models.EmbeddingStatus.MEASURING
        measure_embedding(row.id, settings, "cpu")
        assert get(sessions, row.id)[0].error == "The file x.npy of 'x' is gone from the storage; upload it again."


def test_curve_runs_from_own_score_to_that_of_source(settings, sessions, get_row, measure_array, x):
    def curve(points, source):
        row = models.ZetaCurve(embedding_id=points.id, source="embedding", source_id=source.id)
        with sessions.begin() as session:
            session.add(row)
        assert compute_curve(row.id, settings, "cpu") == ()
        return get_row(models.ZetaCurve, row.id)

    points, measurements, _ = measure_array(x)
    source, other_measurements, _ = measure_array(np.random.default_rng(1).normal(size=(300, 6)))
    row = curve(points, source)
    assert (row.status, row.error) == (models.ResultStatus.READY, None)
    assert row.lines[-1]["values"][0] == pytest.approx(measurements["isoscore"].value)
    assert [line["values"][-1] for line in row.lines] == pytest.approx([other_measurements["isoscore"].value] * 6)
    assert compute_curve(row.id, settings, "cpu") == ()
    assert compute_curve("gone", settings, "cpu") == ()
    source, _, _ = measure_array(x[:, :4])
    row = curve(points, source)
    assert row.status is models.ResultStatus.FAILED
    assert "'x' has 6 dimensions, but the shrinkage covariance of 'x' has 4" in row.error


@pytest.fixture
def few_rows():
    """60 rows in 5 dimensions, with a copy of the first, a zero row and one that is not finite."""
    x = np.random.default_rng(0).normal(size=(60, 5))
    x[COPY], x[ZEROS], x[NOT_FINITE, 1] = x[0], 0, np.nan
    return x


def measured(settings, make_embedding, x):
    columns = {"n": len(x), "d": x.shape[1], "selection": {"vectors": "array"}}
    embedding_id = make_embedding(x, status=models.EmbeddingStatus.MEASURING, **columns)
    return embedding_id, [job.row_id for job in measure_embedding(embedding_id, settings, "cpu")]


def read(settings, sessions, embedding_id):
    """Return the layout's row, the map's header and the bytes of the layout, if any."""
    with sessions() as session:
        row = session.scalars(select(models.MapLayout)).one_or_none()
        header = MapHeader.model_validate(session.get_one(models.FigureData, (embedding_id, MAP)).data)
        file = session.get(models.FigureFile, (embedding_id, MAP_LAYOUT))
    content = file and open_storage(settings).local_path(file.file_sha256).read_bytes()
    return row, header, content


def read_sections(header, content):
    sections = header.layout.sections
    return (
        np.frombuffer(content, sections[name].type, sections[name].count, sections[name].offset) for name in sections
    )


@pytest.mark.both_databases
def test_killed_layout_loses_nothing_and_starts_over(settings, sessions, make_embedding, monkeypatch, few_rows):
    embedding_id, (layout_id,) = measured(settings, make_embedding, few_rows)
    lay_out = map_layout.lay_out

    def kill(*_):
        raise KilledError

    monkeypatch.setattr(map_layout, "lay_out", kill)
    with pytest.raises(KilledError):
        add_layout(layout_id, settings, "cpu")
    row, header, content = read(settings, sessions, embedding_id)
    assert (row.status, header.layout, content) == (models.ResultStatus.QUEUED, None, None)
    assert [job.row_id for job in list_waiting_jobs(sessions)] == [layout_id]
    with sessions() as session:
        assert session.get_one(models.Embedding, embedding_id).status is models.EmbeddingStatus.READY
    monkeypatch.setattr(map_layout, "lay_out", lay_out)
    assert add_layout(layout_id, settings, "cpu") == add_layout("gone", settings, "cpu") == ()
    row, header, content = read(settings, sessions, embedding_id)
    assert (row.status, row.error, header.layout.rows) == (models.ResultStatus.READY, None, 58)
    points, xy = read_sections(header, content)
    # The map leaves out the row with NaN, and the layout the zero row.
    assert points.tolist() == [point for point in range(59) if point != ZEROS]
    assert np.isfinite(xy).all()
    assert xy.reshape(-1, 2)[0].tolist() == xy.reshape(-1, 2)[COPY].tolist()


def test_layout_is_drawn_from_larger_map_and_repeatable(settings, sessions, make_embedding, monkeypatch, few_rows):
    monkeypatch.setattr(map_layout, "MAX_ROWS", 40)
    embedding_id, (layout_id,) = measured(settings, make_embedding, few_rows)
    add_layout(layout_id, settings, "cpu")
    _, header, content = read(settings, sessions, embedding_id)
    points, _ = read_sections(header, content)
    assert header.layout.rows == len(set(points.tolist())) == 40 - (ZEROS not in points and header.layout.rows == 39)
    with sessions.begin() as session:
        session.get_one(models.MapLayout, layout_id).status = models.ResultStatus.QUEUED
    add_layout(layout_id, settings, "cpu")
    assert read(settings, sessions, embedding_id)[1:] == (header, content)


def test_layout_of_former_choice_is_dropped(settings, sessions, make_embedding, monkeypatch, few_rows):
    embedding_id, (layout_id,) = measured(settings, make_embedding, few_rows)
    lay_out = map_layout.lay_out

    def lay_out_while_chosen(*arguments):
        with sessions.begin() as session:
            session.delete(session.get_one(models.MapLayout, layout_id))
        return lay_out(*arguments)

    monkeypatch.setattr(map_layout, "lay_out", lay_out_while_chosen)
    add_layout(layout_id, settings, "cpu")
    row, header, content = read(settings, sessions, embedding_id)
    assert (row, header.layout, content) == (None, None, None)
    with sessions() as session:
        referenced = {
            *session.scalars(select(models.FigureFile.file_sha256)),
            *session.scalars(select(models.EmbeddingFile.file_sha256)),
        }
        assert set(session.scalars(select(models.StoredFile.sha256))) == referenced, (
            "no stored layout is left without a map"
        )


def test_few_rows_have_no_layout(settings, make_embedding, sessions, few_rows):
    assert measured(settings, make_embedding, few_rows[10:20])[1] == []
    embedding_id, (layout_id,) = measured(settings, make_embedding, np.vstack([few_rows[10:20]] * 2))
    add_layout(layout_id, settings, "cpu")
    row, header, _ = read(settings, sessions, embedding_id)
    assert (row.status, row.error) == (models.ResultStatus.FAILED, "A neighbor layout needs 12 different rows.")
    assert header.layout is None
