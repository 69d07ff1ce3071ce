import csv
import io
import re

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch

from app.db.models import Embedding, PostProcessing, ResultStatus, StoredFile
from app.embeddings.service import get_embedding
from app.postprocess import service
from app.postprocess.service import request_postprocessing
from isoscope.core.formatting import number
from isotropy.postprocess.methods import restore
from tests.cached_rows import make_once
from tests.uploads.good import npy


@pytest.fixture
def vectors(cloud):
    """An .npz of 400 named and labeled points, one of them not finite."""
    cloud[7, 0] = np.nan
    file = io.BytesIO()
    words, labels = [f"word{i}" for i in range(400)], [f"{i % 3}" for i in range(400)]
    np.savez(file, vectors=cloud, words=np.array(words), labels=np.array(labels))
    return file.getvalue()


@pytest.fixture
def source(client, context, work, vectors, module_cache):
    def measure():
        files = {"file": ("cloud.npz", vectors)}
        created = client.post("/api/embeddings?commit=auto", files=files, data={"name": "cloud"}).json()
        work()
        return created["id"]

    return make_once(context, module_cache, "source", measure)


@pytest.fixture
def base(source):
    return f"/api/embeddings/{source}/postprocessings"


@pytest.fixture
def trial(client, work, base):
    response = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}})
    assert (response.status_code, response.json()["status"]) == (202, "queued")
    work()
    return client.get(f"{base}/{response.json()['id']}").json()


def count_stored_files(context):
    with context.sessions() as session:
        return session.query(StoredFile).count()


def test_trial_is_reused_and_deleted_with_embedding(client, context, work, base, trial, source):
    assert (trial["status"], trial["parameters"]) == ("ready", {"eps": 0.5})
    assert trial["results"]["rows"] == 399
    assert trial["results"]["after"]["silhouette"]["n"] == 199
    again = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}}).json()
    assert (again["id"], again["status"]) == (trial["id"], "ready")
    assert work() == 0
    (listed,) = client.get(base).json()
    assert listed == {key: trial[key] for key in listed}
    assert "results" not in listed
    client.post(base, json={"method": "centring"})
    client.delete(f"/api/embeddings/{source}")
    client.delete(f"/api/trash/{source}")
    assert count_stored_files(context) == 0
    assert list(context.settings.files.iterdir()) == []
    assert work() == 0


def test_trial_of_other_embedding_or_selection_is_not_found(client, context, base, trial, source):
    other_url = base.replace(base.split("/")[3], "other")
    assert client.get(f"{other_url}/{trial['id']}").status_code == 404
    missing = client.get(f"{base}/missing")
    assert "There is no post-processing 'missing' of this embedding; only the last 200 are kept." in missing.text
    with context.sessions.begin() as session:
        row = session.get(Embedding, source)
        row.selection = {**row.selection, "labels": None}
    assert client.get(base).json() == []
    refused = client.post(f"{base}/{trial['id']}/embedding")
    assert (refused.status_code, "The vectors of cloud have changed since" in refused.text) == (409, True)


def test_trial_becomes_measured_embedding(client, work, base, trial, source, cloud):
    response = client.post(f"{base}/{trial['id']}/embedding", json={})
    assert response.status_code == 201
    assert (response.json()["name"], response.json()["status"]) == ("cloud, Soft ZCA whitening, eps 0.5", "making")
    made_id = response.json()["id"]
    assert "once a worker has computed and measured these vectors" in client.get(f"/embeddings/{made_id}").text
    early = client.get(f"/api/embeddings/{made_id}/vectors.npy")
    assert (early.status_code, "its files are not there yet" in early.text) == (409, True)
    work()
    ready = client.get(f"/api/embeddings/{made_id}").json()
    assert (ready["status"], ready["n"], ready["d"], ready["n_left_out"]) == ("ready", 400, 8, 1)
    chosen = {name: value for name, value in ready["selection"].items() if value}
    assert chosen == {"vectors": "array", "names": "name", "labels": "label", "similarity": "cosine"}
    assert {entry["role"] for entry in ready["files"]} == {"vectors", "annotations"}
    silhouette = next(measurement for measurement in ready["measurements"] if measurement["measure"] == "silhouette")
    assert silhouette["n"] == 399
    npy = client.get(f"/api/embeddings/{made_id}/vectors.npy")
    assert npy.headers["content-type"] == "application/octet-stream"
    assert "attachment" in npy.headers["content-disposition"]
    vectors = np.load(io.BytesIO(npy.content), allow_pickle=False)
    assert (vectors.shape, np.isfinite(vectors).all(1).sum()) == ((400, 8), 399)
    names = client.get(f"/api/embeddings/{made_id}/files/1").text.splitlines()
    assert (len(names), names[7]) == (400, '{"name": "word7", "label": "1"}')
    lab = " ".join(client.get(f"/embeddings/{source}/lab?method=soft_zca&eps=0.5").text.split())
    assert "applied to 399 rows (1 with NaN or infinity stays as it is), and the new vectors are measured" in lab
    page = client.get(f"/embeddings/{made_id}").text
    assert "by Soft ZCA whitening, eps 0.5, fitted on" in " ".join(page.split())
    assert f'<a href="/embeddings/{source}">cloud</a>' in page
    assert "fitted on 200 of 399 rows drawn with seed 0" in " ".join(page.split())
    note = "This map was fitted on 200 of these 399 rows"
    score = number(trial["results"]["after"]["isoscore_unbiased"]["value"])
    link = f'<a href="/embeddings/{source}/lab?method=soft_zca&amp;eps=0.5">lab</a>'
    assert f"{note}. On held-out rows, bias-corrected IsoScore is {score} ({link})." in page
    file = client.get(f"/embeddings/{made_id}/report.html").text
    assert f"{note}. On held-out rows, bias-corrected IsoScore is {score}." in file
    client.delete(f"/api/embeddings/{source}")
    client.delete(f"/api/trash/{source}")
    orphan = client.get(f"/embeddings/{made_id}").text
    assert "cloud, which was deleted," in orphan
    assert f"{note}, so the numbers below are optimistic." in orphan
    assert client.get(f"/api/embeddings/{made_id}").json()["status"] == "ready"


def test_safetensors_download_has_same_numbers(client, tmp_path):
    def upload(name, x):
        return client.post("/api/embeddings", files={"file": (name, npy(x))}).json()["id"]

    x = np.random.default_rng(0).normal(size=(33, 5)).astype(np.float16)
    answer = client.get(f"/embeddings/{upload('a;b ü.npy', x)}/vectors.safetensors")
    path = tmp_path / "x.safetensors"
    path.write_bytes(answer.content)
    read = safetensors.numpy.load_file(path)
    assert read["embeddings"].dtype == np.float16
    assert np.array_equal(read["embeddings"], x)
    assert answer.headers["content-length"] == str(len(answer.content))
    disposition = "attachment; filename*=utf-8''a%3Bb%20%C3%BC.safetensors"
    assert answer.headers["content-disposition"] == disposition
    for unsuitable in (np.ones((9, 4), ">f4"), np.asfortranarray(np.random.randn(9, 4))):
        created = upload("x.npy", unsuitable)
        refused = client.get(f"/api/embeddings/{created}/vectors.safetensors")
        assert refused.status_code == 409
        assert "safetensors needs little-endian numbers in row-major order" in refused.json()["detail"]
        assert client.get(f"/api/embeddings/{created}/vectors.npy").content == npy(unsuitable)


def test_transposed_vectors_are_not_downloadable(client, work):
    x = np.random.default_rng(0).normal(size=(4, 30))
    created = client.post("/api/embeddings", files={"file": ("wide.npy", npy(x))}).json()["id"]
    work()
    page = f"/embeddings/{created}"
    client.put(f"/api{page}/selection?commit=auto", json={"vectors": "array", "transpose": True})
    work()
    assert client.get(f"/api{page}").json()["n"] == 30
    for name in ("vectors.npy", "vectors.safetensors"):
        refused = client.get(f"{page}/{name}")
        sentence = "The rows of wide.npy are the columns of its file. Download that as it is, and transpose it: "
        assert (refused.status_code, refused.json()["detail"]) == (409, f"{sentence}{page}/files/0.")
    assert "Download as safetensors" not in client.get(f"{page}?tab=details").text
    assert client.get(f"{page}/files/0").content == npy(x)


def test_files_download_unchanged_and_invalid_trials_fail(client, source, vectors, work, base):
    answer = client.get(f"/embeddings/{source}/files/0")
    assert answer.content == vectors
    assert answer.headers["content-disposition"] == 'attachment; filename="cloud.npz"'
    missing = client.get(f"/embeddings/{source}/files/1")
    assert missing.status_code == 404
    assert missing.json()["detail"] == "There is no file 1 of cloud, which has 1: they count from 0."
    refused = client.get(f"/embeddings/{source}/vectors.npy")
    assert refused.status_code == 409
    assert "Expected vectors in one .npy file, got 1 of npz" in refused.json()["detail"]
    for body, field, sentence in (
        ({"method": "nothing"}, "method", "Expected a method among centring"),
        ({"method": "all_but_the_top", "parameters": {"D": 9}}, "D", "from 0 to 8: there are 8 dimensions; got 9"),
        ({"method": "centring", "parameters": {"D": 9}}, "parameters", "got 'D': leave it out"),
    ):
        refused = client.post(base, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
        assert sentence in refused.json()["detail"]
    draft = client.post("/api/embeddings", files={"file": ("draft.npz", vectors)}).json()
    work()
    for answer in (
        client.post(f"/api/embeddings/{draft['id']}/postprocessings", json={"method": "centring"}),
        client.get(f"/embeddings/{draft['id']}/lab"),
    ):
        assert answer.status_code == 409
        assert answer.json()["detail"] == "draft.npz is draft; post-processing needs a measured embedding."


def test_queued_trial_makes_no_embedding_and_is_deleted_with_job(client, context, work, base):
    requested = client.post(base, json={"method": "centring"}).json()
    path = f"{base}/{requested['id']}"
    refused = client.post(f"{path}/embedding")
    assert refused.status_code == 409
    assert refused.json()["detail"] == "This trial is queued; a new embedding needs one that is ready."
    refused = client.get(f"{path}/map.safetensors")
    assert refused.json()["detail"] == "This trial is queued; there is a map when it is ready."
    waiting = len(context.queue.list_active())
    assert client.delete(path).status_code == 204
    assert len(context.queue.list_active()) == waiting - 1
    assert work() == 0


@pytest.mark.both_databases
def test_only_newest_trials_are_stored(client, context, work, source, base, monkeypatch):
    trials = [request_postprocessing(context, source, "soft_zca", {"eps": 0.1}) for _ in range(3)]
    assert len({trial.id for trial in trials}) == 1
    monkeypatch.setattr(service, "MAX_TRIALS", 2)
    before = count_stored_files(context)
    work()
    for eps in (0.2, 0.3):
        client.post(base, json={"method": "soft_zca", "parameters": {"eps": eps}})
        work()
    assert [trial["parameters"]["eps"] for trial in client.get(base).json()] == [0.3, 0.2]
    assert count_stored_files(context) == before + 2


@pytest.mark.both_databases
def test_trial_is_not_deleted_while_making_embedding(client, context, work, trial, base, monkeypatch):
    path = f"{base}/{trial['id']}"
    embedding_id = client.post(f"{path}/embedding").json()["id"]
    refused = client.delete(path)
    sentence = "An embedding is being made by this trial. Delete it when that has finished."
    assert (refused.status_code, refused.json()["detail"]) == (409, sentence)
    monkeypatch.setattr(service, "MAX_TRIALS", 1)
    client.post(base, json={"method": "centring"})
    assert client.get(path).status_code == 200
    work()
    assert {embedding["status"] for embedding in client.get("/api/embeddings").json()} == {"ready"}
    before = count_stored_files(context)
    assert client.delete(path).status_code == 204
    assert count_stored_files(context) == before - 1
    assert (client.get(path).status_code, client.delete(path).status_code) == (404, 404)
    assert client.get(f"/api/embeddings/{embedding_id}").json()["status"] == "ready"


def test_failed_trial_is_retried(client, context, work, base, trial):
    with context.sessions.begin() as session:
        row = session.get(PostProcessing, trial["id"])
        row.status, row.error, row.attempts = ResultStatus.FAILED, "There was not enough memory.", 5
    again = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}}).json()
    assert (again["id"], again["status"], again["error"]) == (trial["id"], "queued", None)
    assert work() == 1


def test_only_submitting_form_queues_trial(client, context, work, source):
    lab = f"/embeddings/{source}/lab"
    page = client.get(f"{lab}?method=soft_zca&eps=0.5").text
    assert "The geometry after Soft ZCA whitening, eps 0.5 is not measured yet." in page
    assert work() == 0
    tried = client.post(lab, data={"method": "soft_zca", "eps": "0.5"})
    assert (tried.status_code, tried.headers["location"]) == (303, f"{lab}?method=soft_zca&eps=0.5")
    waiting = client.get(tried.headers["location"]).text
    assert "Soft ZCA whitening, eps 0.5 appears here once a worker has fitted it." in waiting
    assert 'hx-trigger="every 500ms" hx-sync="#lab:abort"' in waiting
    work()
    ready = client.get(tried.headers["location"]).text
    assert "Of 199 rows held out" in ready
    assert "every 500ms" not in ready
    embedding = get_embedding(context, source)
    trial = service.find_last_result(context, embedding, "soft_zca")
    change = trial.results["after"]["isoscore"]["value"] - trial.results["before"]["isoscore"]["value"]
    assert f"+{change:.2f}" in ready
    table = ready.partition('aria-label="Scores before and after"')[2]
    assert 0 < table.index("/measures#silhouette") < table.index("/measures#isoscore"), "labels come first"
    match = re.search(
        r'<p class="outcome">On rows that Soft ZCA whitening has not seen, IsoScore rises from .*</p>', ready
    )
    assert "; the mean cosine " in match[0]
    assert "; higher is more isotropic</small>" in ready
    assert "; higher is less isotropic</small>" in ready
    assert 'id="figure-twonn"' not in ready


@pytest.mark.both_databases
def test_replaced_trial_is_dropped(client, context, source):
    lab = f"/embeddings/{source}/lab"
    client.post(lab, data={"method": "soft_zca", "eps": "0.5"})
    (first,) = client.get(f"/api/embeddings/{source}/postprocessings").json()
    client.post(lab, data={"method": "soft_zca", "eps": "0.6", "instead_of": first["id"]})
    (second,) = client.get(f"/api/embeddings/{source}/postprocessings").json()
    assert second["parameters"] == {"eps": 0.6}
    assert context.queue.list_active() >= {f"postprocess-{second['id']}"}
    assert f"postprocess-{first['id']}" not in context.queue.list_active()
    client.post(lab, data={"method": "soft_zca", "eps": "0.6", "instead_of": second["id"]})
    assert len(client.get(f"/api/embeddings/{source}/postprocessings").json()) == 1


def test_invalid_number_is_explained_at_its_field(client, context, source):
    lab, range_ = f"/embeddings/{source}/lab", "Expected D as a whole number from 0 to 8: there are 8 dimensions;"
    for value, sentence in (
        ("9", f"{range_} got 9."), ("-1", f"{range_} got -1."), ("many", "Enter a number, not &#39;many&#39;."),
    ):  # fmt: skip
        for answer in (
            client.get(f"{lab}?method=all_but_the_top&D={value}", headers={"Accept": "text/html"}),
            client.post(lab, data={"method": "all_but_the_top", "D": value}, headers={"Accept": "text/html"}),
        ):
            assert answer.status_code == 422
            assert f'value="{value}"' in answer.text
            assert f'id="dial-D-error">{sentence}' in answer.text
            assert "is not measured yet" not in answer.text
    answer = client.get(f"{lab}?method=nothing")
    assert answer.status_code == 404
    assert "There is no method 'nothing': choose one in the lab." in answer.text
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, source)
        row.n, row.n_left_out = 30_000, 9_000
    page = " ".join(client.get(f"{lab}?method=centring").text.split())
    assert "Fitted on a random half of 20,000 rows drawn of 21,000 and measured on the other half" in page


def test_effects_by_construction_are_stated(client, work, source):
    expected_notes = {"zca_whitening": True, "soft_zca": False, "centring": False}
    for method in expected_notes:
        client.post(f"/embeddings/{source}/lab", data={"method": method})
    work()
    for method, by_construction in expected_notes.items():
        page = client.get(f"/embeddings/{source}/lab?method={method}").text
        sentence = "In-sample whitening gives 1 by construction: only held-out rows show its effect."
        assert (sentence in page) == by_construction
        assert ("Does not change covariance or IsoScore." in page) == (method == "centring")


def test_figures_map_and_neighbors_match_dial(client, context, source, trial):
    lab = f"/embeddings/{source}/lab"
    figure = client.get(f"{lab}/figures/spectrum.json?method=soft_zca&eps=0.5")
    assert figure.json()["data"]
    rows = list(csv.DictReader(io.StringIO(client.get(f"{lab}/figures/spectrum.csv?method=soft_zca&eps=0.5").text)))
    eigenvalues = trial["results"]["before"]["spectrum"]["detail"]["eigenvalues"]
    assert float(rows[0]["eigenvalue: before"]) == pytest.approx(eigenvalues[0])
    state = safetensors.torch.load(client.get(f"{lab}/map.safetensors?method=soft_zca&eps=0.5").content)
    assert restore("soft_zca", state).matrix.shape == (8, 8)
    missing = client.get(f"{lab}/map.safetensors?method=soft_zca&eps=0.7")
    assert missing.status_code == 404
    assert "Soft ZCA whitening, eps 0.7 has no result yet" in missing.text
    neighbors = trial["results"]["neighbours"]
    assert (neighbors["k"], neighbors["rows"], len(neighbors["of"])) == (8, 399, 199)
    lab = f"{lab}?method=soft_zca&eps=0.5"
    result = neighbors["of"][3]
    page = client.get(f"{lab}&name={result['name']}").text
    assert f'aria-label="Nearest neighbors of {result["name"]}"' in page
    assert f'data-label="Before">{result["before"][0]["name"]}</td>' in page
    assert '<input type="hidden" name="eps" value="0.5"><input type="hidden" name="method" value="soft_zca">' in page
    outside = client.get(f"{lab}&name=<nobody>").text
    assert "&lt;nobody&gt; is not among the names that can be looked up here: they are 199" in outside
    with context.sessions.begin() as session:  # as another version would have stored it
        row = session.get_one(PostProcessing, trial["id"])
        before = {slug: result | {"former": 1} for slug, result in row.results["before"].items()}
        row.results = row.results | {"before": before | {"former_measure": {"value": 1.0, "n": 9}}}
    page = client.get(lab)
    assert (page.status_code, "Of 199 rows held out" in page.text) == (200, True)


def test_last_result_is_shown_meanwhile_and_becomes_embedding(client, work, source, trial):
    form = {"postprocessing_id": trial["id"], "name": " whitened / twice "}
    response = client.post(f"/embeddings/{source}/lab/embedding", data=form)
    assert response.status_code == 303
    work()
    ready = client.get(f"/api{response.headers['location']}").json()
    assert (ready["name"], ready["filename"], ready["status"]) == ("whitened / twice", "whitened-twice.npy", "ready")
    client.post(f"/embeddings/{source}/lab", data={"method": "centring", "instead_of": trial["id"]})
    assert len(client.get(f"/api/embeddings/{source}/postprocessings").json()) == 2
    lab = f"/embeddings/{source}/lab"
    client.post(lab, data={"method": "soft_zca", "eps": "0.6"})
    page = client.get(f"{lab}?method=soft_zca&eps=0.6").text
    assert "Meanwhile, the last result of this method." in page
    assert "Of 199 rows held out" in page
    assert "Keep as an embedding" not in page
