from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from app.db.models import TaskStatus
from app.db.task import ChoiceScore, JudgedVariant, ReportScore, TaskResults
from app.embeddings.family import FamilyMember, list_scored_embeddings
from app.tasks.family_figures import family_figure
from app.tasks.figures import find_pareto_front, name_roles, task_figures
from isoscope.leader import RankedEmbedding, describe_leader
from isoscope.rank_relation import correlate_ranks, describe_relation, relation_of

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
    for figure in (by_isotropy, by_bytes):
        assert figure.caption.endswith(" Below the axis: variant 3 (0.700). Smallest: variant 4.")
    ends = [(trace.error_y.array[0], trace.error_y.arrayminus[0]) for trace in traces]
    assert ends == [pytest.approx((0.01, 0.02))] * len(traces)
    assert by_isotropy.table.rows[2] == ["variant 2", "", 192, 0.5, 0.78, *SCORES[2][2:], *by_bytes.table.rows[2][6:-1]]
    assert [len(row) for row in by_bytes.table.rows] == [len(by_bytes.table.columns)] * 5
    object.__setattr__(results.variants[2].report, "low", 0.6)  # the axis then reaches below all scores
    assert "Below the axis" not in task_figures(results)[0].caption
    variants = [variant.model_copy(update={"isoscore": None}) for variant in results.variants]
    by_isotropy, _ = task_figures(results.model_copy(update={"variants": variants}))
    assert by_isotropy.empty == "IsoScore is undefined for these vectors."


def variant(isoscore, value, name="as it is"):
    shared = {"difference": 0, "difference_low": 0, "difference_high": 0}
    report = ReportScore(value=value, low=value - 0.02, high=value + 0.01, **shared)
    return JudgedVariant(
        name=name, method="none", parameters={}, dimensions="all", storage="float32", bytes=1536, isoscore=isoscore,
        choose=ChoiceScore(value=value), report=report, recall_of_exact=1.0,
    )  # fmt: skip


def member(index, isoscore, value, *, layer=None, series=None, chosen=None):
    as_it_is = None if value is None else variant(isoscore, value)
    return FamilyMember(
        task_id=f"t{index}", embedding_id=f"e{index}", name=f"embedding {index}", series=series, layer=layer,
        pooling=None, status=TaskStatus.FINISHED, error=None, as_it_is=as_it_is, chosen=chosen or as_it_is, report=100,
    )  # fmt: skip


def layers(count, value=lambda layer: 0.5 + layer / 100):
    return [member(i, 0.1 * i, value(i), layer=i, series="s", chosen=variant(0.9, 0.8, "PCA-8")) for i in range(count)]


def test_embedding_has_two_points_and_lines_join_layers():
    figure = family_figure([*layers(3), member(9, 0.35, 0.7)], "ndcg@10")
    rows = [row[:4] for row in figure.table.rows]
    assert rows[:2] == [["embedding 0", 0, "as it is", "as it is"], ["embedding 0", 0, "chosen", "PCA-8"]]
    assert rows[-1] == ["embedding 9", None, "as it is", "as it is"]
    drawn = figure.draw()
    lines = [trace for trace in drawn.data if trace.mode == "lines"]
    assert [list(line.x) for line in lines] == [pytest.approx([0, 0.1, 0.2]), [0.9] * 3]
    points = [trace for trace in drawn.data if trace.mode == "markers+text"]
    assert [len(trace.x) for trace in points] == [2, 2, 2, 1]
    assert [trace.text[0] for trace in points] == ["0", "1", "2", ""]
    assert len({trace.marker.color for trace in points}) == 4
    assert points[0].error_y.arrayminus[0] == pytest.approx(0.02)
    names = {trace.name for trace in drawn.data if trace.showlegend is not False}
    assert names == {"embedding 9", "Layers as they are", "Layers with the chosen variant"}
    assert "Lines join layers in order" in figure.caption
    bad = member(0, 0.1, 0.5)._replace(name="<b>%{x}")
    figure = family_figure([bad, member(1, 0.2, 0.6)], "ndcg@10")
    assert "<b>" not in str(figure.draw())


def test_figure_needs_two_embeddings_and_lists_undefined_ones():
    assert family_figure([member(0, 0.1, 0.5), member(1, None, None)], "ndcg@10") is None
    figure = family_figure([member(0, 0.1, 0.5), member(1, 0.2, 0.5), member(2, None, 0.6)], "ndcg@10")
    assert "IsoScore of 1 embedding is undefined." in figure.caption
    assert len(figure.table.rows) == 3
    assert "Lines join" not in figure.caption


@pytest.mark.parametrize("values", [[1, 2, 3, 4, 5], [3, 1, 2, 5, 4], [1, 1, 2, 2, 5]])
def test_rank_relation_matches_exact_permutation_test(values):
    points = tuple((float(i), float(value)) for i, value in enumerate(values))
    relation = correlate_ranks(points)
    expected = spearmanr(*zip(*points, strict=True)).statistic
    assert relation.rho == pytest.approx(expected)
    orders = [spearmanr(range(len(values)), order).statistic for order in permutations(values)]
    assert relation.p == pytest.approx(sum(abs(rho) >= abs(expected) - 1e-9 for rho in orders) / len(orders))


def test_more_than_seven_embeddings_use_random_permutations():
    relation = correlate_ranks(tuple((float(i), float(i)) for i in range(12)))
    assert (relation.rho, relation.p) == (pytest.approx(1), 1 / 10_000)
    assert correlate_ranks(tuple((float(i), 1.0) for i in range(8))).rho is None


def models(count, value=lambda i: 0.5 + i / 100):
    return [member(i, 0.1 * i, value(i)) for i in range(count)]


def describe(members):
    return describe_relation(list_scored_embeddings(members), "ndcg@10")


def test_relation_sentence_matches_evidence():
    assert describe(models(5)).startswith("Of these 5 embeddings as they are, the more isotropic score higher")
    assert describe(models(5)).endswith("p holds for models made apart, not for checkpoints or layers of one.")
    assert "score lower" in describe(models(5, lambda i: 0.5 - i / 100))
    assert "No clear relation" in describe(models(5, lambda i: 0.5 + (i % 2) / 100))
    assert "no rank correlation" in describe(models(5, lambda _: 0.5))
    assert relation_of(list_scored_embeddings(models(4))) is None
    sentence = describe(layers(4))
    assert sentence == (
        "embedding 3 is the most isotropic as it is and scores 0.530 nDCG@10. "
        "A rank correlation needs at least 5 embeddings."
    )
    first, second, third = list_scored_embeddings(models(3))
    text = describe_relation([first, second, third._replace(isoscore=None)], "ndcg@10")
    assert text.startswith("embedding 1 is the most isotropic as it is and scores 0.510 nDCG@10. A rank")
    single = describe_relation([first, *(row._replace(isoscore=None) for row in (second, third))], "ndcg@10")
    assert single.startswith("3 embeddings judged, 1 with an IsoScore. A rank")


def test_layers_of_one_model_have_no_p():
    assert relation_of(list_scored_embeddings(layers(5))) == (5, pytest.approx(1), None)
    assert describe(layers(5)) == (
        "Over these 5 embeddings as they are, IsoScore and nDCG@10 have Spearman rho = 1.0. "
        "Layers of one model depend on each other, so there is no p."
    )
    distinct_models = [item._replace(series=f"model {index}") for index, item in enumerate(layers(5))]
    assert relation_of(list_scored_embeddings(distinct_models)).p == pytest.approx(2 / 120)


def ranked(choose, scores, width=0.1):
    rows = zip(choose, scores, strict=True)
    return [
        RankedEmbedding(f"Layer {layer}", chosen, score, score - width, score + width)
        for layer, (chosen, score) in enumerate(rows)
    ]


def test_best_embedding_is_named_only_with_clear_lead():
    sentence = describe_leader(ranked([0.6, 0.9], [0.5, 0.8]), "knn_accuracy")
    assert sentence.startswith("Layer 1 is best: ")
    sentence = describe_leader(ranked([0.6, 0.9, 0.7], [0.5, 0.8, 0.7]), "knn_accuracy")
    assert sentence.startswith("None is clearly best. Layer 1 ranks first with ")
    assert sentence.endswith("1 other may be as good.")
    random = np.random.default_rng(0)
    # Of seven layers the last is slightly better, so only it may be called best.
    means = np.array([0] * 6 + [0.02])
    sentences = [
        describe_leader(ranked(*(means + random.normal(size=(2, 7)) / 19.6)), "knn_accuracy") for _ in range(1000)
    ]
    wrong = sum(" is best" in sentence and not sentence.startswith("Layer 6") for sentence in sentences)
    assert wrong <= 5
    clear = [
        describe_leader(ranked(*(30 * means + random.normal(size=(2, 7)) / 19.6)), "knn_accuracy") for _ in range(99)
    ]
    assert sum(sentence.startswith("Layer 6 is best") for sentence in clear) >= 98
