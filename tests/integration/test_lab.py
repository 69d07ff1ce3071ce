"""The lab over HTTP: pages and API, with the real jobs."""

import csv
import io
import re

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from app.db.models import Embedding, PostProcessing, ResultStatus, StoredFile
from app.services import postprocess
from app.services.embeddings import get_embedding
from app.services.postprocess import request_postprocessing
from isoscope.core.formatting import number
from isotropy.postprocess.methods import restore
from tests.rounding import assert_same_images
from tests.uploads.good import npy


@pytest.fixture
def vectors(cloud):
    """An .npz of 400 named and labelled points, one of them not finite."""
    cloud[7, 0] = np.nan
    file = io.BytesIO()
    words, labels = [f"word{i}" for i in range(400)], [f"{i % 3}" for i in range(400)]
    np.savez(file, vectors=cloud, words=np.array(words), labels=np.array(labels))
    return file.getvalue()


@pytest.fixture
def source(client, work, vectors):
    """The id of a measured embedding."""
    files = {"file": ("cloud.npz", vectors)}
    created = client.post("/api/embeddings?commit=auto", files=files, data={"name": "cloud"}).json()
    work()
    return created["id"]


@pytest.fixture
def base(source):
    return f"/api/embeddings/{source}/postprocessings"


@pytest.fixture
def trial(client, work, base):
    """A trial that is ready."""
    asked = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}})
    assert (asked.status_code, asked.json()["status"]) == (202, "queued")
    work()
    return client.get(f"{base}/{asked.json()['id']}").json()


def stored(context):
    with context.sessions() as session:
        return session.query(StoredFile).count()


def test_a_trial_is_asked_for_once_and_read(client, work, base, trial):
    assert (trial["status"], trial["parameters"]) == ("ready", {"eps": 0.5})
    assert trial["results"]["rows"] == 399
    assert trial["results"]["after"]["silhouette"]["n"] == 199
    again = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}}).json()
    assert (again["id"], again["status"]) == (trial["id"], "ready")
    assert work() == 0
    (listed,) = client.get(base).json()
    assert listed == {key: trial[key] for key in listed}
    assert "results" not in listed


@pytest.mark.parametrize(
    ("body", "field", "sentence"),
    [
        ({"method": "nothing"}, "method", "Expected a method among centring"),
        ({"method": "all_but_the_top", "parameters": {"D": 9}}, "D", "from 0 to 8: there are 8 dimensions; got 9"),
        ({"method": "centring", "parameters": {"D": 9}}, "parameters", "got 'D': leave it out"),
    ],
)
def test_what_does_not_suit_is_refused_with_its_field(client, base, body, field, sentence):
    refused = client.post(base, json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert sentence in refused.json()["detail"]


def test_a_draft_has_no_lab(client, work, vectors):
    draft = client.post("/api/embeddings", files={"file": ("draft.npz", vectors)}).json()
    work()
    for answer in (
        client.post(f"/api/embeddings/{draft['id']}/postprocessings", json={"method": "centring"}),
        client.get(f"/embeddings/{draft['id']}/lab"),
    ):
        assert answer.status_code == 409
        assert answer.json()["detail"] == "draft.npz is draft; post-processing needs a measured embedding."


def test_a_trial_of_another_embedding_is_not_found(client, base, trial):
    other = base.replace(base.split("/")[3], "other")
    assert client.get(f"{other}/{trial['id']}").status_code == 404
    missing = client.get(f"{base}/missing")
    assert "There is no post-processing 'missing' of this embedding; only the last 200 are kept." in missing.text


def test_a_new_embedding_is_made_measured_and_downloaded(client, work, base, trial, source, cloud):
    made = client.post(f"{base}/{trial['id']}/embedding", json={})
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["status"]) == ("cloud, Soft ZCA whitening, eps 0.5", "making")
    made_id = made.json()["id"]
    assert "A worker is making these vectors" in client.get(f"/embeddings/{made_id}").text
    early = client.get(f"/api/embeddings/{made_id}/vectors.npy")
    assert (early.status_code, "its files are not there yet" in early.text) == (409, True)
    work()
    ready = client.get(f"/api/embeddings/{made_id}").json()
    assert (ready["status"], ready["n"], ready["d"], ready["n_left_out"]) == ("ready", 400, 8, 1)
    assert ready["selection"] == {
        "vectors": "array",
        "names": "name",
        "labels": "label",
        "groups": None,
        "transpose": False,
        "quoting": None,
    }
    assert {one["role"] for one in ready["files"]} == {"vectors", "annotations"}
    silhouette = next(one for one in ready["measurements"] if one["measure"] == "silhouette")
    assert silhouette["n"] == 399

    npy = client.get(f"/api/embeddings/{made_id}/vectors.npy")
    assert npy.headers["content-type"] == "application/octet-stream"
    assert "attachment" in npy.headers["content-disposition"]
    vectors = np.load(io.BytesIO(npy.content), allow_pickle=False)
    state = client.get(f"{base}/{trial['id']}/map.safetensors").content
    fitted = restore("soft_zca", safetensors.torch.load(state))
    finite = np.isfinite(cloud).all(1)
    assert_same_images(vectors[finite], fitted.apply(torch.from_numpy(cloud[finite])).numpy())
    names = client.get(f"/api/embeddings/{made_id}/files/1").text.splitlines()
    assert (len(names), names[7]) == (400, '{"name": "word7", "label": "1"}')

    lab = " ".join(client.get(f"/embeddings/{source}/lab?method=soft_zca&eps=0.5").text.split())
    assert "applied to 399 rows (1 with NaN or infinity stays as it is), and the new vectors are measured" in lab

    page = client.get(f"/embeddings/{made_id}").text
    assert "by Soft ZCA whitening, eps 0.5, fitted on" in " ".join(page.split())
    assert f'<a href="/embeddings/{source}">cloud</a>' in page
    assert "fitted on 200 of 399 rows drawn with seed 0" in " ".join(page.split())
    note = "Fitted on 200 of these 399 rows"
    score = number(trial["results"]["after"]["isoscore_unbiased"]["value"])
    link = f'<a href="/embeddings/{source}/lab?method=soft_zca&amp;eps=0.5">lab</a>'
    assert f"{note}: judged on rows it had not seen, bias-corrected IsoScore is {score} ({link})." in page
    file = client.get(f"/embeddings/{made_id}/report.html").text
    assert f"{note}: judged on rows it had not seen, bias-corrected IsoScore is {score}." in file
    client.delete(f"/api/embeddings/{source}")
    client.delete(f"/api/trash/{source}")
    orphan = client.get(f"/embeddings/{made_id}").text
    assert "cloud, which was deleted," in orphan
    assert f"{note}, which flatters the numbers below." in orphan
    assert client.get(f"/api/embeddings/{made_id}").json()["status"] == "ready"


def test_safetensors_are_the_same_numbers_and_read_by_the_library(client, work, tmp_path):
    x = np.random.default_rng(0).normal(size=(33, 5)).astype(np.float16)
    created = client.post("/api/embeddings", files={"file": ("a;b ü.npy", npy(x))}).json()["id"]
    answer = client.get(f"/embeddings/{created}/vectors.safetensors")
    path = tmp_path / "x.safetensors"
    path.write_bytes(answer.content)
    read = safetensors.numpy.load_file(path)
    assert read["embeddings"].dtype == np.float16
    assert np.array_equal(read["embeddings"], x)
    assert answer.headers["content-length"] == str(len(answer.content))
    disposition = "attachment; filename*=utf-8''a%3Bb%20%C3%BC.safetensors"
    assert answer.headers["content-disposition"] == disposition


@pytest.mark.parametrize("x", [np.ones((9, 4), ">f4"), np.asfortranarray(np.random.randn(9, 4))])
def test_numbers_that_lie_otherwise_are_no_safetensors(client, x):
    created = client.post("/api/embeddings", files={"file": ("x.npy", npy(x))}).json()["id"]
    refused = client.get(f"/api/embeddings/{created}/vectors.safetensors")
    assert refused.status_code == 409
    assert "row after row with their lowest byte first" in refused.json()["detail"]
    assert client.get(f"/api/embeddings/{created}/vectors.npy").content == npy(x)


def test_what_was_measured_with_rows_and_columns_swapped_lies_in_no_file(client, work):
    x = np.random.default_rng(0).normal(size=(4, 30))
    created = client.post("/api/embeddings", files={"file": ("wide.npy", npy(x))}).json()["id"]
    work()
    page = f"/embeddings/{created}"
    assert "As safetensors" in client.get(page).text
    client.put(f"/api{page}/selection?commit=auto", json={"vectors": "array", "transpose": True})
    work()
    assert client.get(f"/api{page}").json()["n"] == 30
    for name in ("vectors.npy", "vectors.safetensors"):
        refused = client.get(f"{page}/{name}")
        sentence = "The rows of wide.npy are the columns of its file. Download that as it is, and transpose it: "
        assert (refused.status_code, refused.json()["detail"]) == (409, f"{sentence}{page}/files/0.")
    assert "As safetensors" not in client.get(page).text
    assert client.get(f"{page}/files/0").content == npy(x)


def test_files_are_downloaded_as_they_were_uploaded(client, source, vectors):
    answer = client.get(f"/embeddings/{source}/files/0")
    assert answer.content == vectors
    assert answer.headers["content-disposition"] == 'attachment; filename="cloud.npz"'
    missing = client.get(f"/embeddings/{source}/files/1")
    assert missing.status_code == 404
    assert missing.json()["detail"] == "There is no file 1 of cloud, which has 1: they count from 0."
    refused = client.get(f"/embeddings/{source}/vectors.npy")
    assert refused.status_code == 409
    assert "Expected vectors in one .npy file, got 1 of npz" in refused.json()["detail"]


def test_what_was_tried_goes_with_the_embedding(client, work, context, base, trial, source):
    client.post(base, json={"method": "centring"})
    client.delete(f"/api/embeddings/{source}")
    client.delete(f"/api/trash/{source}")
    assert stored(context) == 0
    assert list(context.settings.files.iterdir()) == []
    assert work() == 0


def test_a_trial_that_is_not_ready_makes_nothing(client, base):
    asked = client.post(base, json={"method": "centring"}).json()
    refused = client.post(f"{base}/{asked['id']}/embedding")
    assert refused.status_code == 409
    assert refused.json()["detail"] == "This trial is queued; a new embedding needs one that is ready."
    refused = client.get(f"{base}/{asked['id']}/map.safetensors")
    assert refused.json()["detail"] == "This trial is queued; there is a map when it is ready."


def test_only_the_newest_results_are_kept_with_their_maps(client, context, work, source, base, monkeypatch):
    monkeypatch.setattr(postprocess, "KEPT", 2)
    for eps in (0.1, 0.2, 0.3):
        client.post(base, json={"method": "soft_zca", "parameters": {"eps": eps}})
        work()
    assert [one["parameters"]["eps"] for one in client.get(base).json()] == [0.3, 0.2]
    assert stored(context) == 3


def test_a_result_that_an_embedding_is_being_made_by_is_kept(client, context, work, trial, base, monkeypatch):
    client.post(f"{base}/{trial['id']}/embedding")
    monkeypatch.setattr(postprocess, "KEPT", 1)
    client.post(base, json={"method": "centring"})
    assert client.get(f"{base}/{trial['id']}").status_code == 200
    work()
    assert {one["status"] for one in client.get("/api/embeddings").json()} == {"ready"}


def test_a_trial_is_deleted_with_its_map_but_not_while_an_embedding_is_made_by_it(client, context, work, trial, base):
    path = f"{base}/{trial['id']}"
    made = client.post(f"{path}/embedding").json()["id"]
    refused = client.delete(path)
    sentence = "An embedding is being made by this trial. Delete it when that is done."
    assert (refused.status_code, refused.json()["detail"]) == (409, sentence)
    work()
    before = stored(context)
    assert client.delete(path).status_code == 204
    assert stored(context) == before - 1
    assert (client.get(path).status_code, client.delete(path).status_code) == (404, 404)
    assert client.get(f"/api/embeddings/{made}").json()["status"] == "ready"


def test_a_trial_that_waits_is_deleted_with_its_job(client, context, work, base):
    asked = client.post(base, json={"method": "centring"}).json()
    waiting = len(context.queue.active())
    assert client.delete(f"{base}/{asked['id']}").status_code == 204
    assert len(context.queue.active()) == waiting - 1
    assert work() == 0


def test_a_failed_trial_is_tried_again(client, context, work, base, trial):
    with context.sessions.begin() as session:
        row = session.get(PostProcessing, trial["id"])
        row.status, row.error, row.attempts = ResultStatus.FAILED, "The memory was not enough.", 5
    again = client.post(base, json={"method": "soft_zca", "parameters": {"eps": 0.5}}).json()
    assert (again["id"], again["status"], again["error"]) == (trial["id"], "queued", None)
    assert work() == 1


def test_results_of_vectors_chosen_before_are_not_shown(client, context, base, trial, source):
    with context.sessions.begin() as session:
        row = session.get(Embedding, source)
        row.selection = {**row.selection, "labels": None}
    assert client.get(base).json() == []
    refused = client.post(f"{base}/{trial['id']}/embedding")
    assert (refused.status_code, "Other vectors were chosen of cloud since" in refused.text) == (409, True)


def test_looking_asks_for_nothing_and_trying_goes_to_the_result(client, context, work, source):
    lab = f"/embeddings/{source}/lab"
    page = client.get(f"{lab}?method=soft_zca&eps=0.5").text
    assert "Soft ZCA whitening, eps 0.5 has not been tried on these vectors yet." in page
    assert work() == 0
    tried = client.post(lab, data={"method": "soft_zca", "eps": "0.5"})
    assert (tried.status_code, tried.headers["location"]) == (303, f"{lab}?method=soft_zca&eps=0.5")
    waiting = client.get(tried.headers["location"]).text
    assert "A worker is fitting Soft ZCA whitening, eps 0.5." in waiting
    assert 'hx-trigger="every 500ms" hx-sync="#lab:abort"' in waiting
    work()
    ready = client.get(tried.headers["location"]).text
    assert "Of 199 rows held out" in ready
    assert "every 500ms" not in ready
    embedding = get_embedding(context, source)
    trial = postprocess.last_result(context, embedding, "soft_zca")
    change = trial.results["after"]["isoscore"]["value"] - trial.results["before"]["isoscore"]["value"]
    assert f"+{change:.2f}" in ready
    assert "silhouette" in ready
    told = re.search(
        r'<p class="outcome">On rows that Soft ZCA whitening has not seen, IsoScore rises from .*</p>', ready
    )
    assert "; the mean cosine " in told[0]
    assert "; higher is more isotropic</small>" in ready
    assert "; higher is less isotropic</small>" in ready
    assert 'id="figure-twonn"' not in ready


def test_a_position_that_nobody_waits_for_any_longer_is_dropped(client, context, source):
    lab = f"/embeddings/{source}/lab"
    client.post(lab, data={"method": "soft_zca", "eps": "0.5"})
    (first,) = client.get(f"/api/embeddings/{source}/postprocessings").json()
    client.post(lab, data={"method": "soft_zca", "eps": "0.6", "instead_of": first["id"]})
    (second,) = client.get(f"/api/embeddings/{source}/postprocessings").json()
    assert second["parameters"] == {"eps": 0.6}
    assert context.queue.active() >= {f"postprocess-{second['id']}"}
    assert f"postprocess-{first['id']}" not in context.queue.active()
    client.post(lab, data={"method": "soft_zca", "eps": "0.6", "instead_of": second["id"]})
    assert len(client.get(f"/api/embeddings/{source}/postprocessings").json()) == 1


def test_a_result_that_is_there_is_not_dropped(client, source, trial):
    client.post(f"/embeddings/{source}/lab", data={"method": "centring", "instead_of": trial["id"]})
    assert len(client.get(f"/api/embeddings/{source}/postprocessings").json()) == 2


def test_while_another_is_made_the_last_result_of_the_method_is_shown(client, source, trial):
    lab = f"/embeddings/{source}/lab"
    client.post(lab, data={"method": "soft_zca", "eps": "0.6"})
    page = client.get(f"{lab}?method=soft_zca&eps=0.6").text
    assert "Meanwhile, the last result of this method." in page
    assert "Of 199 rows held out" in page
    assert "Use as a new embedding" not in page


@pytest.mark.parametrize("value", ["9", "-1", "many"])
def test_a_wrong_number_comes_back_with_the_sentence_at_its_field(client, source, value):
    lab = f"/embeddings/{source}/lab"
    for answer in (
        client.get(f"{lab}?method=all_but_the_top&D={value}", headers={"Accept": "text/html"}),
        client.post(lab, data={"method": "all_but_the_top", "D": value}, headers={"Accept": "text/html"}),
    ):
        assert answer.status_code == 422
        assert f'value="{value}"' in answer.text
        assert re.search(r'id="dial-D-error">Expected D as a (whole )?number', answer.text)
        assert "has not been tried" not in answer.text


def test_no_such_method_is_not_found(client, source):
    answer = client.get(f"/embeddings/{source}/lab?method=nothing")
    assert answer.status_code == 404
    assert "There is no method 'nothing': choose one on the page of the lab." in answer.text


@pytest.mark.parametrize(("method", "told"), [("zca_whitening", True), ("soft_zca", False), ("centring", False)])
def test_what_is_so_by_construction_is_said(client, work, source, method, told):
    client.post(f"/embeddings/{source}/lab", data={"method": method})
    work()
    page = client.get(f"/embeddings/{source}/lab?method={method}").text
    assert ("In-sample whitening gives 1 by construction: only rows held out say what it does." in page) == told
    assert ("Changes neither covariance nor IsoScore." in page) == (method == "centring")


def test_figures_and_the_map_are_files_of_the_position(client, source, trial):
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
    assert "Soft ZCA whitening, eps 0.7 has no result here yet" in missing.text


def test_rows_left_out_are_not_among_those_that_rows_are_drawn_of(client, context, source):
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, source)
        row.n, row.n_left_out = 30_000, 9_000
    page = " ".join(client.get(f"/embeddings/{source}/lab").text.split())
    assert "It is fitted on 10,000 of 20,000 rows drawn of 21,000, and judged by the 10,000 others" in page


def test_a_trial_of_another_version_is_shown_without_what_it_noted_besides(client, context, source, trial):
    with context.sessions.begin() as session:
        row = session.get_one(PostProcessing, trial["id"])
        before = {slug: one | {"former": 1} for slug, one in row.results["before"].items()}
        row.results = row.results | {"before": before | {"former_measure": {"value": 1.0, "n": 9}}}
    page = client.get(f"/embeddings/{source}/lab?method=soft_zca&eps=0.5")
    assert (page.status_code, "Of 199 rows held out" in page.text) == (200, True)


def test_names_are_looked_up_among_the_rows_held_out(client, source, trial):
    neighbours = trial["results"]["neighbours"]
    assert (neighbours["k"], neighbours["rows"], len(neighbours["of"])) == (8, 199, 199)
    lab = f"/embeddings/{source}/lab?method=soft_zca&eps=0.5"
    one = neighbours["of"][3]
    page = client.get(f"{lab}&name={one['name']}").text
    assert f'aria-label="Nearest neighbours of {one["name"]}"' in page
    assert f'data-label="Before">{one["before"][0]["name"]}</td>' in page
    assert '<input type="hidden" name="eps" value="0.5"><input type="hidden" name="method" value="soft_zca">' in page
    outside = client.get(f"{lab}&name=<nobody>").text
    assert "&lt;nobody&gt; is not among the names that can be looked up here: they are 199" in outside


def test_an_embedding_is_made_from_the_page(client, work, source, trial):
    form = {"postprocessing_id": trial["id"], "name": " whitened / twice "}
    made = client.post(f"/embeddings/{source}/lab/embedding", data=form)
    assert made.status_code == 303
    work()
    ready = client.get(f"/api{made.headers['location']}").json()
    assert (ready["name"], ready["filename"], ready["status"]) == ("whitened / twice", "whitened-twice.npy", "ready")


def test_the_same_position_asked_for_at_once_is_one_trial(context, client, source):
    asked = [request_postprocessing(context, source, "centring", {}) for _ in range(3)]
    assert len({one.id for one in asked}) == 1
