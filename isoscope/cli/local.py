"""Measure, check and judge files at the command line, without a server."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from isoscope.core.errors import IsoscopeError, UnavailableError
from isoscope.threads import limit_thread_spinning
from isotropy.catalog import MEASURES, METRICS, Similarity
from isotropy.catalog.calibration import PROMISES

# Packages that decide and upgrade need, by the module to import.
PACKAGES = {"torch": "torch", "faiss": "faiss-cpu", "pytrec_eval": "pytrec-eval-terrier", "sklearn": "scikit-learn"}
METRIC_HELP = "metric to judge by (default: the usual one for the task)"


def score_arguments(command: ArgumentParser) -> None:
    add_file_arguments(command)
    command.add_argument(
        "--measures", type=_parse_measures, metavar="SLUGS", help="measure only these, separated by commas"
    )
    command.add_argument(
        "--similarity",
        choices=[similarity.value for similarity in Similarity],
        default=Similarity.COSINE.value,
        help="how rows are compared, for neighbors and hubness",
    )


def score(arguments: Namespace) -> int:
    """Print the measures of the files that were named."""
    with _loading_torch():
        from isoscope.score import print_score  # noqa: PLC0415
    return print_score(arguments)


def check_arguments(command: ArgumentParser) -> None:
    add_file_arguments(command)
    command.add_argument("--baseline", type=Path, metavar="FILE", help="earlier embedding to check for drift")
    command.add_argument("--same-rows", action="store_true", help="match rows by position (default: by name)")
    command.add_argument(
        "--fail-on",
        choices=("note", "warning", "error"),
        default="error",
        help="exit 1 on a finding of this severity or worse",
    )


def check(arguments: Namespace) -> int:
    """Say what is wrong with the vectors of a file: exit 1 on a finding of --fail-on, 2 if they cannot be read."""
    try:
        with _loading_torch():
            from isoscope.check import print_check  # noqa: PLC0415
        return print_check(arguments)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def add_file_arguments(command: ArgumentParser) -> None:
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="vectors, in the order of their rows")
    command.add_argument(
        "--vectors", type=parse_names, metavar="NAME", help="array, or columns separated by commas (default: detected)"
    )
    command.add_argument("--labels", metavar="COL", help="column or array of labels")
    command.add_argument("--groups", metavar="COL", help="column that groups dependent rows")
    command.add_argument(
        "--annotations", type=Path, metavar="FILE", help="file of labels or groups, one row per vector"
    )
    command.add_argument("--transpose", action="store_true", help="treat columns as samples")
    command.add_argument("--seed", type=parse_seed, default=0, help="seed for sampling pairs")
    command.add_argument("--json", action="store_true", help="print one JSON document")


@contextmanager
def _loading_torch() -> Iterator[None]:
    """Prepare for an import that loads torch. Raise UnavailableError if a package that it needs is not installed."""
    limit_thread_spinning()
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("isoscope", "isotropy"):
            raise
        raise UnavailableError(
            f"Measuring needs {error.name}, which is not installed: pip install 'isoscope[files,torch]'"
        ) from error


def parse_seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def parse_names(text: str) -> list[str]:
    """Split at commas, without blanks and empty names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _parse_measures(text: str) -> list[str]:
    slugs = parse_names(text)
    for slug in slugs:
        if slug not in MEASURES:
            raise ArgumentTypeError(f"there is no measure {slug!r}: choose among {', '.join(MEASURES)}")
    return slugs


def decide_arguments(command: ArgumentParser) -> None:
    _add_corpus_arguments(command, "only compression is judged")
    command.add_argument("--metric", choices=METRICS, help=METRIC_HELP)
    command.add_argument(
        "--tolerance", type=_parse_share, default=0.01, help="how much lower the smallest variant may score"
    )
    command.add_argument("--list", action="store_true", help="print the variants and stop")
    command.add_argument("--full", action="store_true", help="try every variant, with --labels on all rows")
    command.add_argument("--save-map", type=Path, metavar="FILE", help="write the chosen map as safetensors")
    command.add_argument(
        "--variant",
        type=_parse_variant,
        default="chosen",
        metavar="WHICH",
        help="map to write: chosen, smallest or a number",
    )


def calibrate_arguments(command: ArgumentParser) -> None:
    _add_corpus_arguments(command, "no cutoff can be set")
    command.add_argument("--match", type=float, metavar="SCORE", help="minimum score of a match, unless scores are 0/1")
    promise = command.add_mutually_exclusive_group()
    promise.add_argument("--miss-rate", type=float, choices=PROMISES, help="share of matches to miss at most (0.05)")
    promise.add_argument(
        "--false-match-rate", type=float, choices=PROMISES, help="share of non-matches to take at most"
    )
    command.add_argument("--save-map", type=Path, metavar="FILE", help="write the map of the chosen remedy")
    # Code that decide shares reads both: no ``full`` tries only the remedies, and None does not propose --full.
    command.set_defaults(full=None, metric=None)


def calibrate(arguments: Namespace) -> int:
    """Say from which similarity on a pair is a match, with a guaranteed error rate, before and after each remedy."""
    with _loading_torch():
        from isoscope.calibrate import print_calibration  # noqa: PLC0415
    return print_calibration(arguments)


def upgrade_arguments(command: ArgumentParser) -> None:
    command.add_argument("old", type=Path, metavar="OLD", help="vectors of the old model, as stored")
    command.add_argument("new", type=Path, metavar="NEW", help="vectors of the new model of the same texts, or of some")
    group = _add_task_arguments(command, "nothing shows which model is better")
    group.add_argument("--queries", nargs=2, type=Path, metavar=("OLDQ", "NEWQ"), help="vectors of queries by both")
    command.add_argument("--metric", choices=METRICS, help=METRIC_HELP)
    command.add_argument("--retain", type=_parse_share, default=0.95, help="share that a bridge has to keep")
    command.add_argument("--save-bridge", type=Path, metavar="FILE", help="write the bridge as safetensors")


def _add_corpus_arguments(command: ArgumentParser, without_truth: str) -> None:
    command.add_argument("corpus", nargs="+", type=Path, metavar="CORPUS", help="vectors, in the order of their rows")
    group = _add_task_arguments(command, without_truth)
    group.add_argument("--queries", type=Path, metavar="FILE", help="vectors of queries")


def _add_task_arguments(command: ArgumentParser, without_truth: str) -> _ArgumentGroup:
    """Add a task's arguments. Return the group of its ground truth, whose description ends with ``without_truth``."""
    group = command.add_argument_group("ground truth", f"choose one; without any, {without_truth}")
    group.add_argument(
        "--qrels",
        type=Path,
        metavar="FILE",
        help="query ids, document ids and relevance as in BEIR, or a BEIR folder or zip file",
    )
    group.add_argument("--split", metavar="NAME", help="split of the BEIR data set (default: test)")
    group.add_argument("--pairs", type=Path, metavar="FILE", help="scored pairs of row ids")
    group.add_argument("--labels", metavar="COL", help="column or array of labels")
    group.add_argument(
        "--annotations", type=Path, metavar="FILE", help="file of ids, labels or groups for the rows of the corpus"
    )
    command.add_argument(
        "--vectors",
        type=parse_names,
        action="append",
        metavar="NAME",
        help="array, or columns separated by commas; repeat for several embeddings, such as layers",
    )
    command.add_argument("--ids", metavar="COL", help="column of ids (default: id or _id)")
    command.add_argument("--groups", metavar="COL", help="column that groups dependent queries, pairs or rows")
    command.add_argument(
        "--similarity",
        choices=[similarity.value for similarity in Similarity],
        default="cosine",
        help="how vectors are compared",
    )
    command.add_argument("--seed", type=parse_seed, default=0, help="seed of the split and of random methods")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    return group


def decide(arguments: Namespace) -> int:
    """Judge variants of vectors by a task: which to choose, and the smallest that is about as good."""
    _prepare_task("decide")
    from isoscope.decide import print_decision, print_decisions  # noqa: PLC0415 - it loads torch

    has_several_embeddings = len(arguments.vectors or ()) > 1
    return print_decisions(arguments) if has_several_embeddings else print_decision(arguments)


def upgrade(arguments: Namespace) -> int:
    """Say whether to stay with an old model, to bridge a new one into its vectors, or to embed all texts again."""
    _prepare_task("upgrade")
    from isoscope.upgrade import print_upgrade  # noqa: PLC0415 - it loads torch

    return print_upgrade(arguments)


def _prepare_task(command: str) -> None:
    """Prepare for an import that loads torch. Raise UnavailableError if a package of tasks is not installed."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise UnavailableError(
            f"isoscope {command} needs {' and '.join(missing)}, not installed here: "
            "pip install 'isoscope[files,torch,decide]'"
        )
    limit_thread_spinning()


def _parse_share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return value


def _parse_variant(text: str) -> str:
    if text not in ("chosen", "smallest") and not text.isdecimal():
        raise ArgumentTypeError(f"expected chosen, smallest or a number of the list, got {text!r}")
    return text
