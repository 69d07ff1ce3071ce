import base64
import html
import io
import json
import re
from functools import partial

import numpy as np
import pytest
from sqlalchemy import select

from app.db import models
from tests.cached_rows import make_once
from tests.factories import add_copy, add_embedding
from tests.queries import queries_of
from tests.uploads.good import npy

HOSTILE = "</script><script>alert(1)</script>"
PROJECTION = {"n": 2, "x": [0.0, 1.0], "y": [0.0, 1.0], "shares": [0.5, 0.25], "labels": None, "density": None}


def make_csv(cloud, n_bad=0):
    header = ",".join([f"x{i}" for i in range(8)] + ["word", "side", "other"])
    lines = [
        ",".join([f"{v:.6f}" for v in row] + [f"word{i}", "ab"[i % 2], "cde"[i % 3]]) for i, row in enumerate(cloud)
    ]
    for i in range(n_bad):
        lines[i] = "nan" + lines[i][lines[i].index(",") :]
    return "\n".join([header, *lines]).encode()


def store(context, embedding_id, **data):
    with context.sessions.begin() as session:
        for slug, document in data.items():
            session.merge(models.FigureData(embedding_id=embedding_id, slug=slug, data=document))


@pytest.fixture
def measured(client, context, work, cloud, module_cache):
    """The id of a measured embedding with names, labels, two rows left out and a hostile name."""

    def measure():
        files = {"file": ("cloud.csv", make_csv(cloud, n_bad=2))}
        answer = client.post("/api/embeddings?commit=auto", files=files, data={"name": HOSTILE})
        work()
        return answer.json()["id"]

    return make_once(context, module_cache, "measured", measure)


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_headline_numbers_link_to_their_measures(client, context, measured):
    page_text = client.get(f"/embeddings/{measured}").text
    head = page_text.partition('class="headline"')[2].partition("<h2")[0]
    values = {row["measure"]: row["value"] for row in client.get(f"/api/embeddings/{measured}").json()["measurements"]}
    used = f"The variance fills about {values['participation_ratio_unbiased']:.1f} of 8 dimensions"
    measures = f"/embeddings/{measured}?tab=details"
    assert f'<a href="{measures}#measure-participation_ratio_unbiased">{used}</a>' in head
    linked = set(re.findall(r'href="[^"]*#(measure-[a-z_]+)"', head))
    assert {"measure-participation_ratio_unbiased", "measure-mean_share"} <= linked
    assert linked & {f"measure-{slug}" for slug in ("twonn", "twonn_mle", "levina_bickel")}
    with context.sessions.begin() as session:
        session.get_one(models.Measurement, (measured, "prominent_bars")).value = 78.0
    behind = client.get(measures).text
    assert all(f'id="{anchor}"' in behind for anchor in linked)
    row = behind.partition('<tr id="measure-isoscore">')[2].partition("</tr>")[0]
    assert "Biased low unless n is many times d" in row
    assert "IsoScore: Measuring the Uniformity of Embedding Space" in row
    assert "<details>" in row
    row = behind.partition('<tr id="measure-prominent_bars">')[2].partition('<tr id="measure-')[0]
    assert re.search(r'<td class="n">\s*78\s*<small>', row), "counts have no decimals"
    assert "prominent_bars,,78,," in client.get(f"/embeddings/{measured}/measurements.csv").text


def test_each_tab_has_an_address_and_shows_only_itself(client, measured):
    page = f"/embeddings/{measured}"
    ids = {"overview": "findings", "map": "map-row", "details": "all-measures"}
    for tab, mark in ids.items():
        page_text = client.get(f"{page}?tab={tab}").text
        assert f'href="{page}?tab={tab}" aria-current="page"' in page_text
        assert [item for item in ids.values() if f'id="{item}"' in page_text] == [mark]
    assert f'href="{page}/tasks"' in client.get(page).text
    for query, tab in (("zeta=0.5", "details"), ("row=1", "map"), ("tab=x", "overview")):
        assert f'?tab={tab}" aria-current="page"' in client.get(f"{page}?{query}").text
    statements = text_of(client.get(f"{page}?tab=details").text)
    read = "Read from 8 columns, x0 to x7 ; rows named by word (400 different), labeled by side (2 different);"
    assert read in statements
    assert "2 of 400 rows left out because of NaN, infinity or an empty cell" in statements
    figure = f"{page}/figures/spectrum.html"
    page_text = client.get(f"{page}?tab=details").text
    assert f'hx-get="{figure}"' in page_text
    assert "Rows 1 to" not in page_text.partition('id="figure-spectrum"')[2].partition("</figure>")[0]
    assert "component eigenvalue 1 " in text_of(client.get(figure).text)
    assert client.get(f"{page}/figures/nothing.html").status_code == 404


def reads_projection(statements):
    return [sql for sql, values in statements if "figure_data.data" in sql and "projection" in str(values)]


@pytest.mark.both_databases
def test_pages_read_stored_rows_in_a_fixed_number_of_queries(client, context, measured, cloud):
    store(context, measured, projection=PROJECTION)
    page, answers = f"/embeddings/{measured}", []

    def ask(path):
        answers.append(client.get(path))

    baseline_queries = queries_of(context, partial(ask, page))
    for _ in range(3):
        add_copy(context, measured)
    queued = context.queue.list_active()
    queries = queries_of(context, partial(ask, page))
    assert 0 < len(queries) == len(baseline_queries) <= 12
    assert all(statement.startswith("SELECT") for statement, _ in queries)
    assert context.queue.list_active() == queued
    slugs = ("activation", "spectrum", "cumulative", "anisotropy", "cosines", "zeta")
    for figure in (f"{slug}.{kind}" for slug in slugs for kind in ("json", "csv", "html")):
        statements = queries_of(context, partial(ask, f"{page}/figures/{figure}"))
        assert 0 < len(statements) <= 8, figure
        assert all(statement.startswith("SELECT") for statement, _ in statements), figure
    statements = queries_of(context, partial(ask, f"{page}?tab=map"))
    assert reads_projection(statements) == [], "the figure loads it later"
    assert f'hx-get="{page}/figures/space.html" hx-select="#late-space"' in answers[-1].text
    assert len(reads_projection(queries_of(context, partial(ask, f"{page}/figures/projection.json")))) == 1
    assert {answer.status_code for answer in answers} == {200}


def test_downloaded_report_is_self_contained(client, context, measured):
    answer = client.get(f"/embeddings/{measured}/report.html")
    report = answer.text
    attachment = 'attachment; filename="isoscope-script-script-alert-1-script.html"'
    assert answer.headers["content-disposition"] == attachment
    addresses = re.findall(r'(?:href|src|action|data-figure)="([^"]*)"', report)
    assert len(addresses) > 20
    assert [item for item in addresses if not item.startswith(("data:", "#"))] == []
    assert "hx-" not in report
    assert "<form" not in report
    assert "default-src 'none'" in report
    assert "base-uri 'none'; form-action 'none'" in report
    assert HOSTILE not in report
    assert "alert(1)</script>" not in report
    assert "<h1>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in report
    embedded = r'id="figure-(\w+)".*?data-figure="data:application/json;base64,([^"]+)"'
    figures = {slug: json.loads(base64.b64decode(data)) for slug, data in re.findall(embedded, report, re.S)}
    assert {"zeta", "activation", "spectrum", "cumulative", "anisotropy", "cosines"} <= figures.keys()
    for slug, figure in figures.items():
        assert figure == client.get(f"/embeddings/{measured}/figures/{slug}.json").json()
    (measurements,) = re.findall(r'href="data:text/csv;base64,([^"]+)" download="isoscope-measurements.csv"', report)
    assert base64.b64decode(measurements).decode() == client.get(f"/embeddings/{measured}/measurements.csv").text


def test_degenerate_points_have_report_and_figures(client, work, measured):
    degenerate = (
        np.ones((40, 6)),
        np.full((40, 6), 0.1),
        np.random.default_rng(0).normal(size=(1, 6)),
        np.random.default_rng(0).normal(size=(40, 6)) * 1e300,
        np.random.default_rng(0).normal(size=(40, 1)),
    )
    ids = []
    for points in degenerate:
        answer = client.post("/api/embeddings?commit=auto", files={"file": ("x.npy", npy(points))})
        ids.append(answer.json()["id"])
    work()
    for flat_id in ids:
        base = f"/embeddings/{flat_id}"
        assert client.get(f"/api{base}").json()["status"] == "ready"
        report = client.get(f"{base}/report.html")
        assert (client.get(base).status_code, report.status_code) == (200, 200)
        slugs = re.findall(r'id="figure-([a-z_]+)"', report.text)
        assert {"projection", "sample_size", "zeta"} <= set(slugs)
        for kind in ("json", "csv"):
            urls = [f"{base}/figures/{slug}.{kind}" for slug in slugs]
            if flat_id == ids[-1]:
                compared = "&".join(f"id={embedding_id}" for embedding_id in (measured, *ids))
                urls += [
                    f"/compare/figures/{slug}.{kind}?{compared}" for slug in slugs if slug not in {"zeta", "space"}
                ]
            for url in urls:
                assert client.get(url).status_code == 200, url


def test_figure_data_is_returned_as_stored(client, context, measured):
    for slug, data in {"sample_size": {"n": 3}, "projection": PROJECTION}.items():
        store(context, measured, **{slug: data})
        assert client.get(f"/api/embeddings/{measured}/figure-data/{slug}").json() == data


def test_missing_figure_data_names_the_remedy(client, context, measured, cloud, work):
    with context.sessions.begin() as session:
        for row in session.scalars(select(models.FigureData)):
            session.delete(row)
    path = "/api/embeddings/{}/figure-data/{}"
    absent = client.get(path.format(measured, "projection")).json()["detail"]
    assert absent.startswith(f"There is no 'projection' of {HOSTILE}: another version of Isoscope")
    draft = client.post("/api/embeddings", files={"file": ("cloud.csv", make_csv(cloud))}).json()["id"]
    early = client.get(path.format(draft, "projection"))
    sentence = "There is no 'projection' of cloud.csv, which is inspecting. It is computed with the measures."
    assert (early.status_code, early.json()["detail"]) == (404, sentence)
    assert client.get(path.format(measured, "other")).status_code == 422
    assert client.get(path.format("none", "projection")).status_code == 404
    work()
    answer = client.get(f"/embeddings/{draft}/report.html")
    assert answer.status_code == 404
    assert "There are no measurements of cloud.csv, whose state is draft" in answer.text


def test_new_selection_drops_results_of_the_former(client, context, work, measured):
    second = add_embedding(context, "second")
    with context.ledger.recording(stored := context.ledger.store(io.BytesIO(b"a state"), 100)) as session:
        columns = {"key": "k", "method": "centring", "parameters": {}, "status": models.ResultStatus.READY}
        session.add(models.PostProcessing(embedding_id=measured, state_sha256=stored.sha256, **columns))
        session.add(models.ZetaCurve(embedding_id=measured, source="embedding", source_id=second))
        session.add(models.ZetaCurve(embedding_id=second, source="embedding", source_id=measured))
        session.add(models.ZetaCurve(embedding_id=second, source="identity"))
    store(context, measured, projection=PROJECTION)
    state, path = stored.sha256, f"/api/embeddings/{measured}"
    assert client.put(f"{path}/selection?commit=auto", json={"vectors": ["nothing"]}).status_code == 422
    before = client.get(path).json()
    assert (before["status"], len(before["measurements"]) > 20) == ("ready", True)
    with context.sessions() as session:
        assert len(session.scalars(select(models.PostProcessing)).all()) == 1
    choice = {"vectors": ["x0", "x1", "x2"], "names": "word", "labels": "other"}
    answer = client.put(f"{path}/selection?commit=auto", json=choice)
    assert (answer.status_code, answer.json()["status"], answer.json()["measurements"]) == (200, "inspecting", [])
    with context.sessions() as session:
        assert session.scalars(select(models.PostProcessing)).all() == []
        assert session.scalars(select(models.FigureData).where(models.FigureData.embedding_id == measured)).all() == []
        assert {row.embedding_id for row in session.scalars(select(models.ZetaCurve))} == {second}
        assert {row.source for row in session.scalars(select(models.ZetaCurve))} == {"identity"}
        assert session.get(models.StoredFile, state) is None
    assert not context.storage.exists(state)
    work()
    embedding = client.get(path).json()
    assert (embedding["status"], embedding["d"], embedding["selection"]["labels"]) == ("ready", 3, "other")
    spectrum = next(row for row in embedding["measurements"] if row["measure"] == "spectrum")
    assert len(spectrum["detail"]["eigenvalues"]) == 3


def test_new_selection_without_commit_is_a_draft(client, work, measured):
    path = f"/api/embeddings/{measured}"
    choice = {"vectors": ["x0", "x1"], "names": None, "labels": "side"}
    client.put(f"{path}/selection", json=choice)
    busy = client.put(f"{path}/selection", json=choice)
    sentence = f"{HOSTILE} is inspecting: choose from it when a worker has finished."
    assert (busy.status_code, busy.json()["detail"]) == (409, sentence)
    work()
    draft = client.get(path).json()
    assert (draft["status"], draft["d"], draft["measurements"], draft["n_left_out"]) == ("draft", 2, [], None)
    assert client.post(f"{path}/commit").status_code == 200
    work()
    assert client.get(path).json()["status"] == "ready"
    created = client.post("/api/embeddings", files={"file": ("ragged.csv", b"1,2,3\n4,5\n")}).json()
    work()
    answer = client.put(f"/api/embeddings/{created['id']}/selection", json={"vectors": ["x"]})
    sentence = "ragged.csv could not be read, so there is nothing to choose from. Upload it again."
    assert (answer.status_code, answer.json()["detail"]) == (409, sentence)


def test_report_form_measures_again_also_after_a_failure(client, work, measured, context):
    before = client.get(f"/api/embeddings/{measured}").json()
    same = {"chosen": "true", "vectors": before["selection"]["vectors"], "names": "word", "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=same).status_code == 303
    work()
    after = client.get(f"/api/embeddings/{measured}").json()
    assert after["measurements"] == before["measurements"]
    assert after["measured_at"] > before["measured_at"]
    with context.sessions.begin() as session:
        row = session.get_one(models.Embedding, measured)
        row.status, row.error = models.EmbeddingStatus.FAILED, "Measuring it was given up."
    page = client.get(f"/embeddings/{measured}").text
    assert "Measuring it was given up." in page
    assert "Measure anew" in page
    chosen = {"chosen": "true", "vectors": ["x0", "x1"], "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=chosen).status_code == 303
    work()
    embedding = client.get(f"/api/embeddings/{measured}").json()
    assert (embedding["status"], embedding["d"], embedding["error"]) == ("ready", 2, None)


def test_refused_selection_stays_in_form_with_its_error(client, context, measured):
    answer = client.post(f"/embeddings/{measured}/commit", data={"chosen": "true", "vectors": ["x0"], "labels": "none"})
    assert answer.status_code == 422
    assert 'id="labels-error"' in answer.text
    assert f'href="/embeddings/{measured}?tab=details"' in answer.text, "beside the report"
    with context.sessions.begin() as session:
        row = session.get_one(models.Embedding, measured)
        columns = {item["name"]: item for item in row.inspection["annotations"]}
        columns["word"] = columns["word"] | {"n_distinct": 1001}
        row.inspection = row.inspection | {"annotations": list(columns.values())}
    too_many = "disabled>word (more than 1,000 different, too many for labels)</option>"
    assert too_many in client.get(f"/embeddings/{measured}?tab=details").text
    form = {"chosen": "true", "vectors": ["x0", "x2"], "names": "other", "labels": "word"}
    for way in ("selection", "commit"):
        answer = client.post(f"/embeddings/{measured}/{way}", data=form)
        assert answer.status_code == 422
        form_html = " ".join(answer.text.partition('<form id="choose"')[2].partition("</form>")[0].split())
        assert re.findall(r"<option selected>(x\d)", form_html) == ["x0", "x2"]
        assert re.findall(r'<option value="(\w+)" selected', form_html) == ["other", "word", "cosine"]
        assert re.findall(r'<select [^>]*name="(\w+)"[^>]* autofocus', form_html) == ["labels"]
        assert too_many not in form_html
        assert re.search(r"<details [^>]*open>\s*<summary>Choose again", answer.text)
    assert client.get(f"/api/embeddings/{measured}").json()["selection"]["labels"] == "side"
