from datetime import UTC, datetime, timedelta
from math import hypot

import pytest

from app.core.evidence import block_degrees, t_quantile
from app.db.models import EmbeddingFile, Measurement, MeasurementStatus
from app.embeddings import comparison
from app.embeddings.comparison import EmbeddingComparison, Pairing, subtract_baseline, suggest_order
from isotropy.catalog import MEASURES
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
    assert comparison.make_names_distinct(names) == ["a", "a (2)", "a (3)", "b", "a (4)"]


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
    compared_layers = EmbeddingComparison(layers)
    assert (compared_layers.are_layers, compared_layers.is_ordered, compared_layers.axis) == (True, True, "Layer")
    assert compared_layers.labels == ["12", "0"]
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


PARTS = [0.01, -0.02, 0.005, 0.01, -0.01, 0.02, -0.005, -0.01, 0.01, -0.01]


def half_width(blocks):
    return t_quantile(0.05, block_degrees(blocks))


def measured(measure, value, parts=PARTS, n=400, at=None, **columns):
    resampled = None if parts is None else {"parts": parts, "at": at or {}}
    status = MeasurementStatus.OK
    return Measurement(measure=measure, status=status, value=value, resampled=resampled, n=n, **columns)


def test_independent_samples_add_their_errors():
    mean_difference = subtract_baseline(measured("mean_cosine", 0.5, n=900), measured("mean_cosine", 0.4))
    se = hypot(*PARTS, *PARTS)
    assert (mean_difference.value, mean_difference.se) == pytest.approx((0.1, se))
    half = half_width(10) * se
    assert (mean_difference.low, mean_difference.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert (mean_difference.paired, mean_difference.n, mean_difference.reason) == (False, None, "")
    estimate = measured("isoscore_unbiased", 0.5)
    half = half_width(10) * hypot(*PARTS)
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert (measured("isoscore", 0.5).low, measured("effective_rank", 5.0).high) == (None, None)


def test_same_rows_are_compared_block_by_block():
    other_parts = [part + 0.001 * (-1) ** i for i, part in enumerate(PARTS)]
    result = subtract_baseline(measured("mean_cosine", 0.5, other_parts), measured("mean_cosine", 0.4), same_rows=True)
    assert result.se == pytest.approx(0.001 * 10**0.5)
    assert (result.paired, result.excludes_zero) == (True, True)
    result = subtract_baseline(measured("mean_cosine", 0.5, PARTS[:5]), measured("mean_cosine", 0.4), same_rows=True)
    assert not result.paired
    assert result.high - result.value == pytest.approx(half_width(5) * result.se)


@pytest.mark.parametrize("slug", ["isoscore", "isoscore_star", "participation_ratio"])
def test_biased_measure_has_no_interval_and_names_corrected_one(slug):
    result = subtract_baseline(measured(slug, 0.5), measured(slug, 0.4))
    assert (result.se, result.low, result.high, result.excludes_zero) == (None,) * 4
    assert MEASURES[MEASURES[slug].corrected].name in result.reason


def test_size_dependent_measures_are_compared_at_equal_n():
    assert subtract_baseline(measured("effective_rank", 5.0), measured("effective_rank", 4.0)).excludes_zero is True
    result = subtract_baseline(measured("effective_rank", 5.0, n=500), measured("effective_rank", 4.0))
    assert result.excludes_zero is None
    assert "500 and 400" in result.reason
    at_many = {"500": {"value": 7.0, "parts": PARTS}, "1000": {"value": 8.0, "parts": PARTS}}
    at_few = {"500": {"value": 6.5, "parts": PARTS}}
    result = subtract_baseline(measured("twonn", 9.0, n=1200, at=at_many), measured("twonn", 6.6, n=520, at=at_few))
    assert (result.value, result.n) == (0.5, 500)
    assert result.excludes_zero is True
    same = subtract_baseline(measured("twonn", 9.0, n=1200, at=at_many), measured("twonn", 8.0, n=1200, at=at_many))
    assert (same.value, same.n) == (1.0, None)


@pytest.mark.parametrize(
    ("slug", "first", "second"),
    [("mean_cosine", 5e-12, -3.33e-11), ("isoscore_unbiased", 0.5, 0.5 + 1e-9), ("spectrum", 1e9, 1e9 + 1)],
)
def test_rounding_error_is_not_a_difference(slug, first, second):
    result = subtract_baseline(measured(slug, first), measured(slug, second))
    assert (result.value, result.excludes_zero) == (0, None)
    assert "rounding" in result.reason


def test_missing_standard_errors_give_a_reason():
    former = measured("mean_cosine", 0.4, None, se=0.01)
    assert subtract_baseline(measured("mean_cosine", 0.5), former).reason == comparison.MEASURED_EARLIER
    result = subtract_baseline(measured("mean_cosine", 0.5, []), measured("mean_cosine", 0.4))
    assert "no standard error" in result.reason
    assert "no error estimate" in subtract_baseline(measured("hubness", 0.5), measured("hubness", 0.4)).reason


@pytest.mark.parametrize("slug", ["hubness", "levina_bickel"])
def test_values_of_different_similarities_are_not_compared(slug):
    former = measured(slug, 0.4)  # stored by an earlier version: Euclidean distances only
    result = subtract_baseline(measured(slug, 0.5, detail={"similarity": "cosine"}), former)
    assert (result.value, result.se) == (pytest.approx(0.1), None)
    reason = "Measured by cosine, the baseline by Euclidean distance. Measure both by the same similarity."
    assert result.reason == reason
    same = subtract_baseline(measured(slug, 0.5, detail={"similarity": "euclidean"}), former)
    assert "Measured by" not in same.reason


def test_catalog_states_how_every_measure_is_compared():
    assert {measure.compared for measure in MEASURES.values()} == {"never", "at equal n", "at any n"}
    for measure in MEASURES.values():
        assert not measure.corrected or (measure.error == "none" and MEASURES[measure.corrected].error == "population")
        assert measure.error != "sample" or measure.bias


DEALT = {"by": "rows", "groups": 400, "blocks": "b"}


def cloud(id="1", **columns):  # noqa: A002 - the name of the column
    return embedding(id=id, **({"independent": DEALT} | columns))


def names(in_order, in_any_order="s"):
    return {"independent": DEALT | {"names": in_order, "names_in_any_order": in_any_order}}


def files(content):
    return [EmbeddingFile(position=0, filename="a.npy", file_sha256=content)]


@pytest.mark.parametrize(
    ("columns", "other_columns", "expected"),
    [
        ({}, {}, Pairing.INDEPENDENT),
        ({"source_id": "1"}, {}, Pairing.PAIRED),
        ({"source_id": "9"}, {"source_id": "9"}, Pairing.PAIRED),
        ({"encoding_id": "e"}, {"encoding_id": "e"}, Pairing.PAIRED),
        (names("x"), names("x"), Pairing.PAIRED),
        (names("x"), names("y"), Pairing.OTHER_ORDER),
        (names("x", "s"), names("y", "t"), Pairing.INDEPENDENT),
        (names("x") | {"n": 500}, names("x"), Pairing.INDEPENDENT),
        ({"source_id": "1", "n_left_out": 3}, {}, Pairing.OTHER_BLOCKS),
        ({"source_id": "1", "independent": DEALT | {"blocks": "c"}}, {}, Pairing.OTHER_BLOCKS),
        ({"source_id": "1", "independent": None}, {}, Pairing.UNKNOWN_BLOCKS),
    ],
)
def test_rows_are_the_same_by_origin_or_name(columns, other_columns, expected):
    first, second = cloud("2", **columns), cloud("1", **other_columns)
    assert comparison.find_pairing(first, second, [second, first]) is expected


def test_rows_of_same_files_are_paired_unless_transposed():
    first, second = cloud("1", files=files("a")), cloud("2", files=files("a"))
    assert comparison.find_pairing(first, second, []) is Pairing.PAIRED
    second.selection = {"vectors": "", "transpose": True}
    assert comparison.find_pairing(first, second, []) is Pairing.INDEPENDENT
    assert comparison.find_pairing(first, cloud("3", files=files("b")), []) is Pairing.INDEPENDENT
