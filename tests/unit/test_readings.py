import numpy as np
import pytest

from app.db.models import Embedding, FigureData, Measurement
from app.embeddings.headline import Headline, Sentence, write_headline
from app.embeddings.lookups import NamedNeighbor, read_neighbors
from app.embeddings.readings import group_items, group_readings, list_headlines, list_readings, tabulate_readings
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES
from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.report import measure
from isotropy.rows import Rows

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
    slugs = [tuple(reading.measure.slug for reading in family) for family in readings]
    assert slugs == [("mean_cosine", "mean_share", "cosine_histogram"), ("partition_log",)]
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


# Slow measures that no sentence reads.
UNREAD = {"barcode", "cosine_histogram", "hubness", "prominent_bars", "uniformity"}


def embedding_of(x: np.ndarray) -> Embedding:
    cloud = read_cloud(Rows(x))
    rows = [
        Measurement(measure=slug, value=score.value, se=score.se, reason=score.reason, n=result.n, detail=result.detail)
        for slug, result in measure(cloud, MEASURES.keys() - UNREAD).items() for score in [result.score]
    ]  # fmt: skip
    findings = FigureData(slug="findings", data={"findings": [finding.to_dict() for finding in findings_of(cloud)]})
    return Embedding(n=len(x), d=x.shape[1], n_left_out=None, measurements=rows, findings_data=findings)


def headline_text(x: np.ndarray) -> tuple[str, list[str]]:
    return plain(write_headline(embedding_of(x)))


def text_of(sentence: Sentence) -> str:
    return "".join(part.text for part in sentence)


def plain(headline: Headline) -> tuple[str, list[str]]:
    title, *sentences = (text_of(sentence).replace("\u00a0", " ") for sentence in (headline.title, *headline.sentences))
    return title, sentences


def gaussian(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.slow
def test_isotropic_cloud_fills_its_space():
    title, sentences = headline_text(gaussian(2000, 6))
    assert title == "The variance fills about 6.0 of 6 dimensions; half of the variance lies in 3 of 6 directions."
    assert sentences == [
        "The mean carries less than 0.1% of the energy; two random rows have a cosine of 0.00 on average.",
        "Locally the cloud looks about 6-dimensional.",
    ]


@pytest.mark.slow
def test_line_has_one_direction_and_shift_reports_mean_share():
    x = gaussian(200, 1) @ np.ones((1, 50)) + np.linspace(0, 10, 50)
    title, sentences = headline_text(x)
    assert title == "The variance fills about 1.0 of 50 dimensions; one direction carries 100% of the variance."
    assert sentences[-1] == "Locally the cloud looks about 1-dimensional."
    x = gaussian(2000, 20) + np.sqrt(2 / 3)
    title, sentences = headline_text(x)
    assert title.startswith("The variance fills about 20 of 20 dimensions; half of the variance lies in ")
    sentence = "The mean carries 40% of the energy, which is why two random rows have a cosine of 0.40 on average."
    assert sentences[0] == sentence


@pytest.mark.slow
def test_rogue_dimension_is_named():
    x = gaussian(2000, 100)
    x[:, 7] = 30 * x[:, 7] + 60
    title, sentences = headline_text(x)
    share = x[:, 7].var() / x.var(axis=0).sum()
    carried = f"1 of 100 dimensions carries {100 * share:.0f}% of the variance"
    assert title == f"The variance fills about 1.2 of 100 dimensions; {carried}."
    assert "; dimension 7 adds 0." in sentences[0]
    assert sentences[0].endswith(" to this cosine.")


@pytest.mark.slow
def test_dimensions_that_carry_variance_are_counted():
    x = gaussian(1000, 100) * np.array([12.0] * 3 + [1.0] * 97)
    variances = x.var(axis=0)
    share = variances[:3].sum() / variances.sum()
    assert f"; 3 of 100 dimensions carry {100 * share:.0f}% of the variance." in headline_text(x)[0]
    x = gaussian(1000, 100) * np.array([2.5] + [1.0] * 99)
    spectrum = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    half = 1 + np.searchsorted(spectrum.cumsum(), spectrum.sum() / 2)
    assert headline_text(x)[0].endswith(f"; half of the variance lies in {half} of 100 directions.")


def test_fewer_rows_than_dimensions_bias_the_score():
    x = gaussian(64, 256)
    title, sentences = headline_text(x)
    measurements = {row.measure: row for row in embedding_of(x).measurements}
    plain_score, corrected = measurements["isoscore"], measurements["isoscore_unbiased"]
    # Half of the sample variance lies in a tenth of the directions, which says nothing about the population.
    used = measurements["participation_ratio_unbiased"].value
    assert title == f"The variance fills about {used:.0f} of 256 dimensions."
    assert sentences[0] == (
        f"There are fewer rows than dimensions: plain IsoScore, {plain_score.value:.3f}, is biased low; "
        f"the bias-corrected score is {corrected.value:.3g} (SE {corrected.se:.2g})."
    )
    assert corrected.value == pytest.approx(1, abs=0.15)


@pytest.mark.slow
def test_few_rows_are_reported_if_correction_matters():
    _, sentences = headline_text(gaussian(300, 100))
    assert sentences[0].startswith("300 rows are few for 100 dimensions: plain IsoScore, 0.7")
    assert not any("few" in sentence for sentence in headline_text(gaussian(3000, 10))[1])
    _, sentences = headline_text(gaussian(6, 10))
    assert sentences[0].endswith(" and the dimensions used are biased low.")
    _, sentences = headline_text(gaussian(1000, 100))
    assert sentences[-1].endswith(". The true value is probably higher: such estimates tend to be low.")


@pytest.mark.slow
def test_outlier_rows_replace_filled_dimensions_in_title():
    x = gaussian(1200, 64) * np.arange(1, 65) ** -0.5
    rows = [3, 17, 400, 801, 1100]
    x[rows] = 20 * gaussian(5, 64)[:, ::-1] * np.arange(1, 65) ** -0.5
    x[rows, 0] += 60
    embedding = embedding_of(x)
    (finding,) = (finding for finding in embedding.findings if finding["slug"] == "outlier_rows")
    effect = finding["effect"]
    title, sentences = plain(write_headline(embedding))
    assert title.startswith(f"{finding['title']}: rows 3, 17, 400, 801, 1100. Without them ")
    assert effect["before"] is None or title.endswith(f" instead of {number(effect['before'])}.")
    assert not any("few" in sentence for sentence in sentences)
    x = gaussian(600, 32)
    x[[57, 203, 404, 511]] *= 15
    title, sentences = headline_text(x)
    assert "rows 57, 203, 404, 511" in title
    assert not any("The variance fills" in sentence for sentence in sentences)
    assert sentences[0].startswith("With them, half of the variance lies in ")


def test_single_outlier_is_named_and_many_are_counted():
    effect = {"measure": "isoscore_unbiased", "before": None, "before_se": None, "after": 0.5, "after_se": 0.01}
    finding = {"slug": "outlier_rows", "severity": "warning", "row_count": 1, "effect": effect}
    finding |= {"title": "1 row holds 60% of the variance"}
    embedding = embedding_of(gaussian(100, 4))
    embedding.findings_data.data = {"findings": [finding | {"rows": [7], "names": ["the"]}]}
    assert plain(write_headline(embedding))[0] == (
        "1 row holds 60% of the variance: row 7 (the). "
        "Without it bias-corrected IsoScore is 0.500 (SE 0.010) instead of undefined."
    )
    embedding.findings_data.data = {"findings": [finding | {"rows": list(range(8)), "names": None, "row_count": 8}]}
    assert ": rows 0, 1, 2, 3, 4 and 3 more. Without them " in plain(write_headline(embedding))[0]
    embedding.findings_data.data = {"findings": [finding | {"severity": "note", "rows": [7], "names": None}]}
    assert "row 7" not in plain(write_headline(embedding))[0]


def test_title_reports_error_larger_than_score():
    embedding = embedding_of(gaussian(500, 20))
    score = next(row for row in embedding.measurements if row.measure == "isoscore_unbiased")
    score.value, score.se = 0.092, 0.22
    title, _ = plain(write_headline(embedding))
    assert title == "IsoScore is not determined: its error, 0.22, exceeds its value, 0.092."
    embedding = embedding_of(gaussian(300, 100))
    embedding.independent = {"by": "groups", "groups": 150}
    assert plain(write_headline(embedding))[1][0].startswith("150 independent rows are few for 100 dimensions: ")
    embedding.independent = {"by": "rows", "groups": 303}
    assert plain(write_headline(embedding))[1][0].startswith("300 rows are few for 100 dimensions: ")


def test_misfit_of_twonn_is_reported():
    embedding = embedding_of(gaussian(300, 6))
    twonn = next(row for row in embedding.measurements if row.measure == "twonn")
    goodness = {"fit_distance": 0.21, "fit_distance_by_chance": 0.06}
    twonn.detail = twonn.detail | {"parts": goodness}
    sentence = plain(write_headline(embedding))[1][-1]
    doubt = " Do not rely on this. TwoNN does not fit these rows: it is off by 21%, where chance allows 6.0%."
    assert sentence.endswith(doubt)
    twonn.detail = twonn.detail | {"parts": goodness | {"fit_distance": 0.05}}
    assert "does not fit" not in plain(write_headline(embedding))[1][-1]


def test_different_dimension_estimates_are_linked():
    embedding = embedding_of(gaussian(500, 16))
    measurements = {row.measure: row for row in embedding.measurements}
    low_to_high = "8- to 13-"
    for twonn, levina, words in ((8.2, 12.9, low_to_high), (12.9, 8.2, low_to_high), (8.2, 8.4, "8-"), (None, 3, "3-")):
        for slug, value in (("twonn", twonn), ("levina_bickel", levina), ("twonn_mle", None)):
            measurements[slug].value = value
        local = write_headline(embedding).sentences[-1]
        doubt = ", depending on the estimator" if " to " in words else ""
        assert text_of(local) == f"Locally the cloud looks about {words}dimensional{doubt}."
        linked = {part.measure: part.text for part in local if part.measure}
        if doubt:
            assert linked == {
                ("twonn" if twonn < levina else "levina_bickel"): "about 8-",
                ("levina_bickel" if twonn < levina else "twonn"): "13-dimensional",
            }
    measurements["twonn"].value = 25
    caution = ". Estimates above the number of dimensions, or of rows less one, are not reliable."
    assert plain(write_headline(embedding))[1][-1].endswith(caution)


def test_undefined_spread_states_reason():
    title, sentences = headline_text(np.ones((30, 4)))
    reason = next(row.reason for row in embedding_of(np.ones((30, 4))).measurements if row.measure == "isoscore")
    assert title == f"Isotropy cannot be measured. {reason}"
    (sentence,) = sentences
    assert sentence.startswith(
        "The mean carries 100% of the energy, which is why two random rows have a cosine of 1.00"
    )
    title, _ = headline_text(gaussian(100, 1))
    assert title == "Isotropy cannot be measured. Isotropy compares dimensions, and there is only one."
    rows = [Measurement(measure="participation_ratio", value=3.0, n=100)]
    headline = write_headline(Embedding(n=100, d=12, measurements=rows))
    assert plain(headline) == ("The variance fills about 3.0 of 12 dimensions.", [])
    title, _ = plain(write_headline(Embedding(n=100, d=12, measurements=[])))
    assert title == "Isotropy cannot be measured. It was not measured."


def test_huge_deviations_do_not_overflow():
    profile = {"std": [1e200, *[1e190] * 9], "mean": [0.0] * 10, "outliers": []}
    dimensions = Measurement(measure="participation_ratio", value=1.0, n=100)
    rows = [dimensions, Measurement(measure="activation_profile", value=1.0, n=100, detail=profile)]
    title, _ = plain(write_headline(Embedding(n=100, d=10, measurements=rows)))
    assert title == "The variance fills about 1.0 of 10 dimensions; 1 of 10 dimensions carries 100% of the variance."


def test_every_number_links_a_measure():
    headline = write_headline(embedding_of(gaussian(64, 256) + 1))
    parts = [part for sentence in (headline.title, *headline.sentences) for part in sentence]
    assert all(part.measure in MEASURES for part in parts if any(letter.isdigit() for letter in part.text))


def lists_of(name, before, after):
    return {
        "name": name,
        "before": [{"name": neighbor, "cosine": 0.5} for neighbor in before],
        "after": [{"name": neighbor, "cosine": 0.25} for neighbor in after],
    }


DATA = {
    "k": 2, "rows": 8000, "method": "all_but_the_top", "parameters": {"D": 3, "seed": None},
    "of": [lists_of("king", ["queen", "prince"], ["queen", "lord"]), lists_of("run", ["ran"], ["jog", "ran"])],
}  # fmt: skip


def test_unknown_name_selects_first_row():
    neighbors = read_neighbors(DATA, None)
    assert (neighbors.chosen, neighbors.unknown, neighbors.names, neighbors.rows) == ("king", "", ["king", "run"], 8000)
    assert neighbors.before == [NamedNeighbor("queen", 0.5), NamedNeighbor("prince", 0.5)]
    assert (neighbors.kept_count, neighbors.names_before) == (1, {"queen", "prince"})
    assert (read_neighbors(DATA, "run").chosen, read_neighbors(DATA, "run").unknown) == ("run", "")
    assert (read_neighbors(DATA, "walk").chosen, read_neighbors(DATA, "walk").unknown) == ("king", "walk")


def test_lists_of_different_lengths_are_paired():
    ran_before, jog, ran_after = NamedNeighbor("ran", 0.5), NamedNeighbor("jog", 0.25), NamedNeighbor("ran", 0.25)
    assert read_neighbors(DATA, "run").pairs == [(ran_before, jog), (None, ran_after)]
    neighbors = read_neighbors(DATA | {"of": [lists_of("a", ["b"], []), lists_of("a", ["c"], [])]}, "a")
    assert (neighbors.names, neighbors.before) == (["a"], [NamedNeighbor("b", 0.5)])


def test_method_and_similarity_are_named():
    assert read_neighbors(DATA, None).method == "All-but-the-Top, D 3"
    assert read_neighbors(DATA | {"method": "former", "parameters": {}}, None).method == "former"
    assert read_neighbors(DATA | {"of": []}, "king") is None
    lookup = {"name": "king", "before": [{"name": "queen", "dot": 7.0}], "after": [{"name": "lord", "dot": 2.0}]}
    neighbors = read_neighbors(DATA | {"similarity": "dot", "of": [lookup]}, None)
    assert (neighbors.similarity, neighbors.before) == ("dot", [NamedNeighbor("queen", 7.0)])
    assert neighbors.after == [NamedNeighbor("lord", 2.0)]
