from sqlalchemy import update

from app.db.models import Measurement
from app.embeddings.figures import report
from app.figures.figure import undefined_figure
from app.results.pages.experiments import SECTIONS_OF_TAB
from app.results.run_page import RUN_FIGURES, RunFigureKind
from app.results.sweep_figures import FIGURES, SECTIONS, SweepFigure, group_by_section
from tests.factories import add_embedding, add_experiment, run_row


def test_figure_is_added_by_its_record(client, context, monkeypatch):
    def draw(request):
        return undefined_figure("luck", "Luck by setting", f"There is no luck in {len(request.table.runs)} runs.")

    path = f"/experiments/{add_experiment(context, run_row(0.0), run_row(1.0))}"
    sections = {section: tab for tab, sections in SECTIONS_OF_TAB.items() for section in sections}
    assert sections.keys() == SECTIONS.keys()
    for section, tab in sections.items():
        luck = SweepFigure("luck", "Luck by {measure}", section, draw, query_parameters=("measure",))
        monkeypatch.setitem(FIGURES, "luck", luck)
        assert "luck" in client.get(f"/api{path}/figures").json()
        assert "There is no luck in 2 runs." in client.get(f"/api{path}/figures/luck").json()["empty"]
        page = client.get(f"{path}?tab={tab}&measure=mean_cosine").text
        assert f"{path}/figures/luck.html?measure=mean_cosine" in page
        assert "Luck by Mean cosine" in page
        assert "no luck" in client.get(f"{path}/figures/luck.html").text
        assert "/compare/runs/figures/luck.html" in client.get("/compare/runs").text


def test_every_figure_has_section():
    assert group_by_section(FIGURES).keys() == {*SECTIONS, "scatters", "conclusion", "search", "runs"}


def test_run_figure_is_added_by_its_record(client, context, monkeypatch):
    def draw(context, run, measure):
        return undefined_figure("luck", "Luck of a run", f"There is no luck at λ = {run.lam:g}, by {measure}.")

    add_experiment(context, run := run_row(2.0))
    path = f"/runs/{run.id}"
    for late in (False, True):
        monkeypatch.setitem(RUN_FIGURES, "luck", RunFigureKind("luck", "Luck of a run", "training", draw, True, late))
        page = client.get(f"{path}?measure=mean_cosine").text
        assert ("no luck at λ = 2, by mean_cosine" in page) != late
        assert (f'hx-get="{path}/figures/luck.html?measure=mean_cosine"' in page) == late
        assert "no luck" in client.get(f"{path}/figures/luck.html?measure=mean_cosine").text
        assert "no luck" in client.get(f"/api{path}/figures/luck").json()["empty"]
    assert client.get(f"/api{path}/figures/misfortune").status_code == 404


def test_report_figure_is_added_by_its_record(client, context, monkeypatch):
    def draw(overlay):
        return undefined_figure("luck", "Luck", f"There is no luck in {len(overlay.series)}.")

    record = report.ReportFigure("hubness", "luck", "Luck", draw, heading="Luck")
    monkeypatch.setattr(report, "FIGURES", (*report.FIGURES, record))
    monkeypatch.setitem(report.HEADINGS_BY_FIGURE, "luck", record.heading)
    ids = [add_embedding(context, name, {"hubness": 0.5}) for name in ("a", "b")]
    with context.sessions.begin() as session:
        session.execute(update(Measurement).values(detail={"parts": {"greatest": 3.0}}))
    assert "There is no luck in 1." in client.get(f"/embeddings/{ids[0]}?tab=details").text
    assert "no luck in 1." in client.get(f"/api/embeddings/{ids[0]}/figures/luck").json()["empty"]
    assert "There is no luck in 2." in client.get("/compare", params={"id": ids}).text
