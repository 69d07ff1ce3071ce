"""The headline of a report: a title and a few sentences, whose numbers are stored measurements."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from app.db.models import Embedding, Measurement
from isoscope.core.formatting import count, number, percent, two_decimals, with_se
from isotropy.catalog import MEASURES

Measurements = Mapping[str, Measurement]

# Multiple of the average variance from which a dimension stands out (Rudman et al. 2023).
OUTSTANDING_VARIANCE = 5
# Share of the variance that outstanding dimensions must carry to be mentioned.
MIN_CARRIED_SHARE = 0.1
# Effective dimensions from which their number is rounded to a whole one.
ROUNDED_DIMENSIONS = 9.95
# Mean cosine from which its cause is explained.
MIN_COSINE = 0.05
# Difference of the mean cosine from the mean's share of the energy up to which the share explains it.
COSINE_TOLERANCE, RELATIVE_TOLERANCE = 0.02, 0.1
# Bias of IsoScore from which it is mentioned.
MIN_BIAS = 0.05
MAX_LISTED_ROWS = 5
# Standard error of the participation ratio below which a score of about 0 is still determined.
MIN_DIMENSIONS_ERROR = 0.5
# Rows below which the bias-corrected IsoScore is too uncertain to report.
MIN_CORRECTED_ROWS = 8
# Fraction of the used dimensions that the rows must fill before their directions describe the cloud.
MIN_FILLED_DIMENSIONS = 0.75
# Distance between the rows and TwoNN's fit, as a fraction of the rows, up to which a misfit is not reported.
MAX_FIT_DISTANCE = 0.05
# Intrinsic dimension from which it is rounded to a whole number.
MIN_ROUNDED_DIMENSION = 0.9
# Intrinsic dimension above which estimates from neighbors are visibly low (Facco et al. 2017).
UNDERESTIMATED_DIMENSION = 20


class SentencePart(NamedTuple):
    """Words of a sentence, and the slug of the measure that they report, if any."""

    text: str
    measure: str = ""


Sentence = list[SentencePart]
"""Its parts in order; empty if there is nothing to say."""


class Headline(NamedTuple):
    """A title, and the sentences below it."""

    title: Sentence
    sentences: list[Sentence]


def write_headline(embedding: Embedding) -> Headline:
    """Summarize an embedding's measurements. If isotropy is undefined, say why. Leave out other undefined measures."""
    measurements = {measurement.measure: measurement for measurement in embedding.measurements}
    n, d = embedding.n_measured, embedding.d or 0
    n_independent = min((embedding.independent or {}).get("groups", n), n)  # earlier versions counted rows left out
    outliers = [
        _describe_outliers(finding)
        for finding in embedding.findings
        if finding["slug"] == "outlier_rows" and finding["severity"] != "note"
    ]
    sentences = (
        _write_title(measurements, n, d, bool(outliers)),
        _describe_few_rows(measurements, n, n_independent, d),
        _describe_mean(measurements),
        _describe_intrinsic_dimension(measurements, n, d),
    )
    # Outliers distort the numbers, so they come first, as the title.
    ordered = [*outliers, *filter(None, sentences)]
    return Headline(ordered[0], ordered[1:])


def _write_title(measurements: Measurements, n: int, d: int, has_outliers: bool) -> Sentence:
    """Say how many dimensions the variance fills, or why that is unknown; with outliers, only where it concentrates."""
    slug = "participation_ratio"
    plain_ratio = ratio = _get_value(measurements, slug)
    corrected_ratio = _get_value(measurements, "participation_ratio_unbiased")
    if ratio is not None and corrected_ratio is not None and n >= MIN_CORRECTED_ROWS:
        ratio, slug = min(max(corrected_ratio, 1.0), d), "participation_ratio_unbiased"
    if plain_ratio is None or ratio is None or d < 2:
        reason = measurements["participation_ratio"].reason if "participation_ratio" in measurements else None
        default = "Isotropy compares dimensions, and there is only one." if d < 2 else "It was not measured."
        return [
            SentencePart("Isotropy", "participation_ratio"),
            SentencePart(f" cannot be measured. {reason or default}"),
        ]
    score = measurements.get("isoscore_unbiased")
    if (
        n >= MIN_CORRECTED_ROWS
        and score is not None
        and score.value is not None
        and score.se is not None
        and score.se > max(abs(score.value), MIN_DIMENSIONS_ERROR / (d - 1))
    ):
        comparison = f"its error, {number(score.se, 2)}, exceeds its value, {number(score.value, 2)}"
        return [
            SentencePart("IsoScore is not determined: "),
            SentencePart(comparison, "isoscore_unbiased"),
            SentencePart("."),
        ]
    concentration = _describe_main_dimensions(measurements)
    if not concentration and (has_outliers or plain_ratio >= MIN_FILLED_DIMENSIONS * ratio):
        concentration = _describe_main_directions(measurements, d)
    if has_outliers:
        return [SentencePart("With them, "), *concentration, SentencePart(".")] if concentration else []
    effective = number(ratio, 2) if ratio < ROUNDED_DIMENSIONS else count(round(ratio))
    filled = SentencePart(f"The variance fills about {effective} of {count(d)} dimensions", slug)
    return [filled, *([SentencePart("; "), *concentration] if concentration else []), SentencePart(".")]


def _describe_main_dimensions(measurements: Measurements) -> Sentence:
    std = _get_detail_list(measurements, "activation_profile", "std")
    largest = max(std, default=0.0)
    if largest == 0:
        return []
    # Relative to the largest, so that squares neither overflow nor vanish.
    variances = [(deviation / largest) ** 2 for deviation in std]
    total = sum(variances)
    outstanding = [variance for variance in variances if variance >= OUTSTANDING_VARIANCE * total / len(variances)]
    share = sum(outstanding) / total
    if share < MIN_CARRIED_SHARE:
        return []
    verb = "carries" if len(outstanding) == 1 else "carry"
    dimensions = f"{count(len(outstanding))} of {count(len(std))} dimensions"
    return [SentencePart(f"{dimensions} {verb} {percent(share)} of the variance", "activation_profile")]


def _describe_main_directions(measurements: Measurements, d: int) -> Sentence:
    eigenvalues = _get_detail_list(measurements, "spectrum", "eigenvalues")
    total = sum(eigenvalues)
    n_half = next((n for n, cumulated in enumerate(accumulate(eigenvalues), 1) if cumulated >= total / 2 > 0), None)
    if n_half is None:
        return []
    if n_half == 1:
        return [SentencePart(f"one direction carries {percent(eigenvalues[0] / total)} of the variance", "spectrum")]
    return [SentencePart(f"half of the variance lies in {count(n_half)} of {count(d)} directions", "spectrum")]


def _describe_outliers(finding: Mapping[str, Any]) -> Sentence:
    names = finding["names"] or [""] * len(finding["rows"])
    rows = [f"{row} ({name})" if name else f"{row}" for row, name in zip(finding["rows"], names, strict=True)]
    unlisted = finding["row_count"] - min(len(rows), MAX_LISTED_ROWS)
    listed = ", ".join(rows[:MAX_LISTED_ROWS]) + (f" and {count(unlisted)} more" if unlisted else "")
    noun, pronoun = ("row", "it") if finding["row_count"] == 1 else ("rows", "them")
    effect = finding["effect"]
    kind = "plain" if effect["measure"] == "isoscore" else "bias-corrected"
    after = with_se(effect["after"], effect["after_se"])
    before = "undefined" if effect["before"] is None else number(effect["before"])
    return [
        SentencePart(f"{finding['title']}: {noun} {listed}. Without {pronoun} "),
        SentencePart(f"{kind} IsoScore is {after} instead of {before}", effect["measure"]),
        SentencePart("."),
    ]


def _describe_few_rows(measurements: Measurements, n: int, n_independent: int, d: int) -> Sentence:
    """Say that plain IsoScore is biased by few rows, if it is."""
    plain, corrected = (_get_value(measurements, slug) for slug in ("isoscore", "isoscore_unbiased"))
    if plain is None:
        return []
    is_correctable = corrected is not None and n >= MIN_CORRECTED_ROWS
    bias = 0.0
    if is_correctable and corrected is not None and d > 1:
        # For a Gaussian cloud, n rows raise 1 / (participation ratio) by about 1 / n.
        ratio = 1 + (d - 1) * min(max(corrected, 0.0), 1.0)
        bias = min(corrected - plain, ratio * ratio / (n_independent + ratio) / (d - 1))
    if n >= d and bias <= MIN_BIAS:
        return []
    rows = f"{count(n)} rows" if n_independent == n else f"{count(n_independent)} independent rows"
    comparison = "There are fewer rows than dimensions" if n < d else f"{rows} are few for {count(d)} dimensions"
    opening = [SentencePart(f"{comparison}: "), SentencePart(f"plain IsoScore, {number(plain)},", "isoscore")]
    if not is_correctable:
        return [*opening, SentencePart(" and the dimensions used are biased low.")]
    score = measurements["isoscore_unbiased"]
    return [
        *opening,
        SentencePart(" is biased low; "),
        SentencePart(f"the bias-corrected score is {with_se(corrected, score.se)}", "isoscore_unbiased"),
        SentencePart("."),
    ]


def _describe_mean(measurements: Measurements) -> Sentence:
    share, cosine = (_get_value(measurements, slug) for slug in ("mean_share", "mean_cosine"))
    if share is None or cosine is None:
        return []
    # For rows of equal norm, the mean cosine is about the mean's share of the energy.
    is_explained = cosine >= MIN_COSINE and abs(cosine - share) <= COSINE_TOLERANCE + RELATIVE_TOLERANCE * cosine
    sentence = [
        SentencePart(f"The mean carries {percent(share)} of the energy", "mean_share"),
        SentencePart(", which is why " if is_explained else "; "),
        SentencePart(f"two random rows have a cosine of {two_decimals(cosine)}", "mean_cosine"),
        SentencePart(" on average"),
    ]
    contribution = _get_value(measurements, "rogue_dimensions")
    dimensions = _get_detail_list(measurements, "rogue_dimensions", "dimensions")
    if contribution is not None and dimensions and cosine >= MIN_COSINE and contribution >= cosine / 2:
        rogue_words = f"dimension {dimensions[0]['dimension']} adds {two_decimals(contribution)} to this cosine"
        sentence += [SentencePart("; "), SentencePart(rogue_words, "rogue_dimensions")]
    return [*sentence, SentencePart(".")]


def _describe_intrinsic_dimension(measurements: Measurements, n: int, d: int) -> Sentence:
    """Describe the smallest and the largest estimate of the intrinsic dimension, or one value if they agree."""
    slugs = [slug for slug, measure in MEASURES.items() if "twonn" in (slug, measure.listed_with)]
    estimates = [(value, slug) for slug in slugs if (value := _get_value(measurements, slug)) is not None]
    if not estimates:
        return []
    (low, low_slug), (high, high_slug) = min(estimates), max(estimates)
    low_text, high_text = (
        count(round(dimension)) if dimension >= MIN_ROUNDED_DIMENSION else number(dimension, 2)
        for dimension in (low, high)
    )
    dimension_parts = [SentencePart(f"about {low_text}-dimensional", estimates[0][1])]
    if low_text != high_text:
        dimension_parts = [
            SentencePart(f"about {low_text}-", low_slug),
            SentencePart(" to "),
            SentencePart(f"{high_text}-dimensional", high_slug),
            SentencePart(", depending on the estimator"),
        ]
    ending = "."
    if round(high) > min(n - 1, d):
        ending = ". Estimates above the number of dimensions, or of rows less one, are not reliable."
    elif high > UNDERESTIMATED_DIMENSION:
        ending = ". The true value is probably higher: such estimates tend to be low."
    sentence = [SentencePart("Locally the cloud looks "), *dimension_parts, SentencePart(ending)]
    goodness = (measurements["twonn"].detail or {}).get("parts", {}) if "twonn" in measurements else {}
    distance, chance_distance = goodness.get("fit_distance"), goodness.get("fit_distance_by_chance")
    if distance is not None and chance_distance is not None and distance > max(chance_distance, MAX_FIT_DISTANCE):
        misfit = f"TwoNN does not fit these rows: it is off by {percent(distance)}, where chance allows"
        sentence += [
            SentencePart(" Do not rely on this. "),
            SentencePart(f"{misfit} {percent(chance_distance)}", "twonn"),
            SentencePart("."),
        ]
    return sentence


def _get_value(measurements: Measurements, slug: str) -> float | None:
    return measurements[slug].value if slug in measurements else None


def _get_detail_list(measurements: Measurements, slug: str, name: str) -> Sequence[Any]:
    return (measurements[slug].detail or {}).get(name, []) if slug in measurements else []
