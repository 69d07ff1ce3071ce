"""``isoscope calibrate``: find the similarity from which on a pair is a match, with a guaranteed error rate."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from tqdm import tqdm

from isoscope.cli.printing import number, table, write
from isoscope.core.errors import InvalidError, value_errors_as_invalid
from isoscope.core.formatting import plural
from isoscope.decide import read_task, require_parent_folder, save_map
from isotropy.catalog import SIMILARITIES
from isotropy.catalog.calibration import USUAL_PROMISES, Calibration, PairSpace, PromiseKind
from isotropy.tasks.calibrate import calibrate
from isotropy.tasks.labeled_pairs import MatchScoreError

CURVE_STEP = 4  # Only every fourth point of the curve is printed


def print_calibration(arguments: Namespace) -> int:
    """Print the cutoffs of all promises and the advice on the requested one; return the exit code."""
    if arguments.qrels is None and arguments.pairs is None and arguments.labels is None:
        raise InvalidError("A cutoff needs ground truth. Give --pairs, --queries with --qrels, or --labels.", "pairs")
    if arguments.match is not None and arguments.pairs is None:
        raise InvalidError("--match is the minimum score of a match. Give it with --pairs only.", "match")
    if len(arguments.vectors or ()) > 1:
        raise InvalidError("A cutoff is of one embedding. Give one --vectors.", "vectors")
    require_parent_folder(arguments.save_map, "save_map")
    loaded, task = read_task(arguments, arguments.vectors[0] if arguments.vectors else None)
    kind = PromiseKind.MISS if arguments.false_match_rate is None else PromiseKind.FALSE_MATCH
    promise = arguments.miss_rate or arguments.false_match_rate or USUAL_PROMISES[kind]
    note_stream = sys.stderr if arguments.json else sys.stdout
    note_stream.writelines(f"{note}\n" for note in loaded.notes)
    false_match_rate = arguments.false_match_rate or USUAL_PROMISES[PromiseKind.FALSE_MATCH]
    with tqdm(unit=" remedies", disable=None, leave=False) as bar, value_errors_as_invalid():
        try:
            calibration, fitted_map = calibrate(task, arguments.match, false_match_rate, bar.update)
        except MatchScoreError as error:
            raise InvalidError(f"{error} Use --match.", "match") from error
    if arguments.save_map is not None:
        save_map(fitted_map, arguments.save_map, fitted_map.variant.name, "save_map")
    conclusion = calibration.conclude(kind, promise)
    code = calibration.find_cutoff(kind, promise).code
    code_lines = [] if code is None else ["", code]
    if arguments.json:
        return write([json.dumps(asdict(calibration) | {"conclusion": conclusion}, allow_nan=False)])
    return write([*_calibration_lines(calibration), *code_lines, conclusion])


def _calibration_lines(calibration: Calibration) -> Iterator[str]:
    source = calibration.pairs
    yield f"{plural(source.labeled, 'labeled pair')}, {source.labeled_matches:,} match: {source.matches}."
    n_matches, n_non_matches = source.independent_matches, source.independent_non_matches
    yield f"Non-matches: {source.non_matches}. {n_matches:,} matches and {n_non_matches:,} non-matches are independent."
    for space in calibration.spaces:
        yield from _space_lines(space, SIMILARITIES[calibration.similarity])
    if calibration.false_match_rate is None:
        return
    yield ""
    yield f"Matches found at {calibration.false_match_rate:.0%} false matches:"
    rows = []
    for index, variant in enumerate(calibration.variants):
        rate = variant.finding
        if rate is not None:
            gain = f"{rate.gain:+.1%} [{rate.gain_low:+.1%}, {rate.gain_high:+.1%}]"
            report = f"{rate.report:.1%} [{rate.report_low:.1%}, {rate.report_high:.1%}]"
            difference = f"{rate.difference:+.1%} [{rate.difference_low:+.1%}, {rate.difference_high:+.1%}]"
            mark = "* " if index == calibration.chosen else "  "
            random_pairs = f"{number(variant.random.mean)} ({number(variant.random.sd)})"
            rows.append([mark + variant.name, random_pairs, f"{rate.choose:.1%}", gain, report, difference])
    yield from table(["  remedy", "random pairs (sd)", "where chosen", "gain", "held out", "difference"], rows)
    yield "* chosen: finds the most of those whose gain has an interval above 0. These hold for all remedies at once."


def _space_lines(space: PairSpace, similarity_name: str) -> Iterator[str]:
    yield ""
    yield f"{space.name}: P(match), and cutoffs that keep each promise with {space.confidence:.1%} confidence"
    rows = [
        [number(point.similarity), f"{point.share:.3f} [{point.low:.3f}, {point.high:.3f}]"]
        for point in space.curve[::CURVE_STEP]
    ]
    yield from table([similarity_name, "P(match) [95%]"], rows)
    yield ""
    error_names = {PromiseKind.MISS: "misses", PromiseKind.FALSE_MATCH: "false matches"}
    rows = []
    for cutoff in space.cutoffs:
        promise = f"at most {cutoff.promise:.0%} {error_names[cutoff.kind]}"
        similarity = f"takes {cutoff.labels_needed:,} labels" if cutoff.cutoff is None else f"{cutoff.cutoff:.10g}"
        shares = [
            "-" if share is None else f"{share.value:.1%} [{share.low:.1%}, {share.high:.1%}]"
            for share in (cutoff.misses, cutoff.false_matches, cutoff.precision)
        ]
        rows.append([promise, f"{cutoff.labels:,}", similarity, *shares])
    share_headings = ["missed, held out [95%]", "others taken, held out [95%]", "of pairs taken, match [95%]"]
    yield from table(["promise", "labels", similarity_name, *share_headings], rows)
