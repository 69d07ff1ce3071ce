"""Figures of tasks: the score of each variant by isotropy and by bytes."""

import pytest

from app.db.task import TaskResults
from app.tasks.figures import find_pareto_front, name_roles, task_figures

SCORES = [(1536, 0.21, 0.80), (384, 0.21, 0.80), (192, 0.5, 0.78), (768, None, 0.70), (48, 0.3, 0.79)]


@pytest.fixture
def results():
    """Five variants with their bytes, IsoScores and scores."""
    return TaskResults.model_validate(
        {
            "task": "queries", "metric": "ndcg@10", "similarity": "cosine", "n": 1000, "d": 384,
            "parts": {"fit": 300, "choose": 600, "report": 600},
            "variants": [
                {
                    "name": f"variant {i}", "method": "none", "parameters": {}, "dimensions": "all",
                    "storage": "float32", "bytes": size, "isoscore": isoscore, "choose": {"value": value},
                    "report": {
                        "value": value, "low": value - 0.02, "high": value + 0.01, "difference": value - 0.8,
                        "difference_low": value - 0.82, "difference_high": value - 0.79,
                    },
                    "recall_of_exact": 1.0,
                }
                for i, (size, isoscore, value) in enumerate(SCORES)
            ],
            "baseline": 0, "chosen": 0, "smallest": 4, "conclusion": "Best: the vectors as they are.",
        }
    )  # fmt: skip


def test_line_joins_pareto_front_of_bytes_and_score(results):
    assert find_pareto_front(results) == [4, 1]
    _, by_bytes = task_figures(results)
    assert [row[-1] for row in by_bytes.table.rows] == ["", "yes", "", "", "yes"]
    line = next(trace for trace in by_bytes.draw().data if trace.mode == "lines")
    assert (list(line.x), list(line.y)) == ([48, 384], [0.79, 0.80])


def test_each_variant_is_drawn_once_with_interval(results):
    assert name_roles(results) == {0: "As it is, chosen", 4: "Smallest"}
    by_isotropy, by_bytes = task_figures(results)
    traces = by_isotropy.draw().data
    assert sorted(x for trace in traces for x in trace.x) == [0.21, 0.21, 0.3, 0.5]
    assert "IsoScore of 1 variant is undefined." in by_isotropy.caption
    assert {trace.name for trace in traces} == {"Others", "As it is, chosen", "Smallest"}
    assert all(figure.caption.endswith(" Smallest: variant 4.") for figure in (by_isotropy, by_bytes))
    ends = [(trace.error_y.array[0], trace.error_y.arrayminus[0]) for trace in traces]
    assert ends == [pytest.approx((0.01, 0.02))] * len(traces)
    assert by_isotropy.table.rows[2] == ["variant 2", "", 192, 0.5, 0.78, *SCORES[2][2:], *by_bytes.table.rows[2][6:-1]]
    assert [len(row) for row in by_bytes.table.rows] == [len(by_bytes.table.columns)] * 5
    none = [variant.model_copy(update={"isoscore": None}) for variant in results.variants]
    by_isotropy, _ = task_figures(results.model_copy(update={"variants": none}))
    assert by_isotropy.empty == "IsoScore is undefined for these vectors."
