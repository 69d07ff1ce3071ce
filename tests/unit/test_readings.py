import pytest

from app.db.models import Embedding, Measurement
from app.embeddings.readings import group_items, group_readings, list_headlines, list_readings, tabulate_readings
from isotropy.catalog import MEASURES

N, D = 50_000, 64
BY_LABEL = [
    {"label": "good", "value": 0.5, "n": 30_000, "reason": None},
    {"label": "bad", "value": 0.0, "n": 19_999, "reason": None},
    {"label": "rare", "value": None, "n": 1, "reason": "A covariance needs at least 2 points; there is 1."},
]


def embedding(*measurements, n_left_out=None):
    return Embedding(n=N, d=D, n_left_out=n_left_out, measurements=list(measurements))


def measured(measure, value=None, n=N, **columns):
    return Measurement(measure=measure, value=value, n=n, **columns)


def reading(*arguments, **columns):
    (reading,) = list_readings(embedding(measured(*arguments, **columns)))
    return reading


def embedding_with(*slugs):
    return embedding(*(measured(slug, 0.5) for slug in slugs))


def test_groups_follow_catalog_order_with_variants():
    groups = group_readings(embedding_with("uniformity", "mean_cosine", "isoscore"))
    assert {heading: [family.reading.measure.slug for family in families] for heading, families in groups.items()} == {
        "Spread of the variance": ["isoscore"],
        "Mean, directions and dimensions": ["mean_cosine", "uniformity"],
    }
    slugs = ("mean_share", "cosine_histogram", "mean_cosine", "partition_log")
    (families,) = group_readings(embedding_with(*slugs)).values()
    readings = [(family.reading, *family.variants) for family in families]
    assert [tuple(reading.measure.slug for reading in family) for family in readings] == [
        ("mean_cosine", "mean_share", "cosine_histogram"),
        ("partition_log",),
    ]
    measures = [MEASURES[slug] for slug in ("mean_share", "isoscore", "mean_cosine")]
    assert group_items(measures, lambda measure: measure) == {
        "Spread of the variance": [MEASURES["isoscore"]],
        "Mean, directions and dimensions": [MEASURES["mean_share"], MEASURES["mean_cosine"]],
    }
    assert list_readings(embedding_with("former_measure")) == []


def test_headlines_have_fixed_order():
    readings = list_headlines(embedding_with("cosine_histogram", "twonn", "mean_cosine", "isoscore_unbiased"))
    assert [reading.measure.slug for reading in readings] == ["isoscore_unbiased", "mean_cosine", "twonn"]


@pytest.mark.parametrize(
    ("slug", "ends"),
    [("isoscore", (0, 1)), ("participation_ratio", (1, D)), ("mean_cosine", (-1 / 19_999, 1)), ("spectrum", None)],
)
def test_range_ends_depend_on_rows(slug, ends):
    assert reading(slug, 0.5, n=20_000).ends == ends


def test_excluded_rows_are_not_counted_and_counts_are_integers():
    (isoscore,) = list_readings(embedding(measured("isoscore", 0.5), n_left_out=7))
    assert isoscore.rows == N - 7
    for slug in ("activation_profile", "prominent_bars"):
        assert repr(reading(slug, 78.0).value) == "78"
        assert reading(slug, reason="There is no value.").value is None
    assert repr(reading("participation_ratio", 3.0).value) == "3.0"


@pytest.mark.parametrize(
    ("slug", "words"),
    [
        ("isoscore_unbiased", "usually 0 to 1; estimates can fall outside"),
        ("hubness", "any number"),
        ("partition_log", "at most 0"),
        ("alpha_req", "at least 0"),
        ("barcode", "at least 0, in units of the points"),
        ("twonn", "above 0"),
    ],
)
def test_infinite_range_is_described_in_words(slug, words):
    assert reading(slug, 0.5).range == words


def test_range_of_two_rows_and_undefined_value():
    two_rows = reading("participation_ratio", 1.0, n=2)
    assert (two_rows.ends, two_rows.range) == (None, "only 1 is possible")
    assert reading("silhouette", n=0, reason="The rows have no labels.").range == "[−1, 1]"


RARE = ["rare", None, 1, "A covariance needs at least 2 points; there is 1."]


@pytest.mark.parametrize(
    ("slug", "detail", "columns", "rows"),
    [
        ("anisotropy_raw", {"values": [0.4, None]}, ["k", "value"], [[1, 0.4], [2, None]]),
        ("isoscore", {"by_label": BY_LABEL}, ["label", "value", "n", "reason"],
         [["good", 0.5, 30_000, ""], ["bad", 0.0, 19_999, ""], RARE]),
        ("isoscore", {"by_label": BY_LABEL[:2]}, ["label", "value", "n"],
         [["good", 0.5, 30_000], ["bad", 0.0, 19_999]]),
        ("isoscore_by_label", {"by_label": [BY_LABEL[0] | {"unbiased": 0.75}, BY_LABEL[2] | {"unbiased": None}]},
         ["label", "value", "unbiased", "n", "reason"],
         [["good", 0.5, 0.75, 30_000, ""], ["rare", None, None, *RARE[2:]]]),
        ("rogue_dimensions", {"dimensions": [{"dimension": 0, "value": 0.25}, {"dimension": 63, "value": 0.125}]},
         ["dimension", "value"], [[0, 0.25], [63, 0.125]]),
        ("hubness", {"k": 10, "parts": {"robin_hood": 0.25, "antihubs": None, "greatest": 57.0}}, ["part", "value"],
         [["robin hood", 0.25], ["antihubs", None], ["greatest", 57]]),
        ("prominent_bars", {"parts": {"gaussian_of_the_same_size": 36.0}}, ["part", "value"],
         [["gaussian of the same size", 36]]),
    ],
)  # fmt: skip
def test_items_form_a_table(slug, detail, columns, rows):
    table = reading(slug, 0.5, detail=detail).table
    assert (table.columns, repr(table.rows)) == (columns, repr(rows))


def test_intrinsic_dimension_card_shows_range_of_estimators():
    measurements = [measured("twonn", 9.0), measured("twonn_mle", 8.5), measured("levina_bickel", 11.0)]
    (card,) = list_headlines(embedding(*measurements))
    assert card.estimate_range == (8.5, 11.0)
    assert card.estimates == (("TwoNN", 9.0), ("TwoNN by likelihood", 8.5), ("Levina–Bickel", 11.0))
    (card,) = list_headlines(embedding(measured("twonn", 9.0)))
    assert card.estimate_range is None
    assert reading("isoscore", 0.5).items == []
    assert reading("spectrum", 3.0, detail={"eigenvalues": [3.0]}).items == []


def test_table_lists_items_below_their_measurement():
    rows = [
        measured("isoscore", reason="The covariance is zero: all points are equal."),
        measured("isoscore_star", 0.5, se=0.01, detail={"by_label": [BY_LABEL[1] | {"unbiased": 0.125}, BY_LABEL[2]]}),
        measured("anisotropy_raw", 0.4, n=20_000, detail={"values": [0.4, 0.1]}),
        measured("rogue_dimensions", 0.25, detail={"dimensions": [{"dimension": 7, "value": 0.25}]}),
        measured("hubness", 3.0, n=20_000, detail={"parts": {"robin_hood": 0.25, "antihubs": None}}),
    ]
    assert tabulate_readings(embedding(*rows)).csv().splitlines() == [
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
