"""``isoscope check``: find what is wrong with the vectors of a file, without a server."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from isoscope.cli.local import PACKAGES
from isoscope.cli.printing import write
from isoscope.core.effects import effect_sentence
from isoscope.core.errors import InvalidError
from isoscope.files.ground_truth import read_ids, vectors_of
from isoscope.files.matrix import Matrix, select
from isoscope.files.selection import Selection, propose
from isoscope.files.upload import NamedFile, Upload, open_upload, require_readable
from isoscope.remedies import find_labels, try_remedies
from isoscope.rows import match_by_name, require_measurable, shared_rows, values_of
from isotropy.catalog import Similarity
from isotropy.cloud import Cloud, read_cloud
from isotropy.findings import Finding, Severity, findings_of, sort_findings, to_finding
from isotropy.findings.drift import SHARED_ROWS, drift
from isotropy.tasks.decision import Decision

MAX_LISTED = 10  # Maximum number of rows or dimensions printed per finding


def open_files(paths: list[Path], arguments: Namespace, annotations: Path | None = None) -> Matrix:
    """Open the named vectors, else the likeliest, with labels and groups if named; raise InvalidError for bad files."""
    for path in filter(None, (*paths, annotations)):
        if not path.is_file():
            problem = f"{path} is a folder" if path.is_dir() else f"There is no file {path}"
            raise InvalidError(f"{problem}: name a file that holds vectors.")
        require_readable(path)
    annotation_file = NamedFile(annotations, annotations.name) if annotations else None
    _, contents = open_upload(Upload(tuple(NamedFile(path, path.name) for path in paths), annotation_file))
    vectors: str | list[str] = propose(contents).vectors if arguments.vectors is None else arguments.vectors
    if isinstance(vectors, list) and contents.parts:
        vectors = ",".join(vectors)  # one array, whose name holds the commas that the option splits at
    selection = Selection(
        vectors=vectors, labels=arguments.labels, groups=arguments.groups, transpose=arguments.transpose
    )
    matrix = select(contents, selection)
    require_measurable(matrix)
    return matrix


def names_column(matrix: Matrix) -> str | None:
    """Return the selected column or array of row names, else the likeliest one."""
    return matrix.selection.names or propose(matrix.contents).names


def print_check(arguments: Namespace) -> int:
    """Print findings; return 1 if one is at least as severe as ``--fail-on`` or printing fails, else 0."""
    matrix = open_files(arguments.files, arguments, arguments.annotations)
    cloud = read_with_progress(matrix, arguments.seed)
    names_of = partial(values_of, matrix, names_column(matrix))
    findings = findings_of(cloud, names_of, matrix.dimension_names)
    if arguments.baseline is not None:
        baseline_matrix = open_files([arguments.baseline], arguments)
        baseline = read_with_progress(baseline_matrix, arguments.seed, description="reading the baseline")
        if arguments.same_rows and matrix.n != baseline_matrix.n:
            raise InvalidError(
                f"--same-rows needs as many rows in both files: there are {matrix.n:,} and {baseline_matrix.n:,}. "
                "Leave it out, and name the rows instead."
            )
        if arguments.same_rows:
            baseline_rows = {row: row for row in range(matrix.n)}
        else:
            baseline_rows = match_by_name(matrix, names_column(matrix), baseline_matrix, names_column(baseline_matrix))
        shared = shared_rows(matrix, baseline_matrix, baseline_rows, SHARED_ROWS, arguments.seed)
        if shared is None and cloud.d != baseline.d:
            raise InvalidError(
                f"The baseline has {baseline.d:,} dimensions and the file {cloud.d:,}, and no rows are known to be in "
                "both: name the rows in both files, or add --same-rows if they are in one order."
            )
        if (drift_finding := drift(cloud, baseline, shared)) is not None:
            findings = sort_findings([*findings, to_finding(drift_finding, names_of, matrix.dimension_names)])
    decision = _decide_by_labels(matrix, cloud, arguments.seed)
    if arguments.json:
        document = {
            "decision": None if decision is None else decision.to_dict(),
            "findings": [finding.to_dict() for finding in findings],
        }
        lines = [json.dumps(document, allow_nan=False)]
    else:
        finding_lines = [line for finding in findings for line in describe_finding(finding)] or ["Nothing found."]
        conclusions = [] if decision is None else [decision.conclusion]
        lines = [f"points n = {cloud.n:,}, dimensions d = {matrix.d:,}", *conclusions, *finding_lines]
    exit_code = write(lines)
    threshold_rank = Severity(arguments.fail_on).rank
    return exit_code or int(any(finding.severity.rank <= threshold_rank for finding in findings))


def _decide_by_labels(matrix: Matrix, cloud: Cloud, seed: int) -> Decision | None:
    """Return the decision by labels, selected or likely; None if rows hold NaN, packages are missing or none fit."""
    selection = matrix.selection
    if not selection.labels:
        proposal = propose(matrix.contents)
        selection = selection.model_copy(update={"labels": proposal.labels, "names": proposal.names})
    labels = find_labels(selection, matrix.contents.annotations, cloud.n, matrix.d, cloud.n_independent)
    if labels is None or cloud.n_left_out or any(find_spec(module) is None for module in PACKAGES):
        return None
    labeled = select(matrix.contents, selection.model_copy(update={"labels": labels}))
    try:
        ids = read_ids(labeled, "the file", requested=None, names=names_column(matrix)).without_repeats()
        return try_remedies(vectors_of(labeled, ids, field="files"), seed)
    except InvalidError as error:
        sys.stderr.write(f"Column {labels} cannot be used as labels: {error}\n")
        return None


def read_with_progress(
    matrix: Matrix, seed: int, similarity: Similarity = Similarity.COSINE, description: str = "reading"
) -> Cloud:
    """Read a cloud with a progress bar of rows, named by ``description``."""
    with tqdm(total=matrix.n, desc=description, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
        return read_cloud(matrix, seed, progress=bar.update, similarity=similarity)


def describe_finding(finding: Finding) -> Iterator[str]:
    """Yield lines: severity and title with rows and dimensions, the effect on a measure, then evidence and advice."""
    rows = _describe_locations("row", finding.rows, finding.names, finding.row_count)
    dimensions = _describe_locations("dimension", finding.dimensions, finding.dimension_names, finding.dimension_count)
    locations = [location for location in (rows, dimensions) if location]
    yield f"{finding.severity.value}: {finding.title}" + (f": {'; '.join(locations)}." if locations else ".")
    effect = finding.effect
    yield f"  {effect_sentence(finding.slug, effect.measure, effect.before.value, effect.after.value, effect.after.se)}"
    yield f"  {finding.evidence} {finding.advice}"


def _describe_locations(noun: str, numbers: Sequence[int], names: Sequence[str] | None, count: int) -> str:
    """List the first rows or dimensions of a finding, which has ``count`` of them; return "" if it lists none."""
    if not numbers:
        return ""
    named_numbers = zip(numbers, names or [""] * len(numbers), strict=True)
    entries = [f"{number} ({name})" if name else f"{number}" for number, name in named_numbers][:MAX_LISTED]
    n_more = count - len(entries)
    return f"{noun}{'' if count == 1 else 's'} {', '.join(entries)}" + (f" and {n_more:,} more" if n_more else "")
