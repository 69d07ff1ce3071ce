import csv
import io
import re

import pytest
import safetensors.numpy
import safetensors.torch

from app.db.models import Embedding, PostProcessing
from app.embeddings.service import get_embedding
from app.postprocess import service
from isotropy.postprocess.methods import restore


def test_only_submitting_form_queues_trial(client, context, work, source):
    lab = f"/embeddings/{source}/lab"
    page = client.get(f"{lab}?method=soft_zca&eps=0.5").text
    assert "The geometry after Soft ZCA whitening, eps 0.5 is not measured yet." in page
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
