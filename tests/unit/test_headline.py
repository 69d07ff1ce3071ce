"""The words that head a report, of clouds whose shape is known."""

import numpy as np
import pytest

from app.db.models import Embedding, FigureData, Measurement
from app.embeddings.headline import Headline, Sentence, headline_of
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES
from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.report import measure
from isotropy.rows import Rows


def embedding_of(x: np.ndarray) -> Embedding:
    cloud = read_cloud(Rows(x))
    rows = [
        Measurement(
            measure=slug,
            value=one.score.value,
            se=one.score.se,
            reason=one.score.reason,
            n=one.n,
            detail=one.detail,
        )
        for slug, one in measure(cloud).items()
    ]
    found = FigureData(slug="findings", data={"findings": [one.document() for one in findings_of(cloud)]})
    return Embedding(n=len(x), d=x.shape[1], n_left_out=None, measurements=rows, found=found)


def said(x: np.ndarray) -> tuple[str, list[str]]:
    headline = headline_of(embedding_of(x))
    return plain(headline)


def text_of(sentence: Sentence) -> str:
    return "".join(part.text for part in sentence)


def plain(headline: Headline) -> tuple[str, list[str]]:
    title, *sentences = (text_of(one).replace("\u00a0", " ") for one in (headline.title, *headline.sentences))
    return title, sentences


def gaussian(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def test_an_isotropic_cloud_uses_its_space_and_half_of_its_variance_lies_in_about_half_of_the_directions():
    title, sentences = said(gaussian(2000, 6))
    assert title == "The variance fills about 6.0 of 6 dimensions; half of the variance lies in 3 of 6 directions."
    assert sentences == [
        "The mean carries less than 0.1% of the energy; two random rows have a cosine of 0.00 on average.",
        "Locally the cloud looks about 6-dimensional.",
    ]


def test_of_a_line_one_direction_carries_all():
    x = gaussian(200, 1) @ np.ones((1, 50))
    title, sentences = said(x)
    assert title == "The variance fills about 1.0 of 50 dimensions; one direction carries 100% of the variance."
    assert sentences[-1] == "Locally the cloud looks about 1-dimensional."


def test_a_shift_is_told_as_the_mean_s_share_and_as_the_cosine_it_makes():
    x = gaussian(2000, 20) + np.sqrt(2 / 3)
    title, sentences = said(x)
    assert title.startswith("The variance fills about 20 of 20 dimensions; half of the variance lies in ")
    assert sentences[0] == (
        "The mean carries 40% of the energy, which is why two random rows have a cosine of 0.40 on average."
    )


def test_one_rogue_dimension_is_counted_named_and_its_part_told():
    x = gaussian(2000, 100)
    x[:, 7] = 30 * x[:, 7] + 60
    title, sentences = said(x)
    share = x[:, 7].var() / x.var(axis=0).sum()
    carried = f"1 of 100 dimensions carries {100 * share:.0f}% of the variance"
    assert title == f"The variance fills about 1.2 of 100 dimensions; {carried}."
    assert "; dimension 7 alone adds 0." in sentences[0]
    assert sentences[0].endswith(" of it.")


@pytest.mark.slow
def test_several_dimensions_that_carry_most_are_counted():
    x = gaussian(3000, 300) * np.array([12.0] * 3 + [1.0] * 297)
    variances = x.var(axis=0)
    share = variances[:3].sum() / variances.sum()
    assert f"; 3 of 300 dimensions carry {100 * share:.0f}% of the variance." in said(x)[0]


@pytest.mark.slow
def test_dimensions_that_stand_out_but_carry_little_are_no_headline():
    title, _ = said(gaussian(3000, 300) * np.array([2.5] + [1.0] * 299))
    assert "; half of the variance lies in 1" in title
    assert title.endswith(" of 300 directions.")


def test_fewer_rows_than_dimensions_are_said_to_read_low_beside_what_corrects_it():
    x = gaussian(64, 256)
    title, sentences = said(x)
    found = {one.measure: one for one in embedding_of(x).measurements}
    plain_score, corrected = found["isoscore"], found["isoscore_unbiased"]
    # Half of the sample variance lies in a tenth of the directions, which says nothing about the population.
    assert title == f"The variance fills about {found['participation_ratio_unbiased'].value:.0f} of 256 dimensions."
    assert sentences[0] == (
        f"There are fewer rows than dimensions: plain IsoScore, {plain_score.value:.3f}, is biased low; "
        f"the bias-corrected score is {corrected.value:.3g} ± {corrected.se:.2g}."
    )
    assert corrected.value == pytest.approx(1, abs=0.15)


def test_few_rows_are_told_where_the_correction_matters():
    _, sentences = said(gaussian(300, 100))
    assert sentences[0].startswith("300 rows are few for 100 dimensions: plain IsoScore, 0.7")
    assert not any("few" in one for one in said(gaussian(3000, 10))[1])


def test_outlier_rows_are_named_and_never_told_as_few_rows():
    x = gaussian(1200, 64) * np.arange(1, 65) ** -0.5
    rows = [3, 17, 400, 801, 1100]
    x[rows] = 20 * gaussian(5, 64)[:, ::-1] * np.arange(1, 65) ** -0.5
    x[rows, 0] += 60
    embedding = embedding_of(x)
    (finding,) = (one for one in embedding.findings if one["slug"] == "outlier_rows")
    effect = finding["effect"]
    title, sentences = plain(headline_of(embedding))
    assert title.startswith(f"{finding['title']}: rows 3, 17, 400, 801, 1100. Without them ")
    assert effect["before"] is None or title.endswith(f" instead of {number(effect['before'])}.")
    assert not any("few" in one for one in sentences)


def test_one_outlier_with_a_name_is_told_by_it_and_more_than_five_are_counted():
    effect = {"measure": "isoscore_unbiased", "before": None, "before_se": None, "after": 0.5, "after_se": 0.01}
    finding = {"slug": "outlier_rows", "severity": "warning", "row_count": 1, "effect": effect}
    finding |= {"title": "1 row holds 60% of the variance"}
    embedding = embedding_of(gaussian(100, 4))
    embedding.found.data = {"findings": [finding | {"rows": [7], "names": ["the"]}]}
    assert plain(headline_of(embedding))[0] == (
        "1 row holds 60% of the variance: row 7 (the). "
        "Without it bias-corrected IsoScore is 0.500 ± 0.010 instead of undefined."
    )
    embedding.found.data = {"findings": [finding | {"rows": list(range(8)), "names": None, "row_count": 8}]}
    assert ": rows 0, 1, 2, 3, 4 and 3 more. Without them " in plain(headline_of(embedding))[0]
    embedding.found.data = {"findings": [finding | {"severity": "note", "rows": [7], "names": None}]}
    assert "row 7" not in plain(headline_of(embedding))[0]


def test_outlier_rows_let_no_share_of_the_space_be_told():
    x = gaussian(600, 32)
    x[[57, 203, 404, 511]] *= 15
    title, sentences = said(x)
    assert "rows 57, 203, 404, 511" in title
    assert not any("The variance fills" in one for one in sentences)
    assert sentences[0].startswith("With them, half of the variance lies in ")


def test_an_error_greater_than_its_value_is_the_title():
    embedding = embedding_of(gaussian(500, 20))
    score = next(one for one in embedding.measurements if one.measure == "isoscore_unbiased")
    score.value, score.se = 0.092, 0.22
    title, _ = plain(headline_of(embedding))
    assert title == "IsoScore is not determined: its error, 0.22, exceeds its value, 0.092."


def test_independent_rows_not_all_rows_are_few():
    embedding = embedding_of(gaussian(300, 100))
    embedding.independent = {"by": "groups", "groups": 150}
    assert plain(headline_of(embedding))[1][0].startswith("150 independent rows are few for 100 dimensions: ")


def test_rows_that_were_left_out_are_not_among_them():
    embedding = embedding_of(gaussian(300, 100))
    embedding.independent = {"by": "rows", "groups": 303}
    assert plain(headline_of(embedding))[1][0].startswith("300 rows are few for 100 dimensions: ")


def test_of_fewer_rows_than_eight_no_corrected_score_is_told():
    _, sentences = said(gaussian(6, 10))
    assert sentences[0].endswith(" and the dimensions used are biased low.")


def test_a_high_intrinsic_dimension_is_said_to_read_low():
    _, sentences = said(gaussian(1000, 100))
    assert sentences[-1].endswith(". The true value is probably higher: such estimates tend to be low.")


def test_a_fit_that_the_rows_refute_is_told():
    embedding = embedding_of(gaussian(300, 6))
    twonn = next(one for one in embedding.measurements if one.measure == "twonn")
    goodness = {"fit_distance": 0.21, "fit_distance_by_chance": 0.06}
    twonn.detail = twonn.detail | {"parts": goodness}
    told = plain(headline_of(embedding))[1][-1]
    assert told.endswith(
        " Do not rely on this. TwoNN does not fit these rows: it is off by 21%, where chance allows 6.0%."
    )
    twonn.detail = twonn.detail | {"parts": goodness | {"fit_distance": 0.05}}
    assert "does not fit" not in plain(headline_of(embedding))[1][-1]


def test_estimates_of_the_dimension_that_differ_are_both_told_and_linked():
    embedding = embedding_of(gaussian(500, 6))
    found = {one.measure: one for one in embedding.measurements}
    both = "8- to 13-"
    for twonn, levina, words in ((8.2, 12.9, both), (12.9, 8.2, both), (8.2, 8.4, "8-"), (None, 3.0, "3-")):
        found["twonn"].value, found["levina_bickel"].value, found["twonn_mle"].value = twonn, levina, None
        local = headline_of(embedding).sentences[-1]
        doubt = ", depending on the estimator" if " to " in words else ""
        assert text_of(local) == f"Locally the cloud looks about {words}dimensional{doubt}."
        linked = {part.measure: part.text for part in local if part.measure}
        if doubt:
            assert linked == {
                ("twonn" if twonn < levina else "levina_bickel"): "about 8-",
                ("levina_bickel" if twonn < levina else "twonn"): "13-dimensional",
            }


def test_what_is_undefined_claims_nothing_but_why_the_spread_is():
    title, sentences = said(np.ones((30, 4)))
    reason = next(one.reason for one in embedding_of(np.ones((30, 4))).measurements if one.measure == "isoscore")
    assert title == f"Isotropy cannot be measured. {reason}"
    assert sentences == [
        "The mean carries 100% of the energy, which is why two random rows have a cosine of 1.00 on average."
    ]


def test_of_one_dimension_no_spread_is_told():
    title, _ = said(gaussian(100, 1))
    assert title == "Isotropy cannot be measured. Isotropy compares dimensions, and there is only one."


def test_a_report_of_another_version_that_lacks_a_measure_is_read_without_it():
    rows = [Measurement(measure="participation_ratio", value=3.0, n=100)]
    headline = headline_of(Embedding(n=100, d=12, measurements=rows))
    assert plain(headline) == ("The variance fills about 3.0 of 12 dimensions.", [])
    title, _ = plain(headline_of(Embedding(n=100, d=12, measurements=[])))
    assert title == "Isotropy cannot be measured. It was not measured."


def test_values_too_large_to_be_squared_are_still_shared_out():
    profile = {"std": [1e200, *[1e190] * 9], "mean": [0.0] * 10, "outliers": []}
    rows = [
        Measurement(measure="participation_ratio", value=1.0, n=100),
        Measurement(measure="activation_profile", value=1.0, n=100, detail=profile),
    ]
    title, _ = plain(headline_of(Embedding(n=100, d=10, measurements=rows)))
    assert title == "The variance fills about 1.0 of 10 dimensions; 1 of 10 dimensions carries 100% of the variance."


def test_every_number_names_a_measure_of_the_catalogue():
    headline = headline_of(embedding_of(gaussian(64, 256) + 1))
    parts = [part for sentence in (headline.title, *headline.sentences) for part in sentence]
    assert all(part.measure in MEASURES for part in parts if any(letter.isdigit() for letter in part.text))
