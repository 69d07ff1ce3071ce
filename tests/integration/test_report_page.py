"""The report of an embedding: its page, its figures, the one file that stands alone, and choosing again."""

import base64
import html
import io
import json
import re

import numpy as np
import pytest
from sqlalchemy import event, select

from app.db.models import (
    Embedding,
    EmbeddingStatus,
    FigureData,
    Measurement,
    PostProcessing,
    ResultStatus,
    StoredFile,
    ZetaCurve,
)
from app.routes.pages.readings import DIMENSION_ESTIMATES
from app.services import curves, embeddings

HOSTILE = "</script><script>alert(1)</script>"
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
PROJECTION = {"n": 2, "x": [0.0, 1.0], "y": [0.0, 1.0], "shares": [0.5, 0.25], "labels": None, "density": None}


def csv_of(cloud, n_bad=0):
    header = ",".join([f"x{i}" for i in range(8)] + ["word", "side", "other"])
    lines = [
        ",".join([f"{v:.6f}" for v in row] + [f"word{i}", "ab"[i % 2], "cde"[i % 3]]) for i, row in enumerate(cloud)
    ]
    for i in range(n_bad):
        lines[i] = "nan" + lines[i][lines[i].index(",") :]
    return "\n".join([header, *lines]).encode()


@pytest.fixture
def measured(client, work, cloud):
    """The id of a measured embedding with names, labels, two rows left out and a hostile name."""
    files = {"file": ("cloud.csv", csv_of(cloud, n_bad=2))}
    answer = client.post("/api/embeddings?commit=auto", files=files, data={"name": HOSTILE})
    work()
    return answer.json()["id"]


def store(context, embedding_id, **data):
    with context.sessions.begin() as session:
        for slug, one in data.items():
            session.merge(FigureData(embedding_id=embedding_id, slug=slug, data=one))


def text_of(answer):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def queries_of(context, ask):
    """The statements that a request of this process makes."""
    said = []
    engine = context.sessions.kw["bind"]

    def note(connection, cursor, statement, parameters, *rest):
        said.append((statement, parameters))

    event.listen(type(engine), "before_cursor_execute", note)
    try:
        ask()
    finally:
        event.remove(type(engine), "before_cursor_execute", note)
    return said


def test_the_report_begins_with_words_whose_numbers_link_to_their_measures(client, measured):
    shown = client.get(f"/embeddings/{measured}").text
    head = shown.partition('class="headline"')[2].partition("</div>")[0]
    value = next(
        one["value"]
        for one in client.get(f"/api/embeddings/{measured}").json()["measurements"]
        if one["measure"] == "participation_ratio_unbiased"
    )
    used = f"{100 * value / 8:.0f}\u00a0% of the space is used"
    assert f'<a href="#measure-participation_ratio_unbiased">{used}</a>' in head
    linked = set(re.findall(r'href="#(measure-[a-z_]+)"', head))
    assert {"measure-participation_ratio_unbiased", "measure-mean_share"} <= linked
    assert linked & {f"measure-{slug}" for slug in DIMENSION_ESTIMATES}
    assert all(f'id="{anchor}"' in shown for anchor in linked)


def test_the_report_says_what_was_read_and_what_was_left_out(client, measured):
    said = text_of(client.get(f"/embeddings/{measured}"))
    assert "Read from 8 columns, x0 to x7 ; rows named by word (400 different), labelled by side (2 different);" in said
    assert "2 of 400 rows left out because of NaN, infinity or an empty cell" in said


def test_each_measure_folds_how_it_misleads_and_where_it_is_from(client, measured):
    shown = client.get(f"/embeddings/{measured}").text
    row = shown.partition('<tr id="measure-isoscore">')[2].partition("</tr>")[0]
    assert "Biased low unless n is many times d" in row
    assert "IsoScore: Measuring the Uniformity of Embedding Space" in row
    assert "<details>" in row


def test_counts_are_shown_whole(client, context, measured):
    with context.sessions.begin() as session:
        session.get_one(Measurement, (measured, "prominent_bars")).value = 78.0
    shown = client.get(f"/embeddings/{measured}").text
    row = shown.partition('<tr id="measure-prominent_bars">')[2].partition("</tr>")[0]
    assert re.search(r'<td class="n">\s*78\s*<small>', row)
    assert "prominent_bars,,78,," in client.get(f"/embeddings/{measured}/measurements.csv").text


def test_the_contents_name_the_sections_that_there_are(client, context, measured):
    def contents():
        shown = client.get(f"/embeddings/{measured}").text
        anchors = re.findall(r'href="#([a-z-]+)"', shown.partition('class="on-page"')[2].partition("</nav>")[0])
        assert all(f'<section id="{anchor}"' in shown for anchor in anchors)
        return anchors

    with context.sessions.begin() as session:
        for row in session.scalars(select(FigureData)):
            session.delete(row)
    assert contents() == ["shape", "all-measures", "shrinkage"]
    store(context, measured, neighbours=NEIGHBOURS)
    assert contents() == ["shape", "neighbours", "all-measures", "shrinkage"]


def test_neighbours_are_shown_of_the_named_row_before_and_after(client, context, measured):
    store(context, measured, neighbours=NEIGHBOURS)

    def section(query=""):
        whole = client.get(f"/embeddings/{measured}{query}").text
        return text_of(type("", (), {"text": whole.partition('id="neighbours"')[2].partition("</section>")[0]}))

    first = section()
    assert "among 400 rows: as the vectors are, and after All-but-the-Top, D 1" in first
    assert "Nearest to word1 ; 1 of 2 are still among the nearest after; in bold stands what is new." in first
    assert "1 word1 one 0.750 word1 two 0.250 2 word1 two 0.500 word1 three , new −0.125" in first
    named = client.get(f"/embeddings/{measured}", params={"name": HOSTILE}).text
    assert "Nearest to <strong>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</strong>" in named
    assert HOSTILE not in named
    unknown = section("?name=nobody")
    assert "nobody is not among the suggested names. Search all rows" in unknown
    assert "Nearest to word1 ;" in unknown


def test_a_figure_has_a_page_with_its_numbers_and_the_report_takes_them_from_there(client, measured):
    page = f"/embeddings/{measured}/figures/spectrum.html"
    shown = client.get(f"/embeddings/{measured}").text
    assert f'hx-get="{page}"' in shown
    assert "Rows 1 to" not in shown.partition('id="figure-spectrum"')[2].partition("</figure>")[0]
    alone = client.get(page)
    assert "component eigenvalue 1 " in text_of(alone)
    assert client.get(f"/embeddings/{measured}/figures/nothing.html").status_code == 404


def test_the_page_reads_stored_rows_alone_in_a_fixed_number_of_queries(client, context, measured, work):
    store(context, measured, projection=PROJECTION, neighbours=NEIGHBOURS)
    alone = queries_of(context, lambda: client.get(f"/embeddings/{measured}"))
    for i in range(3):
        npy = io.BytesIO()
        np.save(npy, np.random.default_rng(i).normal(size=(50, 8)))
        client.post("/api/embeddings?commit=auto", files={"file": (f"{i}.npy", npy.getvalue())})
    work()
    queued = context.queue.active()
    among = queries_of(context, lambda: client.get(f"/embeddings/{measured}"))
    assert 0 < len(among) == len(alone) <= 10
    assert not [said for said, _ in among if not said.startswith("SELECT")]
    assert context.queue.active() == queued
    assert work() == 0


@pytest.mark.parametrize("slug", ["activation", "spectrum", "cumulative", "anisotropy", "cosines", "zeta"])
@pytest.mark.parametrize("kind", ["json", "csv", "html"])
def test_a_figure_is_read_from_stored_rows_in_a_few_queries(client, context, measured, slug, kind):
    answers = []
    said = queries_of(
        context, lambda: answers.append(client.get(f"/embeddings/{measured}/figures/{slug}.{kind}").status_code)
    )
    assert answers == [200]
    assert 0 < len(said) <= 8
    assert all(one.startswith("SELECT") for one, _ in said)


def reads_projection(said):
    return [one for one, given in said if "figure_data.data" in one and "projection" in str(given)]


def test_the_projection_is_left_to_its_own_page(client, context, measured):
    store(context, measured, projection=PROJECTION)
    answers = []
    said = queries_of(context, lambda: answers.append(client.get(f"/embeddings/{measured}").text))
    assert reads_projection(said) == []
    assert f'hx-get="/embeddings/{measured}/figures/projection.html" hx-trigger="load"' in answers[0]
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
    assert [one for one in addresses if not one.startswith(("data:", "#"))] == []
    assert "hx-" not in answer.text
    assert "<form" not in answer.text
    assert "default-src 'none'" in answer.text
    assert "base-uri 'none'; form-action 'none'" in answer.text


def test_a_hostile_name_does_no_harm_in_the_file(client, context, measured):
    store(context, measured, neighbours=NEIGHBOURS)
    whole = client.get(f"/embeddings/{measured}/report.html").text
    assert HOSTILE not in whole
    assert "alert(1)</script>" not in whole
    assert "<h1>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in whole


def test_the_file_holds_the_figures_and_all_measurements(client, measured):
    whole = client.get(f"/embeddings/{measured}/report.html").text
    figures = {
        slug: json.loads(base64.b64decode(data))
        for slug, data in re.findall(
            r'id="figure-(\w+)".*?data-figure="data:application/json;base64,([^"]+)"', whole, re.S
        )
    }
    assert {"zeta", "activation", "spectrum", "cumulative", "anisotropy", "cosines"} <= figures.keys()
    for slug, figure in figures.items():
        assert figure == client.get(f"/embeddings/{measured}/figures/{slug}.json").json()
    (measurements,) = re.findall(r'href="data:text/csv;base64,([^"]+)" download="isoscope-measurements.csv"', whole)
    assert base64.b64decode(measurements).decode() == client.get(f"/embeddings/{measured}/measurements.csv").text


DEGENERATE = {
    "constant": np.ones((40, 6)),
    "rounded": np.full((40, 6), 0.1),
    "single": np.random.default_rng(0).normal(size=(1, 6)),
    "huge": np.random.default_rng(0).normal(size=(40, 6)) * 1e300,
    "narrow": np.random.default_rng(0).normal(size=(40, 1)),
}


@pytest.mark.parametrize("points", DEGENERATE.values(), ids=DEGENERATE)
def test_of_points_that_have_no_geometry_page_file_and_figures_say_so(client, work, cloud, points):
    ids = []
    for x in (points, cloud):
        np.save(npy := io.BytesIO(), x)
        ids.append(client.post("/api/embeddings?commit=auto", files={"file": ("x.npy", npy.getvalue())}).json()["id"])
    work()
    base = f"/embeddings/{ids[0]}"
    assert client.get(f"/api{base}").json()["status"] == "ready"
    whole = client.get(f"{base}/report.html")
    assert (client.get(base).status_code, whole.status_code) == (200, 200)
    slugs = re.findall(r'id="figure-([a-z_]+)"', whole.text)
    assert {"projection", "sample_size", "zeta"} <= set(slugs)
    asked = [f"{base}/figures/{slug}" for slug in slugs]
    asked += [f"/compare/figures/{slug}?id={ids[1]}&id={ids[0]}" for slug in slugs if slug != "zeta"]
    for one in asked:
        path, _, query = one.partition("?")
        for kind in ("json", "csv"):
            assert client.get(f"{path}.{kind}?{query}").status_code == 200, one


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
        "Choose again, and it is measured anew."
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


def made_of(context, embedding_id, other_id):
    """What rests on a choice: curves of either side, a post-processing with its state, and data of a figure."""
    with context.ledger.recording(stored := context.ledger.store(io.BytesIO(b"a state"), 100)) as session:
        processed = PostProcessing(
            embedding_id=embedding_id,
            key="k",
            method="centring",
            parameters={},
            status=ResultStatus.READY,
            state_sha256=stored.sha256,
        )
        curves = [
            ZetaCurve(embedding_id=embedding_id, source="embedding", source_id=other_id),
            ZetaCurve(embedding_id=other_id, source="embedding", source_id=embedding_id),
        ]
        session.add_all([processed, *curves])
    store(context, embedding_id, projection=PROJECTION)
    return stored.sha256


@pytest.fixture
def other(client, work, cloud):
    created = client.post("/api/embeddings?commit=auto", files={"file": ("other.csv", csv_of(cloud + 1))}).json()
    work()
    return created["id"]


def test_another_choice_of_what_was_measured_drops_what_rests_on_the_former(client, context, work, measured, other):
    state = made_of(context, measured, other)
    choice = {"vectors": ["x0", "x1", "x2"], "names": "word", "labels": "other"}
    answer = client.put(f"/api/embeddings/{measured}/selection?commit=auto", json=choice)
    assert (answer.status_code, answer.json()["status"], answer.json()["measurements"]) == (200, "inspecting", [])
    with context.sessions() as session:
        assert session.scalars(select(PostProcessing)).all() == []
        assert session.scalars(select(FigureData).where(FigureData.embedding_id == measured)).all() == []
        assert {one.embedding_id for one in session.scalars(select(ZetaCurve))} == {other}
        assert {one.source for one in session.scalars(select(ZetaCurve))} == {"identity", "sample"}
        assert session.get(StoredFile, state) is None
    assert not context.storage.exists(state)
    work()
    found = client.get(f"/api/embeddings/{measured}").json()
    assert (found["status"], found["d"], found["selection"]["labels"]) == ("ready", 3, "other")
    assert len(next(one for one in found["measurements"] if one["measure"] == "spectrum")["detail"]["eigenvalues"]) == 3


def test_another_choice_without_commit_is_a_draft_again(client, work, measured):
    choice = {"vectors": ["x0", "x1"], "names": None, "labels": "side"}
    client.put(f"/api/embeddings/{measured}/selection", json=choice)
    work()
    draft = client.get(f"/api/embeddings/{measured}").json()
    assert (draft["status"], draft["d"], draft["measurements"], draft["n_left_out"]) == ("draft", 2, [], None)
    assert client.post(f"/api/embeddings/{measured}/commit").status_code == 200
    work()
    assert client.get(f"/api/embeddings/{measured}").json()["status"] == "ready"


def test_a_choice_that_the_file_does_not_offer_leaves_the_report_as_it_was(client, context, measured, other):
    made_of(context, measured, other)
    answer = client.put(f"/api/embeddings/{measured}/selection?commit=auto", json={"vectors": ["nothing"]})
    assert answer.status_code == 422
    found = client.get(f"/api/embeddings/{measured}").json()
    assert (found["status"], len(found["measurements"]) > 20) == ("ready", True)
    with context.sessions() as session:
        assert len(session.scalars(select(PostProcessing)).all()) == 1


def test_what_failed_after_it_was_inspected_can_be_chosen_from_again(client, context, work, measured):
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, measured)
        row.status, row.error = EmbeddingStatus.FAILED, "Measuring it was given up."
    page = client.get(f"/embeddings/{measured}").text
    assert "Measuring it was given up." in page
    assert "Measure anew" in page
    chosen = {"chosen": "true", "vectors": ["x0", "x1"], "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=chosen).status_code == 303
    work()
    found = client.get(f"/api/embeddings/{measured}").json()
    assert (found["status"], found["d"], found["error"]) == ("ready", 2, None)


def test_the_report_s_form_measures_the_same_choice_anew(client, work, measured):
    before = client.get(f"/api/embeddings/{measured}").json()
    same = {"chosen": "true", "vectors": before["selection"]["vectors"], "names": "word", "labels": "side"}
    assert client.post(f"/embeddings/{measured}/commit", data=same).status_code == 303
    work()
    after = client.get(f"/api/embeddings/{measured}").json()
    assert after["measurements"] == before["measurements"]
    assert after["measured_at"] > before["measured_at"]


def test_a_wrong_choice_on_the_report_is_told_at_its_field_beside_the_report(client, measured):
    answer = client.post(f"/embeddings/{measured}/commit", data={"chosen": "true", "vectors": ["x0"], "labels": "none"})
    assert answer.status_code == 422
    assert 'id="labels-error"' in answer.text
    assert 'id="all-measures"' in answer.text


def test_a_refused_choice_stays_in_the_form_which_is_open_at_what_was_wrong(client, context, measured):
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, measured)
        found = [one | {"n_distinct": 1001} if one["name"] == "word" else one for one in row.inspection["annotations"]]
        row.inspection = row.inspection | {"annotations": found}
    too_many = "disabled>word (more than 1,000 different, too many for labels)</option>"
    assert too_many in client.get(f"/embeddings/{measured}").text
    form = {"chosen": "true", "vectors": ["x0", "x2"], "names": "other", "labels": "word"}
    for way in ("selection", "commit"):
        answer = client.post(f"/embeddings/{measured}/{way}", data=form)
        assert answer.status_code == 422
        form_shown = " ".join(answer.text.partition('<form id="choose"')[2].partition("</form>")[0].split())
        assert re.findall(r"<option selected>(x\d)", form_shown) == ["x0", "x2"]
        assert re.findall(r'<option value="(\w+)" selected', form_shown) == ["other", "word"]
        assert re.findall(r'<select [^>]*name="(\w+)"[^>]* autofocus', form_shown) == ["labels"]
        assert too_many not in form_shown
        assert re.search(r"<details [^>]*open>\s*<summary>Choose again", answer.text)
    assert client.get(f"/api/embeddings/{measured}").json()["selection"]["labels"] == "side"


def test_what_a_worker_is_busy_with_cannot_be_chosen_from(client, measured):
    choice = {"vectors": ["x0", "x1"]}
    client.put(f"/api/embeddings/{measured}/selection", json=choice)
    busy = client.put(f"/api/embeddings/{measured}/selection", json=choice)
    assert (busy.status_code, busy.json()["detail"]) == (
        409,
        f"{HOSTILE} is inspecting: choose from it when a worker is done with it.",
    )


def test_what_could_not_be_read_offers_nothing_to_choose(client, work):
    created = client.post("/api/embeddings", files={"file": ("ragged.csv", b"1,2,3\n4,5\n")}).json()
    work()
    answer = client.put(f"/api/embeddings/{created['id']}/selection", json={"vectors": ["x"]})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "ragged.csv could not be read, so there is nothing to choose from. Upload it again.",
    )


def test_trashed_embeddings_are_no_source_of_a_curve(client, context, measured, other):
    found = embeddings.get_embedding(context, measured)
    assert [one.id for one in curves.list_curve_sources(context, found)] == [other]
    with context.sessions.begin() as session:
        row = session.get_one(Embedding, other)
        row.trashed_at = row.created_at
    assert curves.list_curve_sources(context, found) == []
