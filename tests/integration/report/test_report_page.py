import base64
import html
import json
import re
from functools import partial

import numpy as np
import pytest
from sqlalchemy import select

from app.db.models import FigureData, Measurement
from tests.factories import add_copy
from tests.queries import queries_of
from tests.reports import HOSTILE, PROJECTION, make_csv, store
from tests.uploads.good import npy


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
        session.get_one(Measurement, (measured, "prominent_bars")).value = 78.0
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


DEGENERATE = (
    np.ones((40, 6)),
    np.full((40, 6), 0.1),
    np.random.default_rng(0).normal(size=(1, 6)),
    np.random.default_rng(0).normal(size=(40, 6)) * 1e300,
    np.random.default_rng(0).normal(size=(40, 1)),
)


def test_degenerate_points_have_report_and_figures(client, work, measured):
    ids = []
    for points in DEGENERATE:
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
        for row in session.scalars(select(FigureData)):
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
