"""What a report says in plain words: a headline and a few sentences, each number of them a stored measurement."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from app.db.models import Embedding, Measurement
from isoscope.core.formatting import count, number, percent, two_decimals, with_error
from isotropy.catalog import MEASURES

Found = Mapping[str, Measurement]

MANY_TIMES_ITS_SHARE = 5
"""A dimension of at least so many times the average variance stands out (Rudman et al. 2023)."""
LEAST_CARRIED = 0.1
"""Share of the variance below which dimensions that stand out are not news."""
MANY_DIMENSIONS = 9.95
"""Effective dimensions from which they are told as a whole number."""
LEAST_COSINE = 0.05
LEAST_BIAS = 0.05
LISTED_ROWS = 5
"""Outlier rows that the headline names."""
LEAST_DIMENSIONS = 0.5
"""Standard error of the participation ratio below which a score of about 0 is still determined."""
FEWEST_FOR_CORRECTION = 8
"""Rows below which the bias-corrected IsoScore may be anything."""
LEAST_SEEN = 0.75
"""Part of the dimensions that are used which rows show at least, if their directions are to tell of the cloud's."""
MISFIT = 0.05
"""Distance between the rows and TwoNN's fit, in shares of the rows, that is told if it is not by chance."""
READS_LOW_ABOVE = 20
"""Intrinsic dimensions above which estimates from neighbors fall visibly short (Facco et al. 2017)."""


class Part(NamedTuple):
    """Some words of a sentence, and the slug of the measure that they are read off, if of any."""

    text: str
    measure: str = ""


Sentence = list[Part]


class Headline(NamedTuple):
    """One line, and the sentences below it."""

    title: Sentence
    sentences: list[Sentence]


def headline_of(embedding: Embedding) -> Headline:
    """Say what was measured; of what is undefined nothing is said, but of the spread why."""
    found = {one.measure: one for one in embedding.measurements}
    n, d = embedding.n_measured, embedding.d or 0
    independent = min((embedding.independent or {}).get("groups", n), n)  # of all rows, those left out too
    outliers = [
        _outliers(one) for one in embedding.findings if one["slug"] == "outlier_rows" and one["severity"] != "note"
    ]
    sentences = (
        _title(found, n, d, bool(outliers)),
        _few_rows(found, n, independent, d),
        _mean(found),
        _locally(found),
    )
    # What outliers make of the numbers comes before the numbers.
    title, *rest = [*outliers, *(one for one in sentences if one)]
    return Headline(title, rest)


def _title(found: Found, n: int, d: int, outliers: bool) -> Sentence:
    """Return how many dimensions the variance fills. Outlier rows make the number meaningless: it is left out."""
    plain = used = _value(found, "participation_ratio")
    corrected = _value(found, "participation_ratio_unbiased")
    slug = "participation_ratio"
    if used is not None and corrected is not None and n >= FEWEST_FOR_CORRECTION:
        used, slug = min(max(corrected, 1.0), d), "participation_ratio_unbiased"
    if plain is None or used is None or d < 2:
        reason = found["participation_ratio"].reason if "participation_ratio" in found else None
        otherwise = "Isotropy compares dimensions, and there is only one." if d < 2 else "It was not measured."
        why = reason or otherwise
        return [Part("Isotropy", "participation_ratio"), Part(f" cannot be measured. {why}")]
    if (undetermined := _undetermined(found, n, d)) is not None:
        return undetermined
    carried = _carried_by_dimensions(found)
    if not carried and (outliers or plain >= LEAST_SEEN * used):
        carried = _carried_by_directions(found, d)
    if outliers:
        return [Part("With them, "), *carried, Part(".")] if carried else []
    effective = number(used, 2) if used < MANY_DIMENSIONS else count(round(used))
    share = Part(f"The variance fills about {effective} of {count(d)} dimensions", slug)
    return [share, Part("; "), *carried, Part(".")] if carried else [share, Part(".")]


def _carried_by_dimensions(found: Found) -> Sentence:
    """The dimensions of the model's basis that have many times their share, if together they carry much."""
    std = _list(found, "activation_profile", "std")
    greatest = max(std, default=0.0)
    if greatest == 0:
        return []
    variances = [(one / greatest) ** 2 for one in std]
    total = sum(variances)
    most = [one for one in variances if one >= MANY_TIMES_ITS_SHARE * total / len(variances)]
    share = sum(most) / total
    if share < LEAST_CARRIED:
        return []
    verb = "carries" if len(most) == 1 else "carry"
    who = f"{count(len(most))} of {count(len(std))} dimensions"
    return [Part(f"{who} {verb} {percent(share)} of the variance", "activation_profile")]


def _carried_by_directions(found: Found, d: int) -> Sentence:
    """The fewest principal components that hold half of the variance; where it is one, what it holds."""
    eigenvalues = _list(found, "spectrum", "eigenvalues")
    total = sum(eigenvalues)
    half = next((i for i, part in enumerate(accumulate(eigenvalues), 1) if part >= total / 2 > 0), None)
    if half is None:
        return []
    if half == 1:
        return [Part(f"one direction carries {percent(eigenvalues[0] / total)} of the variance", "spectrum")]
    return [Part(f"half of the variance lies in {count(half)} of {count(d)} directions", "spectrum")]


def _undetermined(found: Found, n: int, d: int) -> Sentence | None:
    """The title where the error of the corrected score is greater than the score; None where it is not."""
    score = found.get("isoscore_unbiased")
    if score is None or score.value is None or score.se is None or n < FEWEST_FOR_CORRECTION:
        return None
    if score.se <= max(abs(score.value), LEAST_DIMENSIONS / (d - 1)):
        return None
    told = f"its error, {number(score.se, 2)}, exceeds its value, {number(score.value, 2)}"
    return [Part("IsoScore is not determined: "), Part(told, "isoscore_unbiased"), Part(".")]


def _outliers(finding: Mapping[str, Any]) -> Sentence:
    """Which rows hold the variance, and what the score is without them."""
    names = finding["names"] or [""] * len(finding["rows"])
    each = [f"{row} ({name})" if name else f"{row}" for row, name in zip(finding["rows"], names, strict=True)]
    more = finding["row_count"] - min(len(each), LISTED_ROWS)
    listed = ", ".join(each[:LISTED_ROWS]) + (f" and {count(more)} more" if more else "")
    one = finding["row_count"] == 1
    effect = finding["effect"]
    kind = "Plain" if effect["measure"] == "isoscore" else "Bias-corrected"
    after = with_error(effect["after"], effect["after_se"])
    before = "undefined" if effect["before"] is None else number(effect["before"])
    return [
        Part(f"{finding['title']}: {'row' if one else 'rows'} {listed}. Without {'it' if one else 'them'} "),
        Part(f"{kind.lower()} IsoScore is {after} instead of {before}", effect["measure"]),
        Part("."),
    ]


def _few_rows(found: Found, n: int, independent: int, d: int) -> Sentence:
    plain, corrected = (_value(found, slug) for slug in ("isoscore", "isoscore_unbiased"))
    if plain is None:
        return []
    known = corrected is not None and n >= FEWEST_FOR_CORRECTION
    if n >= d and not (known and corrected is not None and _bias(corrected, plain, independent, d) > LEAST_BIAS):
        return []
    rows = f"{count(n)} rows" if independent == n else f"{count(independent)} independent rows"
    few = "There are fewer rows than dimensions" if n < d else f"{rows} are few for {count(d)} dimensions"
    beginning = [
        Part(f"{few}: "),
        Part(f"plain IsoScore, {number(plain)},", "isoscore"),
    ]
    if not known:
        return [*beginning, Part(" and the dimensions used are biased low.")]
    score = found["isoscore_unbiased"]
    error = "" if score.se is None else f" ± {number(score.se, 2)}"
    return [
        *beginning,
        Part(" is biased low; "),
        Part(f"the bias-corrected score is {number(corrected)}{error}", "isoscore_unbiased"),
        Part("."),
    ]


def _bias(corrected: float, plain: float, independent: int, d: int) -> float:
    """By how much so few rows alone lower the plain score of a Gaussian cloud, at most what was corrected.

    Of n rows, 1 over the participation ratio is greater by about 1/n.
    """
    ratio = 1 + (d - 1) * min(max(corrected, 0.0), 1.0)
    return min(corrected - plain, ratio * ratio / (independent + ratio) / (d - 1)) if d > 1 else 0.0


def _mean(found: Found) -> Sentence:
    """The mean's part in the cosine of two rows: about equal to its part of the energy, if rows are about as long."""
    share, cosine = (_value(found, slug) for slug in ("mean_share", "mean_cosine"))
    if share is None or cosine is None:
        return []
    explained = cosine >= LEAST_COSINE and abs(cosine - share) <= 0.02 + 0.1 * cosine
    return [
        Part(f"The mean carries {percent(share)} of the energy", "mean_share"),
        Part(", which is why " if explained else "; "),
        Part(f"two random rows have a cosine of {two_decimals(cosine)}", "mean_cosine"),
        Part(" on average"),
        *_rogue(found, cosine),
        Part("."),
    ]


def _rogue(found: Found, cosine: float) -> Sentence:
    """The dimension that adds at least half of the cosine."""
    added = _value(found, "rogue_dimensions")
    dimensions = _list(found, "rogue_dimensions", "dimensions")
    if added is None or not dimensions or cosine < LEAST_COSINE or added < cosine / 2:
        return []
    which = f"dimension {dimensions[0]['dimension']} alone adds {two_decimals(added)} of it"
    return [Part("; "), Part(which, "rogue_dimensions")]


def _locally(found: Found) -> Sentence:
    """The least and the greatest estimate of the intrinsic dimension, or the one where they agree."""
    estimates = [slug for slug, one in MEASURES.items() if "twonn" in (slug, one.listed_with)]
    known = [(value, slug) for slug in estimates if (value := _value(found, slug)) is not None]
    if not known:
        return []
    (low, lower), (high, upper) = min(known), max(known)
    about = [Part(f"about {_whole(low)}-dimensional", known[0][1])]
    if _whole(low) != _whole(high):
        about = [Part(f"about {_whole(low)}-", lower), Part(" to "), Part(f"{_whole(high)}-dimensional", upper)]
        about += [Part(", depending on the estimator")]
    doubt = ". The true value is probably higher: such estimates tend to be low." if high > READS_LOW_ABOVE else "."
    return [Part("Locally the cloud looks "), *about, Part(doubt), *_misfit(found)]


def _misfit(found: Found) -> Sentence:
    """How far TwoNN's model is from the rows, if so far that its error says little."""
    goodness = (found["twonn"].detail or {}).get("parts", {}) if "twonn" in found else {}
    distance, by_chance = goodness.get("fit_distance"), goodness.get("fit_distance_by_chance")
    if distance is None or by_chance is None or distance <= max(by_chance, MISFIT):
        return []
    told = f"TwoNN does not fit these rows: it is off by {percent(distance)}, where chance allows {percent(by_chance)}"
    return [Part(" Do not rely on this. "), Part(told, "twonn"), Part(".")]


def _whole(dimension: float) -> str:
    return count(round(dimension)) if dimension >= 0.9 else number(dimension, 2)


def _value(found: Found, slug: str) -> float | None:
    return found[slug].value if slug in found else None


def _list(found: Found, slug: str, name: str) -> Sequence[Any]:
    return (found[slug].detail or {}).get(name, []) if slug in found else []
