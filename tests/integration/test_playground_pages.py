"""The playground as a page without JavaScript and as an API."""

import csv
import io
import itertools

from app.playground.clouds import MEASURES, Position, numbers_at

LINE = {"shape": "line", "spread": 0, "shift": 0, "n": 512}


def test_the_url_says_where_the_sliders_stand_and_the_nearest_position_is_taken(client):
    page = " ".join(client.get("/playground").text.split())
    assert "The mean cosine is 0.99 because the cloud lies away from the origin" in page
    assert 'id="shift" name="shift" min="0.0" max="7.0" step="1.0" value="7.0"' in page
    assert 'aria-current="true">The same, shifted</a>' in page
    assert page.count('<div class="reading">') == len(MEASURES)
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


def test_what_is_no_position_or_no_shape_is_refused(client):
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


def test_figures_come_as_json_and_csv(client):
    kinds = {
        view: client.get("/playground/figures/cloud.json", params=LINE | {"view": view}) for view in ("space", "flat")
    }
    assert {view: answer.json()["data"][-1]["type"] for view, answer in kinds.items()} == {
        "space": "scatter3d",
        "flat": "scatter",
    }
    points = list(csv.DictReader(io.StringIO(client.get("/playground/figures/cloud.csv", params=LINE).text)))
    assert len(points) == 512
    assert list(points[0]) == ["x", "y", "z"]
    shifts = list(csv.DictReader(io.StringIO(client.get("/playground/figures/shift.csv", params=LINE).text)))
    assert float(shifts[7]["mean_cosine"]) == numbers_at(Position("line", 0.0, 7.0, 512))["mean_cosine"]
    assert client.get("/playground/figures/nothing.json", params=LINE).status_code == 404


def test_the_api_has_the_grid_and_the_numbers_at_each_of_its_positions(client):
    grid = client.get("/api/playground/grid").json()
    axes = ([shape["slug"] for shape in grid["shapes"]], grid["spread"], grid["shift"], grid["n"])
    for position in list(itertools.product(*axes))[::59]:
        answer = client.get(
            "/api/playground", params=dict(zip(("shape", "spread", "shift", "n"), position, strict=True))
        )
        assert answer.json()["measures"] == numbers_at(Position(*position))
    assert {tuple(shape) for shape in grid["shapes"]} == {("slug", "name", "spread")}
