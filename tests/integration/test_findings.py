"""Findings of an embedding: stored when it is measured, in the API and at the head of its report."""

import io

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


def test_a_healthy_embedding_has_no_findings(client, work):
    embedding_id = uploaded(client, work, np.random.default_rng(1).normal(size=(300, 8)))
    assert client.get(f"/api/embeddings/{embedding_id}").json()["findings"] == []
