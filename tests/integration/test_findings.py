"""Findings of an embedding: stored when it is measured, in the API and at the head of its report."""

import io
import re

import numpy as np


def uploaded(client, work, x):
    file = io.BytesIO()
    np.save(file, x)
    answer = client.post("/api/embeddings?commit=auto", files={"file": ("cloud.npy", file.getvalue())})
    assert answer.json()["findings"] == []
    work()
    return answer.json()["id"]


def test_outlier_rows_are_in_the_json_and_head_the_report(client, work):
    x = np.random.default_rng(0).normal(size=(400, 8))
    x[[3, 17]] = 500
    embedding_id = uploaded(client, work, x)
    (finding,) = client.get(f"/api/embeddings/{embedding_id}").json()["findings"]
    assert (finding["slug"], finding["severity"]) == ("outlier_rows", "warning")
    assert (finding["rows"], finding["row_count"], finding["names"]) == ([3, 17], 2, None)
    assert finding["effect"]["after"] > 0.9
    page = client.get(f"/embeddings/{embedding_id}").text
    assert "2 rows hold 99% of the variance: rows 3, 17. Without them " in page
    assert client.get(f"/api/embeddings/{embedding_id}/findings").json() == [finding]
    (page_text,) = re.findall(r'id="finding-outlier_rows">(.*?)</details>', page, re.DOTALL)
    assert "Warning: 2 rows hold 99% of the variance." in page_text
    assert finding["advice"] in page_text
    assert "2 rows: 3, 17." in page_text.replace("\u00a0", " ")


def test_dimensions_are_named_by_their_columns_on_the_report(client, work):
    x = np.random.default_rng(0).normal(size=(400, 6))
    x[:, 4] *= 40
    head = ",".join(f"e{i}" for i in range(6))
    rows = "\n".join(",".join(f"{value:.6f}" for value in row) for row in x)
    answer = client.post("/api/embeddings?commit=auto", files={"file": ("cloud.csv", f"{head}\n{rows}".encode())})
    work()
    (finding,) = client.get(f"/api/embeddings/{answer.json()['id']}/findings").json()
    assert (finding["slug"], finding["dimensions"], finding["dimension_names"]) == ("rogue_dimensions", [4], ["e4"])
    page = client.get(f"/embeddings/{answer.json()['id']}").text
    assert "4 (e4)" in page


def test_a_healthy_embedding_has_no_findings(client, work):
    embedding_id = uploaded(client, work, np.random.default_rng(1).normal(size=(300, 8)))
    assert client.get(f"/api/embeddings/{embedding_id}").json()["findings"] == []


def figure_of(page, slug):
    card = page.partition(f'id="finding-{slug}"')[2].partition('class="finding')[0]
    return re.findall(r'<a href="[^"]*\?tab=(\w+)&amp;finding=(\w+)#([\w-]+)">(See [^<]*)</a>', card)


def test_a_finding_of_rows_leads_to_the_map_with_these_rows_marked(client, work):
    x = np.random.default_rng(0).normal(size=(400, 8))
    x[[3, 17, 18]] = 500
    path = f"/embeddings/{uploaded(client, work, x)}"
    page = client.get(path).text
    assert figure_of(page, "outlier_rows") == [("map", "outlier_rows", "map", "See them on the map")]
    marked = client.get(f"{path}?tab=map&finding=outlier_rows").text
    assert 'name="rows" value="3 17-18"' in marked
    assert "Marked: 3 rows of the finding" in marked.replace("\u00a0", " ")
    assert f'href="{path}#finding-outlier_rows"' in marked
    for plain in (f"{path}?tab=map", f"{path}?tab=map&finding=hubs"):
        assert 'name="rows" value="3' not in client.get(plain).text


def test_a_finding_of_dimensions_leads_to_a_figure_with_these_dimensions_marked(client, work):
    x = np.random.default_rng(0).normal(size=(400, 6))
    x[:, 4] *= 40
    path = f"/embeddings/{uploaded(client, work, x)}"
    link = ("directions", "rogue_dimensions", "figure-activation", "See them by dimension")
    assert figure_of(client.get(path).text, "rogue_dimensions") == [link]
    page = client.get(f"{path}?tab=directions&finding=rogue_dimensions").text
    assert "Dotted: 1 dimension of the finding" in page.replace("\u00a0", " ")
    assert f'data-figure="{path}/figures/activation.json?finding=rogue_dimensions"' in page
    plot = client.get(f"{path}/figures/activation.json?finding=rogue_dimensions").json()
    assert [line["x0"] for line in plot["layout"]["shapes"]] == [4]
    rows = client.get(f"{path}/figures/activation.csv?finding=rogue_dimensions").text.splitlines()
    assert [row.rsplit(",", 1)[1] for row in rows] == ["in_the_finding", "", "", "", "", "yes", ""]
    assert "shapes" not in client.get(f"{path}/figures/activation.json").json()["layout"]


def test_a_finding_without_rows_or_dimensions_leads_to_the_figure_of_its_measure(client, work):
    x = np.random.default_rng(0).normal(size=(400, 8)) + 30
    path = f"/embeddings/{uploaded(client, work, x)}"
    page = client.get(path).text
    assert figure_of(page, "common_mean") == [("overview", "common_mean", "figure-cosines", "See the cosines")]
    assert 'id="figure-cosines"' in page
