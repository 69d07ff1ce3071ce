import re

import numpy as np

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
