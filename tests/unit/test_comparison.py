from datetime import UTC, datetime, timedelta

import pytest

from app.embeddings.comparison import EmbeddingComparison, make_names_distinct, suggest_order
from tests.factories import embedding


def row_of(slug, *values):
    (row,) = EmbeddingComparison([embedding(measured={slug: value}) for value in values]).measures
    assert row.measure.slug == slug
    return row


@pytest.mark.parametrize(("value", "excludes"), [(0.62, False), (0.63, True), (0.38, False), (0.37, True)])
def test_interval_that_reaches_zero_does_not_exclude_it(value, excludes):
    row = row_of("mean_cosine", (0.5, 0.03), (value, 0.04))
    assert row.differences[1].excludes_zero is excludes
    assert (row.differs, row.is_testable) == (excludes, True)


@pytest.mark.parametrize("value", [0.7, (0.7, None)])
def test_interval_needs_both_standard_errors(value):
    row = row_of("mean_cosine", (0.5, 0.03), value)
    assert row.differences[1].value == pytest.approx(0.2)
    assert row.differences[1][1:4] == (None, None, None)
    assert row.differences[1].excludes_zero is None
    assert (row.differs, row.is_testable) == (False, False)


def test_same_rows_are_paired():
    dealt = {"by": "rows", "groups": 400, "blocks": "b"}
    values = {"mean_cosine": (0.5, 0.03)}
    raw = embedding(id="1", measured=values, independent=dealt)
    whitened = embedding(id="2", measured={"mean_cosine": (0.51, 0.03)}, source_id="1", independent=dealt)
    (row,) = EmbeddingComparison([raw, whitened]).measures
    assert row.differences[1].paired
    assert row.differences[1].se == pytest.approx(0)
    unrelated = embedding(id="3", measured={"mean_cosine": (0.51, 0.03)}, independent=dealt)
    (row,) = EmbeddingComparison([raw, unrelated]).measures
    assert not row.differences[1].paired


@pytest.mark.parametrize("values", [(None, (0.5, 0.1)), ((0.5, 0.1), None)])
def test_missing_value_has_no_difference(values):
    assert row_of("isoscore", *values).differences == [None, None]


def test_comparison_orders_measures_and_numbers_repeated_names():
    embeddings = [embedding(measured={"mean_cosine": 0.5}), embedding(measured={"isoscore": 0.25, "former": 1})]
    rows = EmbeddingComparison(embeddings).measures
    assert [row.measure.slug for row in rows] == ["isoscore", "mean_cosine"]
    assert [measurement and measurement.value for measurement in rows[0].measurements] == [None, 0.25]
    assert rows[0].differences == [None, None]
    names = [embedding(name) for name in ("a", "a (2)", "a", "b", "a")]
    assert make_names_distinct(names) == ["a", "a (2)", "a (3)", "b", "a (4)"]


def test_comparison_warns_of_few_rows_dimensions_and_row_order():
    large, small = embedding("many", id="1", n=500), embedding("few", id="2", n=90, n_left_out=11)
    (caution,) = EmbeddingComparison([large, small]).cautions
    assert "few (79 rows for 8 dimensions)" in caution
    assert "many" not in caution
    assert EmbeddingComparison([small, embedding("again", id="3", n=79)]).cautions == []
    assert EmbeddingComparison([large, embedding("enough", id="4", n=80)]).cautions == []
    (caution,) = EmbeddingComparison([embedding(id="1"), embedding(id="2", d=16)]).cautions
    assert caution.startswith("Numbers of dimensions differ (8, 16):")

    def named_embedding(name, in_order):
        dealt = {"by": "rows", "groups": 400, "blocks": "b", "names": in_order, "names_in_any_order": "s"}
        return embedding(name, id=name, independent=dealt)

    (caution,) = EmbeddingComparison([named_embedding("a", "x"), named_embedding("b", "y")]).cautions
    assert "in another order" in caution


def test_comparison_warns_of_unpaired_and_fitted_rows():
    raw, white = embedding("raw", id="1"), embedding("white", id="2", source_id="1")
    (caution,) = EmbeddingComparison([raw, white]).cautions
    assert caution.startswith("white and raw hold the same rows, but an earlier version measured one of them")
    dealt = {"by": "rows", "groups": 400, "blocks": "b"}
    raw.independent = white.independent = dealt
    assert EmbeddingComparison([raw, white]).cautions == []
    white.independent = dealt | {"blocks": "c"}
    assert "duplicates, in groups or left out" in EmbeddingComparison([raw, white]).cautions[0]
    assert EmbeddingComparison([white, embedding("other", id="3")]).cautions == []
    zca = embedding("white", id="2", n=8000, provenance={"method": "zca_whitening", "fit_rows": 4000})
    (caution,) = EmbeddingComparison([embedding("other", id="1", n=8000, provenance={"model": "bert"}), zca]).cautions
    assert caution.startswith("white was fitted on 4,000 of its 8,000 rows, which flatters its numbers:")


def test_suggested_order_is_by_source_then_age_and_by_layer():
    def dated(day, **columns):
        return embedding(id=str(day), created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day), **columns)

    unordered = [dated(4, source_id="2"), dated(3), dated(2), dated(1), dated(5, source_id="4")]
    assert [item.id for item in suggest_order(unordered)] == ["2", "4", "1", "3", "5"]
    layers = [embedding(name, id=name, encoding_id="e", layer=layer) for name, layer in (("top", 12), ("bottom", 0))]
    comparison = EmbeddingComparison(layers)
    assert (comparison.are_layers, comparison.is_ordered, comparison.axis) == (True, True, "Layer")
    assert comparison.labels == ["12", "0"]
    assert [item.name for item in suggest_order(layers)] == ["bottom", "top"]


@pytest.mark.parametrize(
    ("names", "ordered"),
    [(["step-10", "step-9"], True), (["step-1", "other"], False), (["step-1", "step-1"], False),
     ([f"any {chr(97 + i)}" for i in range(9)], True)],
)  # fmt: skip
def test_checkpoints_and_nine_embeddings_are_ordered(names, ordered):
    embeddings = [embedding(name, id=str(i)) for i, name in enumerate(names)]
    assert EmbeddingComparison(embeddings).is_ordered is ordered
    if names[0] == "step-10":
        assert [item.name for item in suggest_order(embeddings)] == ["step-9", "step-10"]
