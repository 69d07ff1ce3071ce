"""A trial of a method as its page shows it: a row for each number, figures of before and after, names looked up."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.db.models import Measurement, PostProcessing
from app.embeddings.comparison import Difference, difference
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import figures_of
from app.figures.figure import Figure
from isoscope.core.formatting import capitalized, number, two_decimals
from isotropy.catalog import Measure, measures_in

COLUMNS = Measurement.__table__.columns.keys()


class TrialComparison(NamedTuple):
    """A measure of the rows held out, before and after, and after of those fitted on, where it was taken of them."""

    measure: Measure
    before: Measurement
    after: Measurement
    in_sample: Measurement | None

    @property
    def change(self) -> Difference | None:
        return difference(self.after, self.before, same_rows=True)


def comparisons_of(trial: PostProcessing) -> list[TrialComparison]:
    before, after, in_sample = (_measurements(trial, part) for part in ("before", "after", "in_sample"))
    comparisons = [
        TrialComparison(measure, before[measure.slug], after[measure.slug], in_sample.get(measure.slug))
        for measure in measures_in("lab")
        if measure.slug in before and measure.slug in after
    ]
    return [comparison for comparison in comparisons if comparison.measure.group != "labels" or comparison.before.n]


def trial_figures(trial: PostProcessing) -> list[Figure]:
    return figures_of([Subject(part, _measurements(trial, part)) for part in ("before", "after")])


def _measurements(trial: PostProcessing, part: str) -> dict[str, Measurement]:
    """Return the measurements of a part of the rows, with the columns that this version knows."""
    return {
        slug: Measurement(**{column: values[column] for column in COLUMNS if column in values})
        for slug, values in (trial.results or {}).get(part, {}).items()
    }


class TrialMeasure(NamedTuple):
    """How a measure is compared: its name in a sentence, its numbers, and whether its ups and downs need a judgment."""

    noun: str
    format_value: Callable[[float], str] = number
    judged: bool = False


SHAPE = {
    "isoscore": TrialMeasure("IsoScore"),
    "mean_cosine": TrialMeasure("the mean cosine", two_decimals),
    "partition_log": TrialMeasure("the partition function's logarithm", judged=True),
}
LABELS = {"silhouette": TrialMeasure("the silhouette of the labels")}


def outcome_of(method: str, comparisons: Sequence[TrialComparison]) -> str:
    """Describe how a method changed shape and labels, skipping undefined measures."""
    shape_clauses = _clauses(SHAPE, comparisons)
    sentences = [f"On rows that {method} has not seen, {'; '.join(shape_clauses)}."] if shape_clauses else []
    sentences += [f"{capitalized(clause)}." for clause in _clauses(LABELS, comparisons)]
    return " ".join(sentences)


def _clauses(measures: dict[str, TrialMeasure], comparisons: Sequence[TrialComparison]) -> list[str]:
    defined = {comparison.measure.slug: comparison for comparison in comparisons if comparison.change is not None}
    clauses = []
    for slug, measure in measures.items():
        if comparison := defined.get(slug):
            before, after = (
                measure.format_value(measurement.value or 0.0) for measurement in (comparison.before, comparison.after)
            )
            rises = comparison.change is not None and comparison.change.value > 0
            if before == after:
                clauses.append(f"{measure.noun} stays at {after}")
            elif measure.judged:
                improves = rises == (comparison.measure.higher_means == "more isotropic")
                clauses.append(f"{measure.noun} gets {'better' if improves else 'worse'}, from {before} to {after}")
            else:
                clauses.append(f"{measure.noun} {'rises' if rises else 'falls'} from {before} to {after}")
    return clauses
