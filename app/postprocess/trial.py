"""A trial of a method as its page shows it: a row for each number, figures of before and after, names looked up."""

from typing import NamedTuple

from app.db.models import Measurement, PostProcessing
from app.figures.figure import Figure
from app.figures.report import figures_of
from app.figures.subject import Subject
from app.routes.pages.neighbours import Neighbours, read_neighbours
from app.services.differences import Difference, difference
from isotropy.catalog import MEASURES, Measure

COMPARED = (
    "isoscore_unbiased",
    "participation_ratio_unbiased",
    "isoscore",
    "participation_ratio",
    "effective_rank",
    "mean_cosine",
    "mean_share",
    "partition_log",
    "twonn",
    "silhouette",
)
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
    """The numbers of a trial; without labels there is no silhouette to show."""
    before, after, in_sample = (_measurements(trial, part) for part in ("before", "after", "in_sample"))
    found = [
        Comparison(MEASURES[slug], before[slug], after[slug], in_sample.get(slug))
        for slug in COMPARED
        if slug in before and slug in after
    ]
    return [one for one in found if one.measure.slug != "silhouette" or one.before.n]


def trial_figures(trial: PostProcessing) -> list[Figure]:
    """The figures of a trial, with the rows held out before and after in each."""
    return figures_of([Subject(part, _measurements(trial, part)) for part in ("before", "after")])


def trial_neighbours(trial: PostProcessing, name: str) -> Neighbours | None:
    """The neighbours of a name among the rows held out, of the first one where it is none of those stored."""
    if not (stored := (trial.results or {}).get("neighbours")):
        return None
    return read_neighbours(stored | {"method": trial.method, "parameters": trial.parameters}, name)


def _measurements(trial: PostProcessing, part: str) -> dict[str, Measurement]:
    """What was found in a part of the rows; what another version noted besides is left out."""
    return {
        slug: Measurement(**{column: finding[column] for column in COLUMNS if column in finding})
        for slug, finding in (trial.results or {}).get(part, {}).items()
    }
