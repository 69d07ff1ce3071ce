"""The report of an embedding: its page, its figures, and the one file that stands alone."""

import base64
import html
import io
import json
import re
from functools import partial

import numpy as np
import pytest
from sqlalchemy import select

from app.db.models import (
    FigureData,
    Measurement,
)
from tests.queries import queries_of
from tests.reports import HOSTILE, PROJECTION, csv_of, store

NEIGHBOURS = {
    "k": 2,
    "rows": 400,
    "method": "all_but_the_top",
    "parameters": {"D": 1},
    "of": [
        {
            "name": name,
            "before": [{"name": f"{name} one", "cosine": 0.75}, {"name": f"{name} two", "cosine": 0.5}],
            "after": [{"name": f"{name} two", "cosine": 0.25}, {"name": f"{name} three", "cosine": -0.125}],
        }
        for name in ("word1", HOSTILE)
    ],
}


def text_of(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_the_report_begins_with_words_whose_numbers_link_to_their_measures(client, measured):
    page_text = client.get(f"/embeddings/{measured}").text
    head = page_text.partition('class="headline"')[2].partition("</div>")[0]
    value = next(
        item["value"]
        for item in client.get(f"/api/embeddings/{measured}").json()["measurements"]
        if item["measure"] == "participation_ratio_unbiased"
    )
    used = f"The variance fills about {value:.1f} of 8 dimensions"
    measures = f"/embeddings/{measured}?tab=measures"
    assert f'<a href="{measures}#measure-participation_ratio_unbiased">{used}</a>' in head
    linked = set(re.findall(r'href="[^"]*#(measure-[a-z_]+)"', head))
    assert {"measure-participation_ratio_unbiased", "measure-mean_share"} <= linked
    assert linked & {f"measure-{slug}" for slug in ("twonn", "twonn_mle", "levina_bickel")}
    behind = client.get(measures).text
    assert all(f'id="{anchor}"' in behind for anchor in linked)


def test_the_report_says_what_was_read_and_what_was_left_out(client, measured):
    statements = text_of(client.get(f"/embeddings/{measured}?tab=source"))
    assert (
        "Read from 8 columns, x0 to x7 ; rows named by word (400 different), labeled by side (2 different);"
        in statements
    )
    assert "2 of 400 rows left out because of NaN, infinity or an empty cell" in statements


def test_each_measure_folds_how_it_misleads_and_where_it_is_from(client, measured):
    page_text = client.get(f"/embeddings/{measured}?tab=measures").text
    row = page_text.partition('<tr id="measure-isoscore">')[2].partition("</tr>")[0]
    assert "Biased low unless n is many times d" in row
    assert "IsoScore: Measuring the Uniformity of Embedding Space" in row
    assert "<details>" in row


def test_counts_are_shown_whole(client, context, measured):
    with context.sessions.begin() as session:
        session.get_one(Measurement, (measured, "prominent_bars")).value = 78.0
    page_text = client.get(f"/embeddings/{measured}?tab=measures").text
    row = page_text.partition('<tr id="measure-prominent_bars">')[2].partition('<tr id="measure-')[0]
    assert re.search(r'<td class="n">\s*78\s*<small>', row)
    assert "prominent_bars,,78,," in client.get(f"/embeddings/{measured}/measurements.csv").text


def test_each_part_has_an_address_and_shows_itself_alone(client, measured):
    page = f"/embeddings/{measured}"
    ids = {
        "overview": "figure-spectrum",
        "directions": "shrinkage",
        "neighbors": "figure-twonn",
        "measures": "all-measures",
    }
    for tab, mark in ids.items():
        page_text = client.get(f"{page}?tab={tab}").text
        assert f'href="{page}?tab={tab}" aria-current="page"' in page_text
        assert [item for item in ids.values() if f'id="{item}"' in page_text] == [mark]
    assert f'href="{page}/lab"' in client.get(page).text


@pytest.mark.parametrize(("query", "tab"), [("zeta=0.5", "directions"), ("name=a", "neighbors"), ("tab=x", "overview")])
def test_an_address_without_its_part_shows_the_part_that_it_asks_for(client, measured, query, tab):
    assert f'?tab={tab}" aria-current="page"' in client.get(f"/embeddings/{measured}?{query}").text


def test_neighbours_are_shown_of_the_named_row_before_and_after(client, context, measured):
    store(context, measured, neighbours=NEIGHBOURS)

    def section(query=""):
        report = client.get(f"/embeddings/{measured}?tab=neighbors{query}").text
        return text_of(type("", (), {"text": report.partition('id="neighbours"')[2].partition("</section>")[0]}))

    first = section()
    assert "among 400 rows, before and after All-but-the-Top, D 1" in first
    assert "Nearest to word1 by cosine; 1 of 2 are still among the nearest after; new ones are bold." in first
    assert "1 word1 one 0.750 word1 two 0.250 2 word1 two 0.500 word1 three , new −0.125" in first
    named_page = client.get(f"/embeddings/{measured}", params={"name": HOSTILE}).text
    assert "Nearest to <strong>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</strong>" in named_page
    assert HOSTILE not in named_page
    unknown = section("&name=nobody")
    assert "Any other row is found as it is. No row is named nobody." in unknown


def test_a_figure_has_a_page_with_its_numbers_and_the_report_takes_them_from_there(client, measured):
    page = f"/embeddings/{measured}/figures/spectrum.html"
    page_text = client.get(f"/embeddings/{measured}").text
    assert f'hx-get="{page}"' in page_text
    assert "Rows 1 to" not in page_text.partition('id="figure-spectrum"')[2].partition("</figure>")[0]
    response = client.get(page)
    assert "component eigenvalue 1 " in text_of(response)
    assert client.get(f"/embeddings/{measured}/figures/nothing.html").status_code == 404


@pytest.mark.both_databases
def test_the_page_reads_stored_rows_alone_in_a_fixed_number_of_queries(client, context, measured, work):
    store(context, measured, projection=PROJECTION, neighbours=NEIGHBOURS)
    response = queries_of(context, lambda: client.get(f"/embeddings/{measured}"))
    for i in range(3):
        npy = io.BytesIO()
        np.save(npy, np.random.default_rng(i).normal(size=(50, 8)))
        client.post("/api/embeddings?commit=auto", files={"file": (f"{i}.npy", npy.getvalue())})
    work()
    queued = context.queue.active()
    among = queries_of(context, lambda: client.get(f"/embeddings/{measured}"))
    assert 0 < len(among) == len(response) <= 12
    assert not [statements for statements, _ in among if not statements.startswith("SELECT")]
    assert context.queue.active() == queued
    assert work() == 0


def test_a_figure_is_read_from_stored_rows_in_a_few_queries(client, context, measured):
    answers, slugs = [], ("activation", "spectrum", "cumulative", "anisotropy", "cosines", "zeta")

    def ask(figure):
        answers.append(client.get(f"/embeddings/{measured}/figures/{figure}").status_code)

    for figure in (f"{slug}.{kind}" for slug in slugs for kind in ("json", "csv", "html")):
        statements = queries_of(context, partial(ask, figure))
        assert answers.pop() == 200, figure
        assert 0 < len(statements) <= 8, figure
        assert all(item.startswith("SELECT") for item, _ in statements), figure


def reads_projection(statements):
    return [sql for sql, values in statements if "figure_data.data" in sql and "projection" in str(values)]


def test_the_projection_is_left_to_its_own_page(client, context, measured):
    store(context, measured, projection=PROJECTION)
    answers = []
    statements = queries_of(context, lambda: answers.append(client.get(f"/embeddings/{measured}?tab=map").text))
    assert reads_projection(statements) == []
    assert f'hx-get="/embeddings/{measured}/figures/projection.html" hx-trigger="toggle once"' in answers[0]
    of_its_own = queries_of(context, lambda: client.get(f"/embeddings/{measured}/figures/projection.json"))
    assert len(reads_projection(of_its_own)) == 1


def test_the_report_is_one_file_that_names_nothing_outside_it(client, context, measured):
    store(context, measured, neighbours=NEIGHBOURS)
    answer = client.get(f"/embeddings/{measured}/report.html")
    assert answer.headers["content-disposition"] == (
        'attachment; filename="isoscope-script-script-alert-1-script.html"'
    )
    addresses = re.findall(r'(?:href|src|action|data-figure)="([^"]*)"', answer.text)
    assert len(addresses) > 20
    assert [item for item in addresses if not item.startswith(("data:", "#"))] == []
    assert "hx-" not in answer.text
    assert "<form" not in answer.text
    assert "default-src 'none'" in answer.text
    assert "base-uri 'none'; form-action 'none'" in answer.text


def test_a_hostile_name_does_no_harm_in_the_file(client, context, measured):
    store(context, measured, neighbours=NEIGHBOURS)
    report = client.get(f"/embeddings/{measured}/report.html").text
    assert HOSTILE not in report
    assert "alert(1)</script>" not in report
    assert "<h1>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in report


def test_the_file_holds_the_figures_and_all_measurements(client, measured):
    report = client.get(f"/embeddings/{measured}/report.html").text
    figures = {
        slug: json.loads(base64.b64decode(data))
        for slug, data in re.findall(
            r'id="figure-(\w+)".*?data-figure="data:application/json;base64,([^"]+)"', report, re.S
        )
    }
    assert {"zeta", "activation", "spectrum", "cumulative", "anisotropy", "cosines"} <= figures.keys()
    for slug, figure in figures.items():
        assert figure == client.get(f"/embeddings/{measured}/figures/{slug}.json").json()
    (measurements,) = re.findall(r'href="data:text/csv;base64,([^"]+)" download="isoscope-measurements.csv"', report)
    assert base64.b64decode(measurements).decode() == client.get(f"/embeddings/{measured}/measurements.csv").text


DEGENERATE = {
    "constant": np.ones((40, 6)),
    "rounded": np.full((40, 6), 0.1),
    "single": np.random.default_rng(0).normal(size=(1, 6)),
    "huge": np.random.default_rng(0).normal(size=(40, 6)) * 1e300,
    "narrow": np.random.default_rng(0).normal(size=(40, 1)),
}


@pytest.mark.parametrize("points", DEGENERATE.values(), ids=DEGENERATE)
def test_of_points_that_have_no_geometry_page_file_and_figures_say_so(client, work, measured, points):
    np.save(npy := io.BytesIO(), points)
    flat_id = client.post("/api/embeddings?commit=auto", files={"file": ("x.npy", npy.getvalue())}).json()["id"]
    work()
    base = f"/embeddings/{flat_id}"
    assert client.get(f"/api{base}").json()["status"] == "ready"
    report = client.get(f"{base}/report.html")
    assert (client.get(base).status_code, report.status_code) == (200, 200)
    slugs = re.findall(r'id="figure-([a-z_]+)"', report.text)
    assert {"projection", "sample_size", "zeta"} <= set(slugs)
    urls = [f"{base}/figures/{slug}" for slug in slugs]
    urls += [f"/compare/figures/{slug}?id={measured}&id={flat_id}" for slug in slugs if slug not in {"zeta", "space"}]
    for item in urls:
        path, _, query = item.partition("?")
        for kind in ("json", "csv"):
            assert client.get(f"{path}.{kind}?{query}").status_code == 200, item


def test_of_what_is_not_measured_there_is_no_file(client, cloud, work):
    created = client.post("/api/embeddings", files={"file": ("cloud.csv", csv_of(cloud))}).json()
    work()
    answer = client.get(f"/embeddings/{created['id']}/report.html")
    assert answer.status_code == 404
    assert "There are no measurements of cloud.csv, whose state is draft" in answer.text


@pytest.mark.parametrize("slug", ["sample_size", "projection", "neighbours"])
def test_the_data_of_a_figure_is_answered_as_it_is_stored(client, context, measured, slug):
    data = {"sample_size": {"n": 3}, "projection": PROJECTION, "neighbours": NEIGHBOURS}[slug]
    store(context, measured, **{slug: data})
    assert client.get(f"/api/embeddings/{measured}/figure-data/{slug}").json() == data


def test_data_that_is_not_there_is_told_with_what_to_do(client, context, measured, cloud):
    with context.sessions.begin() as session:
        for row in session.scalars(select(FigureData)):
            session.delete(row)
    path = "/api/embeddings/{}/figure-data/{}"
    absent = client.get(path.format(measured, "neighbours"))
    assert absent.status_code == 404
    assert absent.json()["detail"] == (
        f"There is no 'neighbours' of {HOSTILE}: its rows have no names, or another version of Isoscope measured it. "
        "Choose again to measure it with this version."
    )
    absent = client.get(path.format(measured, "projection")).json()["detail"]
    assert absent.startswith(f"There is no 'projection' of {HOSTILE}: another version of Isoscope")
    draft = client.post("/api/embeddings", files={"file": ("cloud.csv", csv_of(cloud))}).json()["id"]
    early = client.get(path.format(draft, "projection"))
    assert (early.status_code, early.json()["detail"]) == (
        404,
        "There is no 'projection' of cloud.csv, which is inspecting: it comes with the measures.",
    )
    assert client.get(path.format(measured, "other")).status_code == 422
    assert client.get(path.format("none", "projection")).status_code == 404
