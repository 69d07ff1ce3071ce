"""Judge post-processing, dimensions and storage of vectors by a task, without a server."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from importlib.util import find_spec
from pathlib import Path

from isoscope.cli.score import parse_names, parse_seed
from isoscope.core.errors import UnavailableError
from isoscope.threads import wait_briefly
from isotropy.catalog import METRICS, Similarity

REQUIRED = {"torch": "torch", "faiss": "faiss-cpu", "pytrec_eval": "pytrec-eval-terrier", "sklearn": "scikit-learn"}
"""Modules by what installs them."""


def decide_arguments(command: ArgumentParser) -> None:
    """Add the arguments of ``isoscope decide``."""
    command.add_argument("corpus", nargs="+", type=Path, metavar="CORPUS", help="vectors, in the order of their rows")
    truth = command.add_argument_group("ground truth", "choose one; without any, only compression is judged")
    truth.add_argument("--queries", type=Path, metavar="FILE", help="vectors of queries")
    truth.add_argument(
        "--qrels",
        type=Path,
        metavar="FILE",
        help="query ids, document ids and relevance as in BEIR, or a BEIR folder or zip file",
    )
    truth.add_argument("--split", metavar="NAME", help="split of the BEIR data set (default: test)")
    truth.add_argument("--pairs", type=Path, metavar="FILE", help="scored pairs of row ids")
    truth.add_argument("--labels", metavar="COL", help="column or array of labels")
    truth.add_argument(
        "--annotations", type=Path, metavar="FILE", help="file of ids, labels or groups for the rows of the corpus"
    )
    command.add_argument(
        "--vectors",
        type=parse_names,
        action="append",
        metavar="NAME",
        help="array, or columns separated by commas; repeat to judge several embeddings, such as layers",
    )
    command.add_argument("--ids", metavar="COL", help="column of ids (default: id or _id)")
    command.add_argument("--groups", metavar="COL", help="column that groups dependent queries, pairs or rows")
    command.add_argument(
        "--similarity", choices=[one.value for one in Similarity], default="cosine", help="how vectors are compared"
    )
    command.add_argument("--metric", choices=METRICS, help="metric to judge by (default: the usual one for the task)")
    command.add_argument("--seed", type=parse_seed, default=0, help="seed of the split and of random methods")
    command.add_argument(
        "--tolerance", type=_tolerance, default=0.01, help="how much lower the smallest variant may score"
    )
    command.add_argument("--list", action="store_true", help="print the variants and stop")
    command.add_argument("--full", action="store_true", help="try all methods with all dimensions and storage formats")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.add_argument("--save-map", type=Path, metavar="FILE", help="write the chosen map as safetensors")
    command.add_argument(
        "--variant", type=_variant, default="chosen", metavar="WHICH", help="map to write: chosen, smallest or a number"
    )


def decide(given: Namespace) -> int:
    """Judge variants of vectors by a task: which to choose, and the smallest that is about as good."""
    missing = [package for module, package in REQUIRED.items() if find_spec(module) is None]
    if missing:
        raise UnavailableError(
            f"isoscope decide needs {' and '.join(missing)}, not installed here: "
            "pip install 'isoscope[files,torch,decide]'"
        )
    wait_briefly()
    if given.vectors is not None and len(given.vectors) > 1:
        from isoscope.decide import print_decisions  # noqa: PLC0415 - it brings torch

        return print_decisions(given)
    from isoscope.decide import print_decision  # noqa: PLC0415 - it brings torch

    return print_decision(given)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return value


def _variant(text: str) -> str:
    if text not in ("chosen", "smallest") and not text.isdecimal():
        raise ArgumentTypeError(f"expected chosen, smallest or a number of the list, got {text!r}")
    return text
