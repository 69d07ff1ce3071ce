import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from app.db.models import Experiment, RunStatus
from app.results.run_table import RunTable
from app.results.search.conditions import FIELDS
from app.results.search.kinds import ChoiceField, DayField, FlagField, NumberField, TagsField, TextField
from app.results.search.listing import RunQuery, find_matching_runs, list_runs, read_columns
from app.training.experiments import get_run
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer
from tests.factories import add_experiment, run_row

LAST_DAY_OF_2025 = datetime(2025, 12, 31, 23, 59, tzinfo=UTC)

MATCHES = {
    "": "defgabc", "cola": "abc", "100%": "abc", "%": "abc", "_x": "abc", "axx": "", "bert-l": "d",
    "bert-l,cola": "dabc", "bert-l cola": "", "-bert-l": "efgabc", "task:sst": "defg", "task=sst": "",
    "task=sst-2": "defg", 'experiment:"té 1"': "abc", "experiment=SECOND": "defg", "model=tiny-bert seed:0": "a",
    "lam<0": "b", "lam:−1,5": "eb", "lam>=0.5 -task:cola": "efg", "λ<=0": "dab", "ζ=0.9": "e", "reg:istar": "egb",
    'reg:"bias-corrected"': "f", "reg!=none,istar": "fc", "status:failed,run": "fc", "-status:finished": "fgc",
    "iso>0.2": "dfbc", "iso:none": "eg", "-iso>0.2": "ega", "perf!=0.5": "fgabc", "perf>0.25 perf<0.75": "de",
    "metric:f1": "e", "accuracy>=0.25": "dab", "acc>0.5": "b", "f1>0": "e", "f1:none": "dfgabc", "batch_size>16": "b",
    "learning_rate:1e-5": "d", "patience:default": "defgac", "patience!=3": "defgac", "points:default": "defgabc",
    "points:tokens": "", "export:yes": "d", "export!=true": "efgabc", "kind:class": "defgabc", "kind:regression": "",
    "launched:2025-12-31": "abc", "launched>2025-12-31": "defg", "launched>=2026-01-01": "defg",
    "launched<2026-01-01": "abc", "launched<=2025-12-31": "abc", "date<9999-12-31": "defgabc",
    "seed:99999999999999999999": "", "'": "", "/": "",
}  # fmt: skip
"""The runs of the fixture ``runs`` that a query finds, in list order."""


@pytest.fixture
def runs(context):
    """Seven runs of two experiments, each with its own worker."""
    add_experiment(
        context, run_row(0.0, 0, worker="a", performance=0.25, isoscore_star=0.125),
        run_row(-1.0, 1, worker="b", performance=0.75, config={"batch_size": 32, "patience": 3}),
        run_row(1.0, 1, worker="c", regularizer=Regularizer.COSREG, performance=None, status=RunStatus.FAILED),
        name="Été 100%", dataset="CoLA_x", created_at=LAST_DAY_OF_2025,
    )  # fmt: skip
    add_experiment(
        context, run_row(0.0, 0, worker="d", config={"model": "BERT-large", "export": True, "learning_rate": 1e-5}),
        run_row(5.0, 2, worker="e", zeta=0.9, config={"metric": "f1"}, isoscore_star=None),
        run_row(0.5, 2, worker="f", regularizer=Regularizer.UNBIASED, status=RunStatus.RUNNING, performance=None),
        run_row(0.5, 3, worker="g", status=RunStatus.QUEUED, performance=None, isoscore_star=None), name="second",
        dataset="SST-2", created_at=LAST_DAY_OF_2025 + timedelta(minutes=1),
    )  # fmt: skip


def search(context, q, sort=""):
    return "".join(run.worker for run in list_runs(context, RunQuery.parse(q, sort)).runs)


def listed_runs(answer):
    assert answer.status_code == 200, answer.text
    return re.findall(r'<tr id="run-(\w+)">', answer.text)


def words(answer):
    return " ".join(html.unescape(answer.text).split())


@pytest.mark.usefixtures("runs")
class TestSearch:
    @pytest.mark.both_databases
    def test_matches_satisfy_all_conditions_and_are_sorted(self, context):
        assert {q: search(context, q) for q in MATCHES} == MATCHES
        orders = {
            "-perf": "bdeafgc", "iso": "adfbceg", "-lam": "ecfgdab", "task": "abcdefg", "-batch_size": "bdefgac",
            "launched": "abcdefg",
        }  # fmt: skip
        assert {sort: search(context, "", sort) for sort in orders} == orders
        typed = {TextField: "x", TagsField: "x", NumberField: "1", FlagField: "yes", DayField: "2026-01-01"}
        for name, kind in FIELDS.items():
            value = next(iter(kind.names)) if isinstance(kind, ChoiceField) else typed[type(kind)]
            matching, remaining = (search(context, f"{sign}{name}={value}", name) for sign in ("", "-"))
            assert sorted(matching + remaining) == sorted("abcdefg"), name

    def test_experiment_id_is_searched_and_limit_keeps_newest(self, context):
        experiment_id = find_matching_runs(context, "seed:3").runs[0].experiment_id
        assert (search(context, f"experiment:{experiment_id}"), search(context, experiment_id)) == ("defg", "defg")
        newest = find_matching_runs(context, "", limit=5)
        workers = [get_run(context, run.id).worker for run in newest.runs]
        assert ("".join(workers), newest.total) == ("defga", 7)
        assert {run.experiment.dataset.name for run in newest.runs} == {"SST-2", "CoLA_x"}

    @given(
        st.lists(
            st.sampled_from([*FIELDS, *':=<>!,"- \\%_x1', "!=", "<=", "none", "1e-5", "2026-01-31"]), max_size=12
        ).map("".join)
        | st.text(max_size=30)
    )
    @settings(max_examples=60, deadline=None, suppress_health_check=[
        HealthCheck.function_scoped_fixture, HealthCheck.differing_executors,
    ])  # fmt: skip
    @pytest.mark.both_databases
    def test_any_query_is_answered_or_refused(self, context, q):
        try:
            assert find_matching_runs(context, q).total <= 7
        except InvalidError as error:
            refused = error.field
        else:
            refused = None
        assert refused in (None, "q")


@pytest.mark.usefixtures("runs")
class TestApi:
    def test_runs_include_experiment_and_errors_name_their_field(self, client):
        answer = client.get("/api/runs", params={"q": "iso>0.2", "sort": "-lam", "limit": 2, "offset": 1})
        assert answer.headers["x-total-count"] == "4"
        keys = ("experiment", "dataset", "model", "metric", "lam", "regularizer", "status", "setting")
        assert [[row[key] for key in keys] for row in answer.json()] == [
            ["second", "SST-2", "tiny-bert", "accuracy", 0.5, "istar_unbiased", "running", {}],
            ["second", "SST-2", "BERT-large", "accuracy", 0.0, "none", "finished", {}],
        ]
        (first,) = client.get("/api/experiments?q=cola").json()
        answer = client.get(f"/api/experiments/{first['id']}/runs?q=lam!=0")
        assert ([row["lam"] for row in answer.json()], answer.headers["x-total-count"]) == ([-1.0, 1.0], "2")
        assert client.get("/api/experiments/nowhere/runs").status_code == 404
        for path in ["/api/runs", "/api/experiments"]:
            answer = client.get(path, params={"q": "lam<x"})
            assert (answer.status_code, answer.json()["field"]) == (422, "q")
            assert answer.json()["detail"] == "Expected a number after lam< at character 5 of the search, got 'x'."
        answer = client.get("/api/runs?sort=-color")
        assert (answer.status_code, answer.json()["field"]) == (422, "sort")

    @pytest.mark.both_databases
    def test_experiments_are_summarized(self, client):
        answer = client.get("/api/experiments?limit=1&offset=1")
        assert answer.headers["x-total-count"] == "2"
        (row,) = answer.json()
        assert (row["name"], row["dataset"], row["status"], row["total"]) == ("Été 100%", "CoLA_x", "failed", 3)
        assert row["counts"] == {"finished": 2, "failed": 1}
        assert row["performance"] == {"n": 2, "lowest": 0.25, "highest": 0.75}


class TestTable:
    def test_cells_are_labeled_and_table_updates_while_runs_continue(self, client, context):
        path = f"/experiments/{add_experiment(context, run_row(seed=0), run_row(seed=1))}/runs"
        row = client.get(path).text.split('<table class="stacked">')[1].split("</tr>")[1]
        assert re.findall('data-label="(.*?)"', row) == ["Seed", "Accuracy", "IsoScore★", "Time"]
        live = run_row(1.0, 1, status=RunStatus.RUNNING, performance=None)
        path = f"/experiments/{add_experiment(context, run_row(1.0, 0), live)}/runs"
        page = words(client.get(f"{path}?sort=seed"))
        assert f'hx-get="{path}?sort=seed" hx-select="#found-runs" hx-swap="outerMorph ignoreTitle:true"' in page
        assert 'ignoreTitle:true" hx-trigger="every 2s"' in page
        assert "worker lost" in words(client.get(path))
        assert "every 2s" not in words(client.get(f"{path}?q=seed:0"))

    @pytest.mark.both_databases
    def test_database_and_run_table_find_same_differences(self, context):
        def fields(**config):
            grid = {name: [False, True] for name in config if name != "points"}
            rows = [run_row(0.5, config=config | dict.fromkeys(grid, value)) for value in (False, True)]
            experiment = add_experiment(context, *rows, grid=grid)
            differing = RunTable(find_matching_runs(context, f"experiment={experiment}").runs).differing_fields
            assert differing == read_columns(context, "", experiment_id=experiment).varying
            return differing

        assert fields(points="sentence", include_padding=False) == []
        assert fields(points="tokens", include_padding=False) == ["include_padding"]
        config = {"fixed_regularizers": {"istar": 0.5}}
        penalized = [run_row(0.0, config=config | {"shrinkage_points": points}) for points in (500, 600)]
        plain = [run_row(0.0, 1, config={"shrinkage_points": points}) for points in (700, 800)]
        experiment = add_experiment(context, *penalized, *plain, grid={"shrinkage_points": [500, 600, 700, 800]})
        assert read_columns(context, "seed:1", experiment_id=experiment).varying == []
        assert read_columns(context, "seed:0", experiment_id=experiment).varying == ["shrinkage_points"]

    def test_only_varying_fields_have_columns(self, client, context):
        body = {"experiment": "mine", "dataset": "d", "model": "m", "task": "classification", "metric": "accuracy"}
        for seed, shared_settings in enumerate(({}, {"batch_size": 8}, {"batch_size": 8})):
            assert client.post("/api/runs", json=body | {"seed": seed, "settings": shared_settings}).status_code == 201
        assert read_columns(context, "").varying == ["batch_size", "seed"]
        assert read_columns(context, "seed>0").varying == ["seed"]
        rows = [
            run_row(lam, seed, config={"batch_size": rows, "shrinkage_points": 500 if lam else 250_000})
            for rows in (8, 16)
            for lam in (0.0, 1.0)
            for seed in (0, 1)
        ]
        grid = {"batch_size": [8, 16], "shrinkage_points": [250_000, 500]}
        path = f"/experiments/{add_experiment(context, *rows, grid=grid)}/runs"

        def table(q):
            page = words(client.get(path, params={"q": q}))
            heads = re.findall(r'<th scope="col"[^>]*>\s*(?:<a [^>]*>)?([^<]*)', page)
            return heads[1 : heads.index("Status")], re.search(r'role="status"> (.*?) </p>', page)[1]

        shared_settings = "I-STAR and its baselines; ζ = 0.2; shrinkage points 500"
        assert table("") == (["λ", "Batch size", "Seed"], f"8 runs. All: {shared_settings}.")
        assert "All: I-STAR; ζ = 0.2;" in table("lam:1")[1]
        assert table("batch_size:8")[0] == ["λ", "Seed"]
        assert "batch size 8" in table("batch_size:8")[1]
        assert (table("batch_size:8 seed:1")[0], table("lam:0")) == (["λ"], (["λ", "Batch size", "Seed"], "4 runs."))

    def test_pages_are_sorted_searched_and_kept_after_cancel(self, client, context):
        experiment = add_experiment(context, *(run_row(1.0, seed) for seed in range(60)))
        path = f"/experiments/{experiment}/runs"
        first = words(client.get(f"{path}?sort=-seed&q=seed>=5"))
        assert "55 runs, 1 to 50 shown." in first
        assert f'rel="next" href="{path}?q=seed%3E%3D5&sort=-seed&page=2"' in first
        assert 'aria-sort="descending"><a href="' + f'{path}?q=seed%3E%3D5&sort=seed"' in first
        seeds = {run["id"]: run["seed"] for run in client.get(f"/api{path}?limit=500").json()}
        second = listed_runs(client.get(f"{path}?sort=-seed&q=seed>=5&page=2"))
        assert [seeds[run_id] for run_id in second] == [9, 8, 7, 6, 5]
        assert listed_runs(client.get(f"{path}?sort=-seed&q=seed>=5&page=99999999999999999999")) == second
        assert len(listed_runs(client.get(f"/experiments/{experiment}?page=2&q=seed>=5"))) == 5
        waiting = run_row(1.0, 1, status=RunStatus.QUEUED, performance=None)
        experiment = add_experiment(context, waiting)
        for back, page in (("runs", f"/experiments/{experiment}/runs"), ("across", "/compare/runs/list")):
            with context.sessions.begin() as session:
                session.merge(waiting).status = RunStatus.QUEUED
            fields = {"back": back, "q": "lam>0", "sort": "-iso", "page": "2"}
            answer = client.post(f"/runs/{waiting.id}/cancel", data=fields)
            assert answer.headers["location"] == f"{page}?q=lam%3E0&sort=-iso&page=2"

    def test_address_bar_follows_search_and_box_shows_errors(self, client, context):
        page = f"/experiments/{add_experiment(context, run_row())}"
        at = {"hx-current-url": f"http://localhost{page}?view=lambda&q=old&page=3"}
        answer = client.get(f"{page}/runs?q=lam>0&sort=-iso", headers=at)
        assert answer.headers["hx-replace-url"] == f"{page}?view=lambda&q=lam%3E0&sort=-iso"
        other_page = client.get(f"{page}/runs?q=lam>0", headers={"hx-current-url": "http://localhost/queue"})
        assert "hx-replace-url" not in other_page.headers
        path = f"/experiments/{add_experiment(context, run_row())}"
        for page, status in ((f"{path}/runs", 422), (path, 200), ("/experiments", 422)):
            answer = client.get(f"{page}?q=lam<x", headers={"accept": "text/html"})
            assert answer.status_code == status, page
            assert "role=\"alert\">Expected a number after lam< at character 5 of the search, got 'x'." in words(answer)
            assert 'name="q" value="lam<x"' in words(answer)
        assert client.get(f"{path}/runs?q=seed:7").text.count("<tbody>") == 0
        assert f'No run is found by seed:7. <a href="{path}/runs">Show all</a>' in words(
            client.get(f"{path}/runs?q=seed:7")
        )


class TestExperiments:
    @pytest.mark.both_databases
    def test_experiments_match_by_their_runs_and_show_progress(self, client, runs):
        def names(q):
            page = client.get("/experiments", params={"q": q})
            return [
                html.unescape(name) for name in re.findall(r'<th scope="row".*?<a href="[^"]*">(.*?)</a>', page.text)
            ]

        assert (names(""), names("bert-l"), names("task:cola")) == (["second", "Été 100%"], ["second"], ["Été 100%"])
        assert (names("status:failed"), names("status:failed perf>0")) == (["Été 100%"], [])
        assert "No experiment has a run that is found by nothing." in words(client.get("/experiments?q=nothing"))
        page = words(client.get("/experiments"))
        assert '3 of 3, 1 failed <progress value="2" max="3"' in page
        assert "Accuracy 0.250 to 0.750<small>, n = 2</small>" in page
        assert re.findall(r"M(\d+) 8h0", page) == ["4", "4", "140", "4"]

    def test_experiments_are_sorted_and_paged(self, client, context, runs):
        def listed(sort):
            return re.findall(
                r'href="/experiments/[0-9a-f]{32}">([^<]+)</a>', client.get(f"/experiments?sort={sort}").text
            )

        with context.sessions.begin() as session:
            second = session.scalars(select(Experiment).where(Experiment.name == "second")).one()
            second.config = second.config.model_copy(update={"model": "Zebra"})
        for column in ("name", "model", "task", "performance", "launched"):
            assert listed(column) == listed(f"-{column}")[::-1], column
        assert listed("model") == ["Été 100%", "second"]
        page = client.get("/experiments?sort=-performance").text
        assert 'aria-sort="descending"><a href="/experiments?sort=performance"' in page
        assert '<a href="/experiments?sort=name"' in page
        assert 'href="/experiments" hx-get="/experiments"' in page  # the newest first, as without an order
        assert client.get("/experiments?sort=nothing").status_code == 422
        for number in range(53):
            add_experiment(context, run_row(), name=f"sweep {number}")
        page = words(client.get("/experiments?q=sweep&page=2"))
        assert "53 experiments, 51 to 53 shown." in page
        assert 'rel="prev" href="/experiments?q=sweep"' in page
        assert page.count('<th scope="row"') == 3
