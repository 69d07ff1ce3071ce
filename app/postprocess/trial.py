"""A trial of a method as its page shows it: a row for each number, figures of before and after, names looked up."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from app.db.models import Embedding, Measurement, PostProcessing
from app.embeddings.comparison import Difference, difference
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import figures_of
from app.embeddings.lookups import Neighbours, read_neighbours
from app.figures.figure import Figure
from isoscope.core.formatting import number, two_decimals
from isotropy.catalog import METHODS, Measure, measures_in

COLUMNS = Measurement.__table__.columns.keys()


class Comparison(NamedTuple):
    """A measure of the rows held out, before and after, and after of those fitted on, where it was taken of them."""

    measure: Measure
    before: Measurement
    after: Measurement
    in_sample: Measurement | None

    @property
    def change(self) -> Difference | None:
        """What the method added, with the error of pairs; None where one of both is undefined."""
        return difference(self.after, self.before, same_rows=True)


def comparisons_of(trial: PostProcessing) -> list[Comparison]:
    """List the scores of a trial; those of labels need labels."""
    before, after, in_sample = (_measurements(trial, part) for part in ("before", "after", "in_sample"))
    found = [
        Comparison(one, before[one.slug], after[one.slug], in_sample.get(one.slug))
        for one in measures_in("lab")
        if one.slug in before and one.slug in after
    ]
    return [one for one in found if one.measure.group != "labels" or one.before.n]


def trial_figures(trial: PostProcessing) -> list[Figure]:
    """The figures of a trial, with the rows held out before and after in each."""
    return figures_of([Subject(part, _measurements(trial, part)) for part in ("before", "after")])


def trial_neighbours(trial: PostProcessing, name: str) -> Neighbours | None:
    """The neighbors of a name among the rows held out, of the first one where it is none of those stored."""
    if not (stored := (trial.results or {}).get("neighbours")):
        return None
    return read_neighbours(stored | {"method": trial.method, "parameters": trial.parameters}, name)


def _measurements(trial: PostProcessing, part: str) -> dict[str, Measurement]:
    """What was found in a part of the rows; what another version noted besides is left out."""
    return {
        slug: Measurement(**{column: finding[column] for column in COLUMNS if column in finding})
        for slug, finding in (trial.results or {}).get(part, {}).items()
    }


class Told(NamedTuple):
    """How a measure is told: its name in a sentence, its numbers, and whether its ups and downs need a judgment."""

    noun: str
    say: Callable[[float], str] = number
    judged: bool = False


SHAPE = {
    "isoscore": Told("IsoScore"),
    "mean_cosine": Told("the mean cosine", two_decimals),
    "partition_log": Told("the partition function's logarithm", judged=True),
}
LABELS = {"silhouette": Told("the silhouette of the labels")}


def outcome_of(method: str, comparisons: Sequence[Comparison]) -> str:
    """Say what became of the shape and of the labels; what is undefined before or after is left out."""
    shape = _clauses(SHAPE, comparisons)
    told = [f"On rows that {method} has not seen, {'; '.join(shape)}."] if shape else []
    told += [f"{one[0].upper()}{one[1:]}." for one in _clauses(LABELS, comparisons)]
    return " ".join(told)


def _clauses(measures: dict[str, Told], comparisons: Sequence[Comparison]) -> list[str]:
    found = {one.measure.slug: one for one in comparisons if one.change is not None}
    return [_clause(told, found[slug]) for slug, told in measures.items() if slug in found]


def _clause(told: Told, one: Comparison) -> str:
    before, after = (told.say(found.value or 0.0) for found in (one.before, one.after))
    if before == after:
        return f"{told.noun} stays at {after}"
    rises = one.change is not None and one.change.value > 0
    if told.judged:
        better = rises == (one.measure.higher_means == "more isotropic")
        return f"{told.noun} gets {'better' if better else 'worse'}, from {before} to {after}"
    return f"{told.noun} {'rises' if rises else 'falls'} from {before} to {after}"


class FittedNote(NamedTuple):
    """How many of its rows a method was fitted on, and what the others say."""

    fit_rows: int
    rows: int
    isoscore: float | None
    """Of rows held out, bias-corrected; None where that is not kept or is undefined."""
    lab: str
    """The URL of the trial; empty where its embedding is gone."""


def fitted_note(embedding: Embedding, trial: PostProcessing | None) -> FittedNote | None:
    """The note of an embedding that was made here by ``trial``, if that is kept; None where it was not made."""
    made = embedding.provenance
    if not made or "fit_rows" not in made:
        return None
    after = ((trial.results if trial else None) or {}).get("after", {})
    isoscore = after.get("isoscore_unbiased", {}).get("value")
    return FittedNote(made["fit_rows"], embedding.n_measured, isoscore, _lab(embedding))


def _lab(embedding: Embedding) -> str:
    made = embedding.provenance or {}
    if embedding.source_id is None or made["method"] not in METHODS:
        return ""
    return f"/embeddings/{embedding.source_id}/lab?{urlencode({'method': made['method'], **made['parameters']})}"
