"""Remedies tried on labeled vectors without asking: by which labels, on how many rows, and what they decide."""

from collections.abc import Sequence

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.files.contents import Annotation
from isoscope.files.ground_truth import NamedVectors
from isoscope.files.selection import Selection
from isoscope.task_files import LoadedTask, labels_task
from isotropy.tasks.decision import Decision
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.truth import LabelTruth
from isotropy.tasks.variants import remedies

MAX_CLASSES = 50
"""Values of a column that may be labels though nobody chose it."""
FEWEST_GROUPS = 100
"""Groups of rows below which remedies are not tried: hardly any gain would be clear."""
MAX_NUMBERS = 2**27
"""Numbers of vectors that are read to try remedies: 512 MiB in float32."""
SECONDS, CORES, VARIANTS = 20, 2, 16  # What trying remedies may take, on how many cores, for about how many variants
FEWEST_ROWS, MAX_ROWS = 2_000, 50_000  # Bounds of the rows that remedies are tried on


def find_labels(selection: Selection, annotations: Sequence[Annotation], n: int, d: int, groups: int) -> str | None:
    """Return the labels by which remedies of n rows in so many groups are tried; None where they are not.

    They are the selected ones, else the first column of few values that is neither a coordinate, a name nor a group.
    """
    if groups < FEWEST_GROUPS or d < 2 or n * d > MAX_NUMBERS:
        return None
    used = {selection.names, selection.groups, *selection.columns}
    categories = (
        annotation.name
        for annotation in annotations
        if annotation.n == n and 2 <= annotation.n_distinct <= MAX_CLASSES and annotation.name not in used
    )
    return selection.labels or next(categories, None)


def rows_within_seconds(d: int) -> int:
    """Return how many rows of d dimensions have their remedies judged in about 20 seconds on two cores.

    A variant of n rows takes about n d 1e-7 + n^2 d 1e-11 seconds of one core: comparing candidates, and searching.
    """
    seconds = SECONDS * CORES / VARIANTS
    rows = ((1e-14 + 4e-11 * seconds / d) ** 0.5 - 1e-7) / 2e-11
    return min(max(int(rows), FEWEST_ROWS), MAX_ROWS)


def sample_labels(loaded: LoadedTask, seed: int) -> LoadedTask:
    """Return the task of labeled vectors on as many rows as seconds allow, with a note of how many."""
    labeled = loaded.truth
    if not isinstance(labeled, LabelTruth):
        raise TypeError(f"Expected labels to try remedies by, got {labeled.kind}.")
    corpus, truth = labeled.sampled(loaded.corpus, rows_within_seconds(loaded.corpus.shape[1]), seed)
    notes = [f"{len(corpus):,} of {plural(len(labeled.rows), 'labeled row')}, drawn at random, are judged."]
    return LoadedTask(corpus, truth, loaded.notes + (notes if truth is not labeled else []))


def try_remedies(corpus: NamedVectors, seed: int) -> Decision:
    """Return what to do with labeled vectors. Raises InvalidError for fewer than two classes or too few groups."""
    loaded = sample_labels(labels_task(corpus), seed)
    try:
        task = JudgingTask(loaded.corpus, loaded.truth, seed=seed)
        return decide(task, remedies(task.setting))
    except ValueError as error:
        raise InvalidError(str(error)) from error
