"""A figure is one record: whoever adds one finds it on the page, under its address and over the API."""

import pytest

from app.figures.figure import undefined
from app.services.sweep_figures import FIGURES, SECTIONS, SweepFigure, by_section
from tests.factories import add_experiment, run_row


@pytest.mark.parametrize("section", SECTIONS)
def test_a_figure_is_added_by_its_record(client, context, monkeypatch, section):
    def draw(asked):
        return undefined("luck", "Luck by setting", f"There is no luck in {len(asked.sweep.runs)} runs.")

    monkeypatch.setitem(FIGURES, "luck", SweepFigure("luck", "Luck by {measure}", section, draw, reads=("measure",)))
    experiment = add_experiment(context, run_row(0.0), run_row(1.0))
    here = f"/experiments/{experiment}"
    assert "luck" in client.get(f"/api{here}/figures").json()
    assert "There is no luck in 2 runs." in client.get(f"/api{here}/figures/luck").json()["empty"]
    page = client.get(f"{here}?measure=mean_cosine").text
    assert f"{here}/figures/luck.html?measure=mean_cosine" in page
    assert "Luck by Mean cosine" in page
    assert "no luck" in client.get(f"{here}/figures/luck.html").text
    assert "/compare/runs/figures/luck.html" in client.get("/compare/runs").text


def test_every_figure_has_a_place_on_the_page():
    assert by_section(FIGURES).keys() == {*SECTIONS, "scatters", "conclusion", "search", "runs"}
