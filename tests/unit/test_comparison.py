"""Differences of measures between embeddings, against those worked out by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from app.embeddings.comparison import cautions, compare, distinct_names, in_order_of_making
from tests.factories import embedding


def row_of(slug, *values):
    rows = {row.measure.slug: row for row in compare([embedding(found={slug: value}) for value in values])}
    assert list(rows) == [slug]
    return rows[slug]


def test_a_difference_has_the_error_of_two_independent_samples():
    row = row_of("mean_cosine", (0.5, 0.03), (0.7, 0.04))
    baseline, one = row.differences
    assert baseline is None
    assert one.value == pytest.approx(0.2)
    assert one.se == pytest.approx(0.05)
    assert (one.low, one.high) == pytest.approx((0.2 - 2.5178060504864312 * 0.05, 0.2 + 2.5178060504864312 * 0.05))
    assert one.excludes_zero is True
    assert (row.differs, row.judged) == (True, True)


@pytest.mark.parametrize(("value", "excludes"), [(0.62, False), (0.63, True), (0.38, False), (0.37, True)])
def test_an_interval_that_reaches_zero_does_not_exclude_it(value, excludes):
    row = row_of("mean_cosine", (0.5, 0.03), (value, 0.04))
    assert row.differences[1].excludes_zero is excludes
    assert row.differs is excludes


@pytest.mark.parametrize("other", [0.7, (0.7, None)])
def test_without_a_standard_error_on_both_sides_there_is_no_interval(other):
    row = row_of("mean_cosine", (0.5, 0.03), other)
    assert row.differences[1].value == pytest.approx(0.2)
    assert row.differences[1][1:4] == (None, None, None)
    assert row.differences[1].excludes_zero is None
    assert (row.differs, row.judged) == (False, False)


def test_the_same_rows_are_compared_pair_by_pair():
    dealt = {"by": "rows", "groups": 400, "blocks": "b"}
    found = {"mean_cosine": (0.5, 0.03)}
    raw = embedding(id="1", found=found, independent=dealt)
    made = embedding(id="2", found={"mean_cosine": (0.51, 0.03)}, source_id="1", independent=dealt)
    (row,) = compare([raw, made])
    assert row.differences[1].paired
    assert row.differences[1].se == pytest.approx(0)
    (row,) = compare([raw, embedding(id="3", found={"mean_cosine": (0.51, 0.03)}, independent=dealt)])
    assert not row.differences[1].paired


@pytest.mark.parametrize("values", [(None, (0.5, 0.1)), ((0.5, 0.1), None)])
def test_where_one_has_no_value_there_is_no_difference(values):
    assert row_of("isoscore", *values).differences == [None, None]


def test_every_measure_that_one_of_them_has_stands_in_the_catalogue_s_order():
    rows = compare([embedding(found={"mean_cosine": 0.5}), embedding(found={"isoscore": 0.25, "former": 1})])
    assert [row.measure.slug for row in rows] == ["isoscore", "mean_cosine"]
    assert [one and one.value for one in rows[0].found] == [None, 0.25]
    assert rows[0].differences == [None, None]


def test_names_that_come_twice_are_told_apart():
    names = [embedding(name) for name in ("a", "a (2)", "a", "b", "a")]
    assert distinct_names(names) == ["a", "a (2)", "a (3)", "b", "a (4)"]


def test_few_rows_are_minded_where_numbers_of_rows_differ():
    many, few = embedding("many", id="1", n=500), embedding("few", id="2", n=90, n_left_out=11)
    (caution,) = cautions([many, few])
    assert "few (79 rows for 8 dimensions)" in caution
    assert "many" not in caution
    assert cautions([few, embedding("again", id="3", n=79)]) == []
    assert cautions([many, embedding("enough", id="4", n=80)]) == []


def test_other_dimensions_are_minded():
    (caution,) = cautions([embedding(id="1"), embedding(id="2", d=16)])
    assert caution.startswith("Numbers of dimensions differ (8, 16):")


def test_the_same_rows_that_cannot_be_paired_are_minded():
    raw, white = embedding("raw", id="1"), embedding("white", id="2", source_id="1")
    (caution,) = cautions([raw, white])
    assert caution.startswith("white and raw hold the same rows, but an earlier version measured one of them")
    dealt = {"by": "rows", "groups": 400, "blocks": "b"}
    raw.independent = white.independent = dealt
    assert cautions([raw, white]) == []
    white.independent = dealt | {"blocks": "c"}
    assert "duplicates, in groups or left out" in cautions([raw, white])[0]
    assert cautions([white, embedding("other", id="3")]) == []


def test_the_same_names_in_another_order_are_minded():
    def named(name, in_order):
        dealt = {"by": "rows", "groups": 400, "blocks": "b", "names": in_order, "names_in_any_order": "s"}
        return embedding(name, id=name, independent=dealt)

    (caution,) = cautions([named("a", "x"), named("b", "y")])
    assert "in another order" in caution


def test_rows_that_a_method_was_fitted_on_are_minded():
    made = embedding("white", id="2", n=8000, provenance={"method": "zca_whitening", "fit_rows": 4000})
    (caution,) = cautions([embedding("other", id="1", n=8000, provenance={"model": "bert"}), made])
    assert caution.startswith("white was fitted on 4,000 of its 8,000 rows, which flatters its numbers:")


def test_sources_come_before_what_was_made_of_them_and_the_oldest_first():
    def of_day(day, **columns):
        return embedding(id=str(day), created_at=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day), **columns)

    chosen = [of_day(4, source_id="2"), of_day(3), of_day(2), of_day(1), of_day(5, source_id="4")]
    assert [one.id for one in in_order_of_making(chosen)] == ["2", "4", "1", "3", "5"]
