"""The numbers of a report, from rows as workers write them."""

import pytest

from app.db.models import Embedding, Measurement
from app.embeddings.readings import grouped, groups_of, headlines_of, readings_of, table_of
from isotropy.catalog import MEASURES

N, D = 50_000, 64


def embedding(*measurements, n_left_out=None):
    return Embedding(n=N, d=D, n_left_out=n_left_out, measurements=list(measurements))


def measured(measure, value=None, n=N, **columns):
    return Measurement(measure=measure, value=value, n=n, **columns)


def reading(*arguments, **columns):
    (only,) = readings_of(embedding(measured(*arguments, **columns)))
    return only


BY_LABEL = [
    {"label": "good", "value": 0.5, "n": 30_000, "reason": None},
    {"label": "bad", "value": 0.0, "n": 19_999, "reason": None},
    {"label": "rare", "value": None, "n": 1, "reason": "A covariance needs at least 2 points; there is 1."},
]


def test_all_that_was_measured_stands_in_the_catalogue_s_order_under_its_group():
    found = groups_of(embedding(*(measured(slug, 0.5) for slug in ("uniformity", "mean_cosine", "isoscore"))))
    assert {heading: [idea.reading.measure.slug for idea in ideas] for heading, ideas in found.items()} == {
        "Spread of the variance": ["isoscore"],
        "Mean, directions and dimensions": ["mean_cosine", "uniformity"],
    }


def test_variants_stand_under_that_of_which_they_are_and_alone_where_it_was_not_measured():
    slugs = ("mean_share", "cosine_histogram", "mean_cosine", "partition_log")
    (ideas,) = groups_of(embedding(*(measured(slug, 0.5) for slug in slugs))).values()
    assert [(idea.reading.measure.slug, [one.measure.slug for one in idea.variants]) for idea in ideas] == [
        ("mean_cosine", ["mean_share", "cosine_histogram"]),
        ("partition_log", []),
    ]


def test_what_is_of_a_measure_keeps_its_order_within_its_group():
    chosen = [MEASURES[slug] for slug in ("mean_share", "isoscore", "mean_cosine")]
    assert grouped(chosen, lambda measure: measure) == {
        "Spread of the variance": [MEASURES["isoscore"]],
        "Mean, directions and dimensions": [MEASURES["mean_share"], MEASURES["mean_cosine"]],
    }


def test_a_few_head_the_report_in_an_order_of_their_own():
    slugs = ("cosine_histogram", "twonn", "mean_cosine", "isoscore_unbiased")
    heads = headlines_of(embedding(*(measured(slug, 0.5) for slug in slugs)))
    assert [one.measure.slug for one in heads] == ["isoscore_unbiased", "mean_cosine", "twonn"]


def test_what_another_version_measured_is_left_out():
    assert readings_of(embedding(measured("former_measure", 0.5))) == []


@pytest.mark.parametrize(
    ("slug", "ends"),
    [("isoscore", (0, 1)), ("participation_ratio", (1, D)), ("mean_cosine", (-1 / 19_999, 1)), ("spectrum", None)],
)
def test_the_ends_of_a_range_are_those_for_the_rows_measured(slug, ends):
    assert reading(slug, 0.5, n=20_000).ends == ends


def test_rows_that_no_measure_sees_are_not_counted():
    (only,) = readings_of(embedding(measured("isoscore", 0.5), n_left_out=7))
    assert only.rows == N - 7


@pytest.mark.parametrize("slug", ["activation_profile", "prominent_bars"])
def test_what_counts_something_is_a_whole_number(slug):
    assert repr(reading(slug, 78.0).value) == "78"
    assert reading(slug, reason="There is no value.").value is None


def test_what_counts_nothing_stays_a_fraction_even_where_it_is_whole():
    assert repr(reading("participation_ratio", 3.0).value) == "3.0"


def test_where_the_ends_of_a_range_are_one_that_one_is_told():
    few = reading("participation_ratio", 1.0, n=2)
    assert (few.ends, few.range) == (None, "only 1 is possible")
    assert reading("twonn", 9.0).range == "above 0"


@pytest.mark.parametrize(
    ("slug", "words"),
    [
        ("isoscore_unbiased", "usually 0 to 1; estimates can fall outside"),
        ("hubness", "any number"),
        ("partition_log", "at most 0"),
        ("alpha_req", "at least 0"),
        ("barcode", "at least 0, in units of the points"),
    ],
)
def test_a_range_with_an_infinite_end_is_told_in_words(slug, words):
    assert reading(slug, 0.5).range == words


def test_of_what_is_undefined_the_range_is_that_of_the_catalogue():
    assert reading("silhouette", n=0, reason="The rows have no labels.").range == "[−1, 1]"


def test_values_are_listed_by_their_k():
    table = reading("anisotropy_raw", 0.4, detail={"values": [0.4, None]}).table
    assert (table.columns, table.rows) == (["k", "value"], [[1, 0.4], [2, None]])


def test_values_of_labels_are_listed_with_their_rows_and_reasons():
    table = reading("isoscore", 0.5, detail={"by_label": BY_LABEL}).table
    assert table.columns == ["label", "value", "n", "reason"]
    assert table.rows == [
        ["good", 0.5, 30_000, ""],
        ["bad", 0.0, 19_999, ""],
        ["rare", None, 1, "A covariance needs at least 2 points; there is 1."],
    ]
    defined = reading("isoscore", 0.5, detail={"by_label": BY_LABEL[:2]}).table
    assert (defined.columns, defined.rows[1]) == (["label", "value", "n"], ["bad", 0.0, 19_999])


def test_labels_that_were_also_scored_without_bias_have_a_column_for_it():
    scored = [one | {"unbiased": unbiased} for one, unbiased in zip(BY_LABEL, (0.75, 0.125, None), strict=True)]
    table = reading("isoscore_by_label", 0.25, detail={"by_label": scored}).table
    assert table.columns == ["label", "value", "unbiased", "n", "reason"]
    assert table.rows == [
        ["good", 0.5, 0.75, 30_000, ""],
        ["bad", 0.0, 0.125, 19_999, ""],
        ["rare", None, None, 1, "A covariance needs at least 2 points; there is 1."],
    ]


def test_dimensions_are_listed_by_their_number():
    detail = {"dimensions": [{"dimension": 0, "value": 0.25}, {"dimension": 63, "value": 0.125}]}
    table = reading("rogue_dimensions", 0.25, detail=detail).table
    assert (table.columns, table.rows) == (["dimension", "value"], [[0, 0.25], [63, 0.125]])


def test_parts_are_listed_by_their_name():
    detail = {"k": 10, "parts": {"robin_hood": 0.25, "antihubs": None, "greatest": 57.0}}
    table = reading("hubness", 3.0, detail=detail).table
    assert table.columns == ["part", "value"]
    assert repr(table.rows) == "[['robin hood', 0.25], ['antihubs', None], ['greatest', 57]]"


def test_the_gaussian_beside_prominent_bars_is_a_count():
    table = reading("prominent_bars", 40.0, detail={"parts": {"gaussian_of_the_same_size": 36.0}}).table
    assert repr(table.rows) == "[['gaussian of the same size', 36]]"


def test_the_card_of_the_intrinsic_dimension_leads_with_the_range_of_its_estimators():
    measurements = [measured("twonn", 9.0), measured("twonn_mle", 8.5), measured("levina_bickel", 11.0)]
    (card,) = headlines_of(embedding(*measurements))
    assert card.across == (8.5, 11.0)
    assert card.estimates == (("TwoNN", 9.0), ("TwoNN by likelihood", 8.5), ("Levina–Bickel", 11.0))
    (alone,) = headlines_of(embedding(measured("twonn", 9.0)))
    assert alone.across is None


def test_what_has_one_value_lists_nothing():
    assert reading("isoscore", 0.5).items == []
    assert reading("spectrum", 3.0, detail={"eigenvalues": [3.0]}).items == []


def test_the_table_has_every_measurement_and_its_items_below_it():
    rows = [
        measured("isoscore", reason="The covariance is zero: all points are equal."),
        measured("isoscore_star", 0.5, se=0.01, detail={"by_label": [BY_LABEL[1] | {"unbiased": 0.125}, BY_LABEL[2]]}),
        measured("anisotropy_raw", 0.4, n=20_000, detail={"values": [0.4, 0.1]}),
        measured("rogue_dimensions", 0.25, detail={"dimensions": [{"dimension": 7, "value": 0.25}]}),
        measured("hubness", 3.0, n=20_000, detail={"parts": {"robin_hood": 0.25, "antihubs": None}}),
    ]
    assert table_of(embedding(*rows)).csv().splitlines() == [
        "measure,item,value,unbiased,se,low,high,n,reason",
        "isoscore,,,,,,,50000,The covariance is zero: all points are equal.",
        "isoscore_star,,0.5,,0.01,,,50000,",
        "isoscore_star,bad,0.0,0.125,,,,19999,",
        "isoscore_star,rare,,,,,,1,A covariance needs at least 2 points; there is 1.",
        "anisotropy_raw,,0.4,,,,,20000,",
        "anisotropy_raw,1,0.4,,,,,20000,",
        "anisotropy_raw,2,0.1,,,,,20000,",
        "rogue_dimensions,,0.25,,,,,50000,",
        "rogue_dimensions,7,0.25,,,,,50000,",
        "hubness,,3.0,,,,,20000,",
        "hubness,robin_hood,0.25,,,,,20000,",
        "hubness,antihubs,,,,,,20000,",
    ]
