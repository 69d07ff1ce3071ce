"""Any row is looked up by its name among all rows: through the API, the worker and the report page."""

import html
import re

import numpy as np
import pytest

from app.db import job_kinds
from app.db.job_kinds import Job, Queue
from app.db.models import FigureData, Lookup
from app.db.work import wanted
from tests.once import make_once

NAMES = ["King", "king", "queen", "zero", "void", *(f"word{i}" for i in range(95))]


@pytest.fixture
def x():
    x = np.random.default_rng(0).normal(size=(len(NAMES), 6)).astype(np.float32) + 1
    x[3], x[4, 2] = 0, np.nan
    return x


@pytest.fixture
def measured(client, context, work, x, trained_once):
    header = ",".join([*(f"x{i}" for i in range(6)), "word"])
    lines = [",".join([*map(repr, row.tolist()), name]) for row, name in zip(x, NAMES, strict=True)]
    files = {"file": ("words.csv", "\n".join([header, *lines]).encode())}

    def measure():
        created = client.post("/api/embeddings?commit=auto", files=files).json()
        work()
        return created["id"]

    row_id = make_once(context, trained_once, "measured", measure)
    few = [{"name": name, "before": [], "after": []} for name in ("word1", "word2")]
    stored = {"k": 2, "rows": 99, "method": "all_but_the_top", "parameters": {"D": 1}, "of": few}
    with context.sessions.begin() as session:
        session.merge(FigureData(embedding_id=row_id, slug="neighbours", data=stored))
    return row_id


@pytest.fixture
def look_up(client, measured, work):
    def look_up(name):
        asked = client.post(f"/api/embeddings/{measured}/neighbors", json={"name": name})
        assert (asked.status_code, asked.json()["status"]) == (202, "queued")
        assert work() == 1
        return client.get(f"/api/embeddings/{measured}/neighbors", params={"name": name}).json()

    return look_up


def test_the_nearest_of_all_rows_are_found_before_and_after_the_method_of_the_report(look_up, x, client, measured):
    found = look_up("queen")
    results = found["results"]
    assert (found["status"], results["row"], results["rows"], results["k"]) == ("ready", 2, 99, 8)
    there = [row for row in range(len(x)) if row not in (2, 3, 4)]
    finite = x[np.isfinite(x).all(axis=1)].astype(float)
    values, vectors = np.linalg.eigh(np.cov(finite.T))
    top = vectors[:, values.argsort()[::-1][: results["parameters"]["D"]]]
    centred = x - finite.mean(axis=0)
    for side, y in (("before", x.astype(float)), ("after", centred - centred @ top @ top.T)):
        cosines = {
            row: y[row] @ y[2] / np.linalg.norm(y[row]) / np.linalg.norm(y[2]) for row in (*there, 3) if any(y[row])
        }
        nearest = sorted(cosines, key=cosines.get, reverse=True)[:8]
        assert [one["name"] for one in results["of"][0][side]] == [NAMES[row] for row in nearest]
        told = [one["cosine"] for one in results["of"][0][side]]
        assert told == pytest.approx([cosines[row] for row in nearest], abs=1e-5)
    again = client.post(f"/api/embeddings/{measured}/neighbors", json={"name": "queen"}).json()
    assert again == found, "it is stored"


@pytest.mark.parametrize(("name", "row"), [("king", 1), ("King", 0), ("KING", 0), ("QUEEN", 2)])
def test_a_name_is_found_as_it_is_spelled_or_else_by_its_letters(look_up, name, row):
    assert look_up(name)["results"]["row"] == row


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x", "No row is named 'x'."),
        ("zero", "The row named 'zero' holds zeros alone, so it has no direction."),
        ("void", "The row named 'void' holds NaN or infinity, so it has no neighbors."),
    ],
)
def test_a_row_that_is_not_there_or_has_no_direction_is_told(look_up, name, words):
    found = look_up(name)
    assert (found["status"], found["error"], found["results"]) == ("failed", words, None)


@pytest.mark.both_databases
def test_what_was_not_looked_up_and_wrong_names_are_refused(client, measured):
    path = f"/api/embeddings/{measured}/neighbors"
    answer = client.get(path, params={"name": "king"})
    assert (answer.status_code, answer.json()["detail"]) == (404, "Nobody has looked up 'king' in this embedding yet.")
    for name in ("", "x" * 1001):
        answer = client.post(path, json={"name": name})
        assert (answer.status_code, answer.json()["field"]) == (422, "name")
        assert "Give a name of 1 to 1,000 characters." in str(answer.json()["detail"])


@pytest.mark.both_databases
def test_it_waits_behind_no_measuring_is_not_forgotten_and_goes_with_its_embedding(client, context, measured):
    client.post(f"/api/embeddings/{measured}/neighbors", json={"name": "king"})
    with context.sessions() as session:
        job = Job(job_kinds.LOOKUP, session.query(Lookup).one().id)
    assert (job.kind.queue, job.priority) == (Queue.LAB, Job(job_kinds.POSTPROCESS, "a").priority)
    assert wanted(context.sessions) == [job]
    client.delete(f"/api/embeddings/{measured}")
    client.delete("/api/trash")
    with context.sessions() as session:
        assert session.query(Lookup).all() == []
    assert job.workflow_id not in context.queue.active()


def test_the_report_page_asks_waits_and_shows(client, measured, work):
    def section(name):
        page = client.get(f"/embeddings/{measured}", params={"name": name}).text
        return page.partition('id="neighbours"')[2].partition("</section>")[0]

    def words(name):
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", section(name))).split())

    assert "king is not among the suggested names. Search all rows" in words("king")
    assert "every 2s" not in section("king")
    answer = client.post(f"/embeddings/{measured}/neighbors", data={"name": "king"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/embeddings/{measured}?name=king#neighbours")
    assert "A worker is looking up king among all rows." in words("king")
    assert f'hx-get="/embeddings/{measured}?name=king"' in section("king")
    work()
    assert "every 2s" not in section("king")
    assert "Nearest to king by cosine;" in words("king")
    assert "among 99 rows" in words("king")
    client.post(f"/embeddings/{measured}/neighbors", data={"name": "x"})
    work()
    assert "No row is named 'x'. Search again" in words("x")
