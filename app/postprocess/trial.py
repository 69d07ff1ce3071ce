"""A trial of a method as its page shows it: a row for each number, figures of before and after, names looked up."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.db.models import Measurement, PostProcessing
from app.embeddings.comparison import Difference, difference
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import figures_of
from app.embeddings.lookups import NamedNeighbors, read_neighbors
from app.figures.figure import Figure
from isoscope.core.formatting import capitalized, number, two_decimals
from isotropy.catalog import Measure, measures_in

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


def trial_neighbours(trial: PostProcessing, name: str) -> NamedNeighbors | None:
    """The neighbors of a name among the rows held out, of the first one where it is none of those stored."""
    if not (stored := (trial.results or {}).get("neighbours")):
        return None
    return read_neighbors(stored | {"method": trial.method, "parameters": trial.parameters}, name)


def _measurements(trial: PostProcessing, part: str) -> dict[str, Measurement]:
    """What was found in a part of the rows; what another version noted besides is left out."""
    return {
        slug: Measurement(**{column: finding[column] for column in COLUMNS if column in finding})
        for slug, finding in (trial.results or {}).get(part, {}).items()
    }


class ComparedMeasure(NamedTuple):
    """How a measure is compared: its name in a sentence, its numbers, and whether its ups and downs need a judgment."""

    noun: str
    say: Callable[[float], str] = number
    judged: bool = False


SHAPE = {
    "isoscore": ComparedMeasure("IsoScore"),
    "mean_cosine": ComparedMeasure("the mean cosine", two_decimals),
    "partition_log": ComparedMeasure("the partition function's logarithm", judged=True),
}
LABELS = {"silhouette": ComparedMeasure("the silhouette of the labels")}


def outcome_of(method: str, comparisons: Sequence[Comparison]) -> str:
    """Say what became of the shape and of the labels; what is undefined before or after is left out."""
    shape = _clauses(SHAPE, comparisons)
    measure = [f"On rows that {method} has not seen, {'; '.join(shape)}."] if shape else []
    measure += [f"{capitalized(one)}." for one in _clauses(LABELS, comparisons)]
    return " ".join(measure)


def _clauses(measures: dict[str, ComparedMeasure], comparisons: Sequence[Comparison]) -> list[str]:
    found = {one.measure.slug: one for one in comparisons if one.change is not None}
    return [_clause(measure, found[slug]) for slug, measure in measures.items() if slug in found]


def _clause(measure: ComparedMeasure, one: Comparison) -> str:
    before, after = (measure.say(found.value or 0.0) for found in (one.before, one.after))
    if before == after:
        return f"{measure.noun} stays at {after}"
    rises = one.change is not None and one.change.value > 0
    if measure.judged:
        better = rises == (one.measure.higher_means == "more isotropic")
        return f"{measure.noun} gets {'better' if better else 'worse'}, from {before} to {after}"
    return f"{measure.noun} {'rises' if rises else 'falls'} from {before} to {after}"
