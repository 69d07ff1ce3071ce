import csv
import html
import io
import itertools

import numpy as np

from app.db.models import Measurement, MeasurementStatus
from app.playground import clouds
from app.playground.clouds import Position, get_measures
from isotropy.catalog import GROUPS, MEASURES, OUTLIER_RULES
from tests.uploads.good import npy

LINE = {"shape": "line", "spread": 0, "shift": 0, "n": 512}


def upload(client, content, filename="cloud.npy", **data):
    return client.post("/embeddings", files={"file": (filename, content)}, data=data)


def test_all_measures_are_grouped_with_error_sample_and_values(client, context, cloud, work):
    page = upload(client, npy(cloud)).headers["location"]
    work()
    client.post(f"{page}/commit")
    work()
    embedding_id = page.rsplit("/", 1)[-1]
    labels = [
        {"label": "<rare>", "value": None, "n": 1, "reason": "There is 1 point."},
        {"label": "good", "value": 0.25, "n": 399, "reason": None},
    ]
    changed = {
        "mean_cosine": {"value": 0.5, "se": 0.0123, "n": 200, "resampled": {"parts": [0.001] * 10}},
        "participation_ratio": {
            "value": None,
            "reason": "All points are equal.",
            "status": MeasurementStatus.UNDEFINED,
        },
        "mean_share": {"detail": {"by_label": labels}},
    }
    with context.sessions.begin() as session:
        for slug, columns in changed.items():
            row = session.get_one(Measurement, (embedding_id, slug))
            for name, value in columns.items():
                setattr(row, name, value)
        former = Measurement(embedding_id=embedding_id, measure="former", status=MeasurementStatus.OK, value=1, n=1)
        session.add(former)
    page_text = client.get(page).text
    measures = client.get(f"{page}?tab=details").text
    at_end = client.get(f"{page}?zeta=1&rows=64&source=identity").text
    assert ("at ζ = 1.00" in at_end, '<dd class="value">1.00</dd>' in at_end) == (True, True)
    assert client.get(f"{page}?zeta=2", headers={"accept": "text/html"}).status_code == 422
    section = " ".join(measures.partition('id="all-measures"')[2].partition("</section>")[0].split())
    headings = [section.index(f"<caption><h3>{heading}</h3></caption>") for heading in list(GROUPS.values())[:2]]
    assert headings == sorted(headings)
    assert all(section.count(f'href="/measures#{slug}"') == 1 for slug in MEASURES)
    of_rows = '<small>n = 200 <span class="of-rows">of 400 rows</span></small>'
    error = '<span class="soft error-bar">SE 0.012</span>'
    assert f"0.500 {error}<small>95%: 0.492 to 0.508</small>{of_rows}" in section
    cards = " ".join(page_text.partition('<dl class="readings two">')[2].partition("</dl>")[0].split())
    assert '<dd class="value">0.500</dd>' in cards
    assert "95% interval 0.492 to 0.508" in cards
    assert 'n = 200 <span class="of-rows">of 400 rows</span></small>' in cards
    assert '<span class="soft">undefined</span><small>All points are equal.</small>' in section
    assert "&lt;rare&gt;" in section
    assert "There is 1 point." in section
    assert '8 values<span class="sr"> of k-th anisotropy, raw</span>' in section
    assert 'href="#figure-spectrum"' in section
    assert "measure-former" not in section
    answer = client.get(f"{page}/measurements.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="isoscope-measurements.csv"'
    lines = answer.text.splitlines()
    assert lines[0] == "measure,item,value,unbiased,se,low,high,n,reason"
    assert any(line.startswith("mean_cosine,,0.5,,0.0123,0.49") for line in lines)
    assert "mean_share,good,0.25,,,,,399," in lines


def test_draft_is_previewed_and_has_no_measurements(client, cloud, work):
    page = upload(client, npy(cloud), name="A cloud").headers["location"]
    waiting = client.get(page).text
    assert ("The shape of cloud.npy, its first rows" in waiting, 'hx-trigger="every 2s"' in waiting) == (True, True)
    assert work() == 1
    draft = client.get(page).text
    assert ("400 × 8" in draft, "Measure these embeddings" in draft, "every 2s" in draft) == (True, True, False)
    answer = client.get(f"{page}/measurements.csv")
    assert answer.status_code == 404
    assert "There are no measurements of A cloud, whose state is draft: see its page for what to do." in answer.text
    assert client.get("/embeddings/none/measurements.csv").status_code == 404


def test_file_without_finite_rows_cannot_be_measured(client, cloud, work):
    files = {"file": ("empty.npy", npy(cloud * np.nan))}
    embedding_id = client.post("/api/embeddings?commit=auto", files=files).json()["id"]
    work()
    draft = client.get(f"/embeddings/{embedding_id}").text
    assert "so nothing can be measured" in draft
    assert "Measure these embeddings" not in draft
    assert client.post(f"/embeddings/{embedding_id}/commit").status_code == 422
    assert work() == 0


def test_other_array_can_be_chosen_and_draft_form_is_applied(client, cloud, work):
    file = io.BytesIO()
    np.savez(file, first=cloud, second=cloud[:50])
    page = upload(client, file.getvalue(), "two.npz").headers["location"]
    work()
    assert client.post(f"{page}/selection", data={"vectors": "second"}).status_code == 303
    work()
    assert "50 × 8" in client.get(page).text
    refused = client.post(f"{page}/selection", data={"vectors": "third"})
    assert (refused.status_code, 'id="vectors-error"' in refused.text) == (422, True)
    buffer = io.BytesIO()
    generator = np.random.default_rng(0)
    np.savez(buffer, first=generator.normal(size=(40, 6)), second=generator.normal(size=(30, 3)))
    page = upload(client, buffer.getvalue(), "two.npz").headers["location"]
    work()
    assert "array first, npz" in client.get(page).text
    form = {"chosen": "true", "vectors": "second", "transpose": "true"}
    assert client.post(f"{page}/commit", data=form).headers["location"] == page
    work()
    report = client.get(page).text
    assert "3 rows × 30 dimensions, array second, rows and columns swapped, npz" in " ".join(report.split())
    assert "There are fewer rows than dimensions" in report
    assert "3 rows are fewer than 30 dimensions" in client.get(f"{page}?tab=details").text


def test_empty_pages_explain_and_refused_uploads_keep_values(client):
    for path in ["/embeddings", "/datasets", "/trash", "/compare", "/experiments", "/experiments/new", "/queue"]:
        answer = client.get(path)
        assert (answer.status_code, 'class="empty"' in answer.text) == (200, True)
        if path == "/experiments/new":
            assert "Formats: .jsonl, .csv or .tsv" in answer.text
            assert 'action="/samples/sweep"' in answer.text
    answer = upload(client, b"not an array", "cloud.npy", name="My cloud")
    assert answer.status_code in (415, 422)
    for words in ('value="My cloud"', 'id="file-error"', 'aria-invalid="true"'):
        assert words in answer.text
    answer = client.post("/embeddings", files={"file": ("", b"")})
    assert (answer.status_code, "choose one" in answer.text) == (422, True)
    page_text = client.get("/measures").text
    assert all(page_text.count(f'id="{slug}"') == 1 for slug in MEASURES)
    positions = [page_text.index(f'id="{slug}"') for slug, measure in MEASURES.items() if not measure.variant_of]
    assert positions == sorted(positions)
    assert page_text.count('<details class="fold">') == len(MEASURES)
    for group in {measure.group for measure in MEASURES.values()}:
        assert f'<a href="#group-{group}">{GROUPS[group]}</a>' in page_text
        assert f'<h2 id="group-{group}-title">{GROUPS[group]}</h2>' in page_text
    page_text = html.unescape(client.get("/measures").text)
    assert "<dt>Its one number</dt><dd>greatest eigenvalue</dd>" in page_text
    assert all(rule in page_text for rule in OUTLIER_RULES.values())


def test_playground_url_sets_sliders_to_nearest_position(client):
    page = " ".join(client.get("/playground").text.split())
    assert "The mean cosine is 0.99 because the cloud lies away from the origin" in page
    assert 'id="shift" name="shift" min="0.0" max="7.0" step="1.0" value="7.0"' in page
    assert 'aria-current="true">The same, shifted</a>' in page
    assert page.count('<div class="reading">') == len(clouds.MEASURES)
    assert "usually 0 to 1" in page
    page = client.get("/playground", params=LINE).text
    assert "A cosine near 0 is not isotropy." in page
    assert '<option value="line" selected>' in page
    assert "standard deviation across the line" in page
    assert "/playground/figures/cloud.json?shape=line&amp;spread=0&amp;shift=0&amp;n=512" in page
    page = client.get("/playground", params={"shape": "line", "spread": 0.13, "shift": 99, "n": 600}).text
    assert "figures/shift.csv?shape=line&amp;spread=0.2&amp;shift=7&amp;n=512" in page
    page = client.get("/playground", params=LINE | {"view": "flat"}).text
    assert '<input type="hidden" name="view" value="flat">' in page
    assert "cloud.json?shape=line&amp;spread=0&amp;shift=0&amp;n=512&amp;view=flat" in page


def test_invalid_playground_position_is_refused(client):
    for wrong in [{"n": "many"}, {"spread": "nan"}, {"view": "upside down"}]:
        assert client.get("/playground", params=LINE | wrong).status_code == 422
    query = {"shape": "torus", "n": 8}
    page = client.get("/playground", params=query, headers={"accept": "text/html"})
    assert (page.status_code, "got &#39;torus&#39;: choose one." in page.text) == (422, True)
    assert '<a href="/playground?n=8">Open the page without it</a>' in page.text
    answer = client.get("/api/playground", params=LINE | {"shift": 2.5})
    assert answer.status_code == 422
    sentence = "Nothing was measured at shift = 2.5: take 2 or 3."
    assert (answer.json()["detail"], answer.json()["field"]) == (sentence, "shift")


def test_playground_serves_figures_and_measures_of_grid(client):
    kinds = {
        view: client.get("/playground/figures/cloud.json", params=LINE | {"view": view}) for view in ("space", "flat")
    }
    expected = {"space": "scatter3d", "flat": "scatter"}
    assert {view: answer.json()["data"][-1]["type"] for view, answer in kinds.items()} == expected
    points = list(csv.DictReader(io.StringIO(client.get("/playground/figures/cloud.csv", params=LINE).text)))
    assert len(points) == 512
    assert list(points[0]) == ["x", "y", "z"]
    shifts = list(csv.DictReader(io.StringIO(client.get("/playground/figures/shift.csv", params=LINE).text)))
    assert float(shifts[7]["mean_cosine"]) == get_measures(Position("line", 0.0, 7.0, 512))["mean_cosine"]
    assert client.get("/playground/figures/nothing.json", params=LINE).status_code == 404
    grid = client.get("/api/playground/grid").json()
    axes = ([shape["slug"] for shape in grid["shapes"]], grid["spread"], grid["shift"], grid["n"])
    for position in list(itertools.product(*axes))[::59]:
        answer = client.get(
            "/api/playground", params=dict(zip(("shape", "spread", "shift", "n"), position, strict=True))
        )
        assert answer.json()["measures"] == get_measures(Position(*position))
    assert {tuple(shape) for shape in grid["shapes"]} == {("slug", "name", "spread")}
