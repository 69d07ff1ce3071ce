"""Comparison table, outcome and figures of a trial of a method."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.db.models import Measurement, PostProcessing
from app.embeddings.comparison import Difference, subtract_baseline
from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import draw_figures
from app.figures.figure import Figure
from isoscope.core.formatting import capitalized, number, two_decimals
from isotropy.catalog import Measure, measures_in

MEASUREMENT_COLUMNS = Measurement.__table__.columns.keys()


class TrialComparison(NamedTuple):
    """A measure of the held-out rows before and after, and of the fitted rows after, if measured."""

    measure: Measure
    before: Measurement
    after: Measurement
    in_sample: Measurement | None

    @property
    def change(self) -> Difference | None:
        return subtract_baseline(self.after, self.before, same_rows=True)


def list_comparisons(trial: PostProcessing) -> list[TrialComparison]:
    """Return the measures of a trial, those of labels first, without those of labels if no row has one."""
    before, after, in_sample = (_read_measurements(trial, part) for part in ("before", "after", "in_sample"))
    comparisons = [
        TrialComparison(measure, before[measure.slug], after[measure.slug], in_sample.get(measure.slug))
        for measure in measures_in("lab")
        if measure.slug in before and measure.slug in after
    ]
    labeled = [comparison for comparison in comparisons if comparison.measure.group == "labels" and comparison.before.n]
    return labeled + [comparison for comparison in comparisons if comparison.measure.group != "labels"]


def trial_figures(trial: PostProcessing) -> list[Figure]:
    return draw_figures([Subject(part, _read_measurements(trial, part)) for part in ("before", "after")])


def _read_measurements(trial: PostProcessing, part: str) -> dict[str, Measurement]:
    """Return the measurements of a part of the rows, with the columns that this version knows."""
    return {
        slug: Measurement(**{column: values[column] for column in MEASUREMENT_COLUMNS if column in values})
        for slug, values in (trial.results or {}).get(part, {}).items()
    }


class TrialMeasure(NamedTuple):
    """How a sentence names a measure and formats its values, and whether it says "better" instead of "rises"."""

    noun: str
    format_value: Callable[[float], str] = number
    says_better: bool = False


SHAPE_MEASURES = {
    "isoscore": TrialMeasure("IsoScore"),
    "mean_cosine": TrialMeasure("the mean cosine", two_decimals),
    "partition_log": TrialMeasure("the partition function's logarithm", says_better=True),
}
LABEL_MEASURES = {"silhouette": TrialMeasure("the silhouette of the labels")}


def describe_outcome(method: str, comparisons: Sequence[TrialComparison]) -> str:
    """Describe how a method changed shape and labels, skipping undefined measures."""
    shape_clauses = _write_clauses(SHAPE_MEASURES, comparisons)
    sentences = [f"On rows that {method} has not seen, {'; '.join(shape_clauses)}."] if shape_clauses else []
    sentences += [f"{capitalized(clause)}." for clause in _write_clauses(LABEL_MEASURES, comparisons)]
    return " ".join(sentences)


def _write_clauses(measures: dict[str, TrialMeasure], comparisons: Sequence[TrialComparison]) -> list[str]:
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
            elif measure.says_better:
                improves = rises == (comparison.measure.higher_means == "more isotropic")
                clauses.append(f"{measure.noun} gets {'better' if improves else 'worse'}, from {before} to {after}")
            else:
                clauses.append(f"{measure.noun} {'rises' if rises else 'falls'} from {before} to {after}")
    return clauses
