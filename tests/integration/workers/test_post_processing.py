import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus, PostProcessing, ResultStatus, StoredFile
from app.db.models.embeddings import SAMPLE_SEED
from app.storage import open_storage
from isoscope.nearest import nearest_rows
from isoscope.rows import draw_rows
from isotropy.catalog import Similarity
from isotropy.cloud import read_cloud
from isotropy.isoscore import isoscore
from isotropy.postprocess.held_out import held_out
from isotropy.postprocess.methods import fit, restore
from isotropy.report import measure
from isotropy.rows import Rows
from tests.rounding import assert_same_images
from workers import files, postprocess
from workers.embeddings.measure import inspect_embedding, measure_embedding
from workers.files import open_embedding
from workers.postprocess import FIGURE_SLUGS, MEASURED_SLUGS, MOMENT_SLUGS, post_process
from workers.postprocess import make_embedding as make

SELECTION = {"vectors": "array", "names": None, "labels": None, "transpose": False}


@pytest.fixture
def x():
    """400 points in 6 dimensions of unequal spread, away from the origin; two of them not finite."""
    x = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32) * np.arange(1, 7, dtype=np.float32) + 3
    x[5, 0], x[100, 1] = np.nan, np.inf
    return x


@pytest.fixture
def source(make_embedding, x):
    return make_embedding(x, status=EmbeddingStatus.READY, n=400, d=6, selection=SELECTION)


@pytest.fixture
def add_trial(sessions, source):
    def add_trial(method="soft_zca", embedding_id=source, **parameters):
        with sessions.begin() as session:
            embedding = session.get(Embedding, embedding_id)
            key = embedding.hash_request(method, parameters)
            trial = PostProcessing(embedding_id=embedding_id, key=key, method=method, parameters=parameters)
            session.add(trial)
        return trial.id

    return add_trial


@pytest.fixture
def run_trial(settings, add_trial, get_row):
    def run_trial(method="soft_zca", **parameters):
        trial_id = add_trial(method, **parameters)
        assert post_process(trial_id, settings, "cpu") == ()
        return get_row(PostProcessing, trial_id)

    return run_trial


@pytest.fixture
def rows(settings, get_row, source):
    return draw_rows(open_embedding(get_row(Embedding, source), settings), SAMPLE_SEED)


def values(entries):
    return {slug: entry["value"] for slug, entry in entries.items()}


def test_trial_measures_held_out_rows_before_and_after(run_trial, rows, settings, get_row, source):
    points, positions = rows
    cloud = read_cloud(open_embedding(get_row(Embedding, source), settings), SAMPLE_SEED)
    assert torch.equal(points, cloud.pair_rows), "the lab and the report share their rows"
    assert torch.equal(positions, cloud.rows)
    assert len(points) == 398
    trial = run_trial("soft_zca", eps=0.5)
    assert (trial.status, trial.error) == (ResultStatus.READY, None)
    results = trial.results
    assert [results[key] for key in ("rows", "distinct", "fit_rows", "seed")] == [398, 398, 199, SAMPLE_SEED]
    expected = held_out(rows[0], lambda x: fit("soft_zca", x, eps=0.5), 0.5, SAMPLE_SEED)
    parts = {"before": expected.held_out.before, "after": expected.held_out.after}
    for part, x in parts.items():
        measured = measure(read_cloud(Rows(x.numpy())), MEASURED_SLUGS)
        assert values(results[part]) == pytest.approx({slug: row.score.value for slug, row in measured.items()})
        assert {entry["n"] for entry in results[part].values()} == {199, 0}
        assert results[part]["spectrum"]["detail"]["eigenvalues"] == pytest.approx(
            measured["spectrum"].detail["eigenvalues"]
        )
    assert results["after"]["isoscore"]["value"] == pytest.approx(isoscore(parts["after"].double()).value, abs=1e-9)
    raw = measure(read_cloud(Rows(expected.in_sample.after.numpy())), MOMENT_SLUGS)
    assert values(results["in_sample"]) == pytest.approx({slug: row.score.value for slug, row in raw.items()})
    assert results["neighbours"] is None
    assert {slug for slug, score in results["after"].items() if score["detail"]} == set(FIGURE_SLUGS)


def test_whitening_gives_fitted_rows_isoscore_1_and_others_less(run_trial):
    results = run_trial("zca_whitening").results
    assert results["in_sample"]["isoscore"]["value"] == pytest.approx(1, abs=1e-6)
    assert results["before"]["isoscore"]["value"] < results["after"]["isoscore"]["value"] < 0.9999


def test_fitted_map_is_stored_and_restored(run_trial, rows, settings):
    trial = run_trial("all_but_the_top", D=2)
    path = open_storage(settings).local_path(trial.state_sha256)
    expected = held_out(rows[0], lambda x: fit("all_but_the_top", x, D=2), 0.5, SAMPLE_SEED).fitted
    restored = restore(trial.method, load_file(path))
    assert all(torch.equal(restored.state()[name], tensor) for name, tensor in expected.state().items())
    assert_same_images(restored.apply(rows[0]).numpy(), expected.apply(rows[0]).numpy())


def test_second_trial_reuses_numbers_before(run_trial, sessions):
    first = run_trial("centring")
    with sessions.begin() as session:
        row = session.get(PostProcessing, first.id)
        results = json.loads(json.dumps(row.results))
        results["before"]["isoscore"]["reason"] = "taken from the first"
        row.results = results
    second = run_trial("standardisation")
    assert second.results["before"]["isoscore"]["reason"] == "taken from the first"
    assert second.results["after"]["isoscore"]["reason"] is None


def test_invalid_parameters_or_changed_vectors_fail(add_trial, run_trial, settings, sessions, source, get_row):
    trial = run_trial("cluster_based", clusters=200, D=1, seed=0)
    assert trial.status is ResultStatus.FAILED
    assert trial.error == "Expected 1 <= clusters <= n = 199, got 200: there are n points to share out."
    assert (trial.results, trial.state_sha256) == (None, None)

    trial_id = add_trial("centring")
    with sessions.begin() as session:
        session.get(Embedding, source).selection = {**SELECTION, "transpose": True}
    post_process(trial_id, settings, "cpu")
    error = get_row(PostProcessing, trial_id).error
    assert error == "Other vectors of this embedding have been selected since. Try again."


def test_deleted_trial_leaves_no_map(add_trial, settings, sessions, monkeypatch, caplog):
    trial_id = add_trial("centring")

    def delete_trial_first(*arguments):
        with sessions.begin() as session:
            session.delete(session.get(PostProcessing, trial_id))
        return make_results(*arguments)

    make_results = postprocess.make_results
    monkeypatch.setattr(postprocess, "make_results", delete_trial_first)
    before = set(settings.files.iterdir())
    assert post_process(trial_id, settings, "cpu") == ()
    assert set(settings.files.iterdir()) == before
    with sessions() as session:
        assert {file.sha256 for file in session.query(StoredFile)} == {path.name for path in before}
    assert "unforeseen" not in caplog.text
    assert post_process("gone", settings, "cpu") == ()


@pytest.fixture
def add_embedding(sessions, source):
    def add_embedding(trial_id):
        embedding = Embedding(
            name="derived", filename="derived.npy", format="npy", origin=EmbeddingOrigin.POSTPROCESSED,
            status=EmbeddingStatus.MAKING, source_id=source, made_by_id=trial_id,
        )  # fmt: skip
        with sessions.begin() as session:
            session.add(embedding)
        return embedding.id

    return add_embedding


def test_embedding_is_made_of_all_rows_by_the_tried_map(run_trial, add_embedding, settings, get_row, x):
    trial = run_trial("soft_zca", eps=0.5)
    made_id = add_embedding(trial.id)
    assert make(made_id, settings, "cpu") == (Job(job_kinds.INSPECT, made_id),)
    row = get_row(Embedding, made_id)
    assert (row.status, row.commit_when_inspected, row.attempts) == (EmbeddingStatus.INSPECTING, True, 0)
    (file,) = row.files
    make(again := add_embedding(trial.id), settings, "cpu")
    assert get_row(Embedding, again).files[0].file_sha256 == file.file_sha256, "as after a kill"
    assert make(made_id, settings, "cpu") == ()
    storage = open_storage(settings)
    vectors = np.load(storage.local_path(file.file_sha256), allow_pickle=False)
    finite = np.isfinite(x).all(1)
    fitted = restore("soft_zca", load_file(storage.local_path(trial.state_sha256)))
    assert_same_images(vectors[finite], fitted.apply(torch.from_numpy(x[finite])).numpy())
    assert np.array_equal(vectors[~finite], x[~finite], equal_nan=True)
    assert inspect_embedding(made_id, settings, "cpu") == (Job(job_kinds.MEASURE, made_id),)
    measure_embedding(made_id, settings, "cpu")
    row = get_row(Embedding, made_id)
    assert (row.status, row.n, row.d, row.n_left_out) == (EmbeddingStatus.READY, 400, 6, 2)


def test_changed_or_deleted_source_fails(run_trial, add_embedding, settings, get_row, sessions, source):
    trial = run_trial("centring")

    def error_of(made_id):
        assert make(made_id, settings, "cpu") == ()
        row = get_row(Embedding, made_id)
        assert row.status is EmbeddingStatus.FAILED
        return row.error

    first, second, third = (add_embedding(trial.id) for _ in range(3))
    with sessions.begin() as session:
        session.get(Embedding, source).selection = {**SELECTION, "transpose": True}
    assert error_of(first) == "Other vectors of x have been selected since. Try the method on them first."
    with sessions.begin() as session:
        session.delete(session.get(PostProcessing, trial.id))
    assert error_of(second) == (
        "The trial that fitted the map of this embedding no longer exists: other vectors of x have been selected "
        "since, or newer trials replaced it. Try the method again first."
    )
    with sessions.begin() as session:
        session.delete(session.get(Embedding, source))
    assert error_of(third) == "The embedding to make this from was deleted. Try a method on another embedding."


def test_embedding_deleted_while_made_leaves_no_file(run_trial, add_embedding, settings, sessions, monkeypatch):
    made_id = add_embedding(run_trial("centring").id)

    def delete_embedding_first(*arguments):
        with sessions.begin() as session:
            session.delete(session.get(Embedding, made_id))
        return files.make_npy(*arguments)

    monkeypatch.setattr(postprocess, "make_npy", delete_embedding_first)
    before = set(settings.files.iterdir())
    assert make(made_id, settings, "cpu") == ()
    assert set(settings.files.iterdir()) == before


def test_error_after_first_file_leaves_none(run_trial, add_embedding, settings, get_row, sessions, source, monkeypatch):
    made_id = add_embedding(run_trial("centring").id)

    def fail_to_write(*arguments):
        raise RuntimeError("It cannot be written")

    monkeypatch.setattr(postprocess, "make_file_rows", fail_to_write)
    before = set(settings.files.iterdir())
    assert make(made_id, settings, "cpu") == ()
    row = get_row(Embedding, made_id)
    assert (row.status, row.error) == (EmbeddingStatus.FAILED, "RuntimeError: It cannot be written")
    assert set(settings.files.iterdir()) == before


def test_equal_rows_are_held_out_together():
    rows = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
    drawn = postprocess.LabSample(rows.repeat(10, 1), None, None)
    trial = postprocess.run_trial("centring", {}, drawn)
    fitted, held_out = (set(map(tuple, x.tolist())) for x in (trial.in_sample.before, trial.held_out.before))
    assert (len(fitted), len(held_out), fitted & held_out) == (100, 100, set())
    results = postprocess.make_results(trial, drawn)
    assert (results["rows"], results["distinct"], results["fit_rows"]) == (2000, 200, 1000)


@pytest.mark.parametrize("similarity", Similarity)
def test_lab_finds_the_neighbors_of_the_map(similarity):
    points = 3 * torch.randn(60, 5, generator=torch.Generator().manual_seed(0)) + 1
    sample = postprocess.LabSample(points, [f"word{row}" for row in range(60)], None, similarity=similarity)
    results = postprocess.make_results(postprocess.run_trial("centring", {}, sample), sample)["neighbours"]
    assert (results["similarity"], results["rows"]) == (similarity.value, 60)
    for entry in results["of"]:
        row = int(entry["name"].removeprefix("word"))
        nearest = nearest_rows([(points.numpy(), np.arange(60))], points[row].numpy(), 8, similarity, row)
        assert [(neighbor["name"], neighbor[similarity.value]) for neighbor in entry["before"]] == [
            (f"word{neighbor.position}", pytest.approx(neighbor.nearness, rel=1e-4)) for neighbor in nearest
        ]


@pytest.mark.both_databases
def test_oldest_trials_are_deleted_when_maps_exceed_limit(run_trial, add_embedding, get_row, monkeypatch, settings):
    first, second = run_trial("centring"), run_trial("standardisation")
    sizes = [open_storage(settings).local_path(trial.state_sha256).stat().st_size for trial in (first, second)]
    add_embedding(first.id)
    monkeypatch.setattr(postprocess, "MAX_MAPS_BYTES", max(sizes) // 2)
    third = run_trial("soft_zca", eps=0.5)
    # An embedding is being made by the first.
    assert [get_row(PostProcessing, trial.id) is None for trial in (first, second, third)] == [False, True, False]
    files = {path.name for path in settings.files.iterdir()}
    assert [trial.state_sha256 in files for trial in (first, second, third)] == [True, False, True]
