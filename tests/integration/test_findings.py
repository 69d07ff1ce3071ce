import re

import numpy as np
import pytest
from sqlalchemy import func, select

from app.db.models import Embedding, FigureFile, StoredFile
from tests.cached_rows import make_once
from tests.uploads.good import npy


def upload(client, work, *clouds):
    answers = [client.post("/api/embeddings?commit=auto", files={"file": ("cloud.npy", npy(x))}) for x in clouds]
    assert all(answer.json()["findings"] == [] for answer in answers)
    work()
    return [answer.json()["id"] for answer in answers]


def test_row_finding_links_to_marked_map(client, work):
    x = np.random.default_rng(0).normal(size=(400, 8))
    x[[3, 17, 18]] = 500
    plain = np.random.default_rng(1).normal(size=(300, 8))
    embedding_id, healthy, shifted = upload(client, work, x, plain, plain + 30)
    assert client.get(f"/api/embeddings/{healthy}").json()["findings"] == []
    page = client.get(f"/embeddings/{shifted}").text
    assert find_figure_links(page, "common_mean") == [("details", "common_mean", "figure-cosines", "See the cosines")]
    assert 'id="figure-cosines"' in client.get(f"/embeddings/{shifted}?tab=details").text
    path = f"/embeddings/{embedding_id}"
    (finding,) = client.get(f"/api{path}").json()["findings"]
    assert (finding["slug"], finding["severity"]) == ("outlier_rows", "warning")
    assert (finding["rows"], finding["row_count"], finding["names"]) == ([3, 17, 18], 3, None)
    assert finding["effect"]["after"] > 0.9
    assert client.get(f"/api{path}/findings").json() == [finding]
    page = client.get(path).text
    assert "3 rows hold 99% of the variance: rows 3, 17, 18. Without them " in page
    (page_text,) = re.findall(r'id="finding-outlier_rows">(.*?)</details>', page, re.DOTALL)
    assert "Warning: 3 rows hold 99% of the variance." in page_text
    assert finding["advice"] in page_text
    assert re.search(r"Rows 3, 17\W+18\.", page_text)
    assert find_figure_links(page, "outlier_rows") == [("map", "outlier_rows", "map", "See them on the map")]
    marked = client.get(f"{path}?tab=map&finding=outlier_rows").text
    assert 'name="rows" value="3 17-18"' in marked
    assert "Marked: 3 rows of the finding" in marked.replace("\u00a0", " ")
    assert f'href="{path}#finding-outlier_rows"' in marked
    for plain in (f"{path}?tab=map", f"{path}?tab=map&finding=hubs"):
        assert 'name="rows" value="3' not in client.get(plain).text


def test_dimension_finding_links_to_marked_figure(client, work):
    x = np.random.default_rng(0).normal(size=(400, 6))
    x[:, 4] *= 40
    head = ",".join(f"e{i}" for i in range(6))
    rows = "\n".join(",".join(f"{value:.6f}" for value in row) for row in x)
    answer = client.post("/api/embeddings?commit=auto", files={"file": ("cloud.csv", f"{head}\n{rows}".encode())})
    work()
    path = f"/embeddings/{answer.json()['id']}"
    (finding,) = client.get(f"/api{path}/findings").json()
    assert (finding["slug"], finding["dimensions"], finding["dimension_names"]) == ("rogue_dimensions", [4], ["e4"])
    page = client.get(path).text
    assert "4 (e4)" in page
    link = ("details", "rogue_dimensions", "figure-activation", "See them by dimension")
    assert find_figure_links(page, "rogue_dimensions") == [link]
    page = client.get(f"{path}?tab=details&finding=rogue_dimensions").text
    assert "Dotted: 1 dimension of the finding" in page.replace("\u00a0", " ")
    assert f'data-figure="{path}/figures/activation.json?finding=rogue_dimensions"' in page
    plot = client.get(f"{path}/figures/activation.json?finding=rogue_dimensions").json()
    assert [line["x0"] for line in plot["layout"]["shapes"]] == [4]
    rows = client.get(f"{path}/figures/activation.csv?finding=rogue_dimensions").text.splitlines()
    assert [row.rsplit(",", 1)[1] for row in rows] == ["in_the_finding", "", "", "", "", "yes", ""]
    assert "shapes" not in client.get(f"{path}/figures/activation.json").json()["layout"]


def find_figure_links(page, slug):
    card = page.partition(f'id="finding-{slug}"')[2].partition('class="finding')[0]
    return re.findall(r'<a href="[^"]*\?tab=(\w+)&amp;finding=(\w+)#([\w-]+)">(See [^<]*)</a>', card)


def cloud():
    x = np.random.default_rng(0).normal(size=(400, 8))
    x[[3, 17]] = 500
    return x


@pytest.fixture
def source(client, context, work, module_cache):
    return make_once(context, module_cache, "source", lambda: upload(client, work, cloud())[0])


def read_value(client, embedding_id, measure="isoscore"):
    embedding = client.get(f"/api/embeddings/{embedding_id}").json()
    return next(measurement["value"] for measurement in embedding["measurements"] if measurement["measure"] == measure)


def test_finding_makes_a_selection_of_the_same_file(client, work, context, source):
    answer = client.post(f"/api/embeddings/{source}/selections", json={"finding": "outlier_rows"})
    assert (answer.status_code, answer.json()["name"]) == (201, "cloud.npy without 2 outlier rows")
    work()
    new = client.get(f"/api/embeddings/{answer.json()['id']}").json()
    assert (new["status"], new["origin"], new["n"], new["source_id"]) == ("ready", "selected", 398, source)
    assert (new["selection"]["without_rows"], new["findings"]) == ([3, 17], [])
    assert new["provenance"] == {"source": "cloud.npy", "finding": "outlier_rows", "rows": 2, "dimensions": 0}
    (separate,) = upload(client, work, np.delete(cloud(), [3, 17], axis=0))
    assert read_value(client, new["id"]) == pytest.approx(read_value(client, separate), rel=1e-12)
    # Both share the stored bytes.
    with context.sessions() as session:
        first, second = (session.get(Embedding, row_id).files[0].file_sha256 for row_id in (source, new["id"]))
    assert first == second


def test_button_leads_to_selection_and_becomes_a_link(client, work, source):
    page = client.get(f"/embeddings/{source}").text
    assert "Measure without them" in page
    assert "Measure without them" not in client.get(f"/embeddings/{source}/report.html").text
    answer = client.post(f"/embeddings/{source}/selections", data={"finding": "outlier_rows"})
    selection_id = answer.headers["location"].rpartition("/")[2]
    again = client.post(f"/embeddings/{source}/selections", data={"finding": "outlier_rows"})
    assert again.headers["location"].endswith(selection_id)
    work()
    page = client.get(f"/embeddings/{source}").text
    assert "Measure without them" not in page
    assert f'href="/compare?id={source}&amp;id={selection_id}"' in page
    selection_page = client.get(f"/embeddings/{selection_id}?tab=details").text
    assert "2 rows (3, 17) of its file" in " ".join(selection_page.replace("\u00a0", " ").split())
    assert client.get(f"/compare?id={source}&id={selection_id}").status_code == 200


def test_shared_bytes_are_deleted_with_their_last_user(client, work, context, source):
    selection = client.post(f"/api/embeddings/{source}/selections", json={"rows": [5]}).json()
    work()
    sha256 = selection["files"][0]["file_sha256"]
    client.delete(f"/api/embeddings/{source}")
    with context.sessions() as session:
        map_files = select(FigureFile.file_sha256).where(FigureFile.embedding_id == source)
        map_bytes = session.scalar(select(func.sum(StoredFile.size_bytes)).where(StoredFile.sha256.in_(map_files)))
    assert map_bytes >= 400 * 3 * 4, "two coordinates and a norm of each row"
    assert client.get("/api/trash").json()["frees_bytes"] == map_bytes
    assert client.delete(f"/api/trash/{source}").json()["freed_bytes"] == map_bytes
    assert context.storage.exists(sha256)
    remaining = client.get(f"/api/embeddings/{selection['id']}").json()
    assert (remaining["source_id"], remaining["provenance"]["source"]) == (None, "cloud.npy")
    assert "which was deleted" in client.get(f"/embeddings/{selection['id']}").text
    client.delete(f"/api/embeddings/{selection['id']}")
    assert client.delete(f"/api/trash/{selection['id']}").json()["freed_bytes"] > 0
    assert not context.storage.exists(sha256)


def test_nested_selection_counts_rows_of_the_file(client, work, source):
    first = client.post(f"/api/embeddings/{source}/selections", json={"rows": [0, 3], "dimensions": [2]}).json()
    assert first["name"] == "cloud.npy without 2 rows and 1 dimension"
    work()
    (finding,) = client.get(f"/api/embeddings/{first['id']}/findings").json()
    assert (finding["slug"], finding["rows"]) == ("outlier_rows", [17])
    second = client.post(f"/api/embeddings/{first['id']}/selections", json={"finding": "outlier_rows"}).json()
    work()
    second = client.get(f"/api/embeddings/{second['id']}").json()
    assert (second["selection"]["without_rows"], second["selection"]["without_dimensions"]) == ([0, 3, 17], [2])
    assert (second["n"], second["d"], second["source_id"]) == (397, 7, first["id"])


def test_all_rows_of_finding_are_left_out_and_remedy_is_offered(client, work):
    x = np.random.default_rng(0).normal(size=(400, 8))
    x[200:] = x[:20].repeat(10, axis=0)
    (source,) = upload(client, work, x)
    finding = next(row for row in client.get(f"/api/embeddings/{source}/findings").json())
    assert (finding["slug"], finding["row_count"], len(finding["rows"])) == ("duplicate_rows", 200, 100)
    selection = client.post(f"/api/embeddings/{source}/selections", json={"finding": "duplicate_rows"}).json()
    work()
    selection = client.get(f"/api/embeddings/{selection['id']}").json()
    assert (selection["name"], selection["n"]) == ("cloud.npy without 200 duplicate rows", 200)
    assert selection["selection"]["without_rows"] == list(range(200, 400))
    x = np.random.default_rng(0).normal(size=(400, 8)) + 6 * np.random.default_rng(1).normal(size=8)
    (source,) = upload(client, work, x)
    assert f'href="/embeddings/{source}/lab?method=centring"' in client.get(f"/embeddings/{source}").text


def test_invalid_selections_are_refused(client, work, source):
    cases = [
        ({}, 422, "rows", "Nothing to leave out"), ({"rows": [400]}, 422, "rows", "no row 400"),
        ({"dimensions": [8]}, 422, "dimensions", "no dimension 8"),
        ({"dimensions": list(range(8))}, 422, "dimensions", "no dimension"), ({"rows": [-1]}, 422, "rows", "0"),
        ({"finding": "hubs"}, 404, "finding", "no finding `hubs`. Findings are: outlier_rows"),
        ({"finding": "outlier_rows", "rows": [1]}, 422, "finding", "Not both"),
    ]  # fmt: skip
    for request, status, field, sentence in cases:
        answer = client.post(f"/api/embeddings/{source}/selections", json=request)
        assert (answer.status_code, answer.json()["field"]) == (status, field)
        assert sentence in answer.json()["detail"]
    selection_id = client.post(f"/api/embeddings/{source}/selections", json={"rows": [3, 17]}).json()["id"]
    answer = client.post(f"/api/embeddings/{selection_id}/selections", json={"rows": [1]})
    assert (answer.status_code, "needs a measured embedding" in answer.json()["detail"]) == (409, True)
    work()
    answer = client.post(f"/api/embeddings/{selection_id}/selections", json={"rows": [3]})
    assert (answer.json()["field"], "leaves out row 3 already" in answer.json()["detail"]) == ("rows", True)
    answer = client.get(f"/api/embeddings/{selection_id}/vectors.npy")
    assert (answer.status_code, "without_rows" in answer.json()["detail"]) == (409, True)
    assert "vectors.safetensors" not in client.get(f"/embeddings/{selection_id}?tab=details").text
