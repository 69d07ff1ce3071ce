import numpy as np
import pytest

from app.db.models import Embedding, FigureData, Measurement
from app.embeddings.headline import Headline, Sentence, write_headline
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES
from isotropy.cloud import read_cloud
from isotropy.findings import findings_of
from isotropy.report import measure
from isotropy.rows import Rows

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
    embedding = embedding_of(gaussian(500, 6))
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
    rows = [
        Measurement(measure="participation_ratio", value=1.0, n=100),
        Measurement(measure="activation_profile", value=1.0, n=100, detail=profile),
    ]
    title, _ = plain(write_headline(Embedding(n=100, d=10, measurements=rows)))
    assert title == "The variance fills about 1.0 of 10 dimensions; 1 of 10 dimensions carries 100% of the variance."


def test_every_number_links_a_measure():
    headline = write_headline(embedding_of(gaussian(64, 256) + 1))
    parts = [part for sentence in (headline.title, *headline.sentences) for part in sentence]
    assert all(part.measure in MEASURES for part in parts if any(letter.isdigit() for letter in part.text))
