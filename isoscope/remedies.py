"""Try remedies on labeled vectors: choose the labels, sample the rows, and decide."""

from collections.abc import Sequence

from isoscope.core.errors import value_errors_as_invalid
from isoscope.core.formatting import plural
from isoscope.files.contents import Annotation
from isoscope.files.ground_truth import NamedVectors
from isoscope.files.selection import Selection
from isoscope.task_files import LoadedTask, labels_task
from isotropy.tasks.decision import Decision
from isotropy.tasks.judge import JudgingTask, decide
from isotropy.tasks.truth import LabelTruth
from isotropy.tasks.variants import remedies

MAX_CLASSES = 50  # Maximum number of values of a column that is taken as labels without being selected
MIN_GROUPS = 100  # Minimum number of independent groups of rows: with fewer, hardly any gain would be clear
MAX_NUMBERS = 2**27  # Maximum number of coordinates read to try remedies: 512 MiB in float32
MAX_SECONDS, N_CORES, N_VARIANTS = 20, 2, 19  # Time limit for trying about 19 variants on two cores
MIN_ROWS, MAX_ROWS = 2_000, 50_000  # Bounds of the number of sampled rows


def find_labels(selection: Selection, annotations: Sequence[Annotation], n: int, d: int, n_groups: int) -> str | None:
    """Return the column of labels to try remedies by; None without one, or if the data is too small or too large.

    It is the selected one, else the first column of few values that is neither a coordinate, a name nor a group.
    """
    if n_groups < MIN_GROUPS or d < 2 or n * d > MAX_NUMBERS:
        return None
    used = {selection.names, selection.groups, *selection.columns}
    candidates = (
        annotation.name
        for annotation in annotations
        if annotation.n == n and 2 <= annotation.n_distinct <= MAX_CLASSES and annotation.name not in used
    )
    return selection.labels or next(candidates, None)


def rows_within_seconds(d: int) -> int:
    """Return the number of rows of d dimensions whose remedies are judged in about 20 seconds on two cores."""
    core_seconds_per_variant = MAX_SECONDS * N_CORES / N_VARIANTS
    # For a variant of n rows, one core compares candidates in about n d 1e-7 seconds, and searches in n^2 d 1e-11.
    linear, quadratic = 1e-7, 1e-11
    n = ((linear**2 + 4 * quadratic * core_seconds_per_variant / d) ** 0.5 - linear) / (2 * quadratic)
    return min(max(int(n), MIN_ROWS), MAX_ROWS)


def sample_labels(loaded: LoadedTask, seed: int) -> LoadedTask:
    """Return the task on as many labeled rows as the time limit allows, with a note if rows are left out."""
    truth = loaded.truth
    if not isinstance(truth, LabelTruth):
        raise TypeError(f"Expected labels to try remedies by, got {truth.kind}.")
    corpus, sampled_truth = truth.sample(loaded.corpus, rows_within_seconds(loaded.corpus.shape[1]), seed)
    if sampled_truth is truth:
        return loaded
    note = f"{len(corpus):,} of {plural(len(truth.rows), 'labeled row')}, drawn at random, are judged."
    return LoadedTask(corpus, sampled_truth, [*loaded.notes, note])


def try_remedies(corpus: NamedVectors, seed: int) -> Decision:
    """Return the decision among remedies; raise InvalidError for fewer than two classes or too few groups."""
    loaded = sample_labels(labels_task(corpus), seed)
    with value_errors_as_invalid():
        task = JudgingTask(loaded.corpus, loaded.truth, seed=seed)
        return decide(task, remedies(task.setting))
