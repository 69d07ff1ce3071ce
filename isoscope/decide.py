"""``isoscope decide``: the best variant of vectors by a task, and the smallest that is about as good."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from safetensors.torch import save_file
from tqdm import tqdm

from isoscope.cli.printing import number, write
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.task_files import LoadedTask, TaskFiles, load_task
from isotropy.catalog import METRICS, Similarity
from isotropy.tasks.decision import Decision, Judged, difference
from isotropy.tasks.judge import Task, decide, map_of
from isotropy.tasks.variants import Variant, listed, product


def print_decision(given: Namespace) -> int:
    """Print what each variant scores and which to take, or their list alone."""
    loaded, task = read_task(given, given.vectors[0] if given.vectors else None)
    variants = variants_of(given, task)
    if given.list:
        entries = [_entry(one, task) for one in variants]
        return write([json.dumps(entries)] if given.json else list_lines(variants, task))
    _require_variant(given, variants)
    aside = sys.stderr if given.json else sys.stdout
    aside.writelines(f"{line}\n" for line in (*loaded.notes, *list_lines(variants, task), ""))
    decision = judge(given, task, variants)
    code = write([json.dumps(decision.document(), allow_nan=False)] if given.json else _table(task, decision))
    if given.save_map is not None:
        one = map_of(task, variants[_which(given.variant, decision)])
        path = given.save_map
        try:
            save_file(one.tensors(), path, one.metadata())
        except OSError as error:
            raise InvalidError(f"{path} could not be written: {error.strerror}.", "save_map") from error
        aside.write(f"\n{given.save_map} maps vectors to {one.variant.name}. To apply it:\n\n")
        aside.write(one.numpy_code(given.save_map.name))
    return code


def read_task(given: Namespace, vectors: str | list[str] | None) -> tuple[LoadedTask, Task]:
    """Return the task of the given files on some of their vectors; None takes the likeliest.

    Raises:
        InvalidError: the files make no task.

    """
    similarity = Similarity(given.similarity)
    files = TaskFiles(
        given.corpus,
        given.queries,
        given.qrels,
        given.pairs,
        given.labels,
        given.annotations,
        vectors,
        given.ids,
        given.groups,
        given.split,
    )
    loaded = load_task(files, similarity, given.seed)
    try:
        return loaded, Task(loaded.corpus, loaded.truth, similarity, given.seed, given.metric)
    except ValueError as error:
        raise InvalidError(str(error)) from error


def variants_of(given: Namespace, task: Task) -> Sequence[Variant]:
    """Return the variants that are judged: the default list, or all."""
    return (product if given.full else listed)(task.setting)


def judge(given: Namespace, task: Task, variants: Sequence[Variant], name: str | None = None) -> Decision:
    """Return what the variants score, with a bar of how many are done."""
    with tqdm(total=len(variants), desc=name, unit=" variants", disable=None, leave=False) as bar:
        try:
            return decide(task, variants, given.tolerance, progress=lambda _: bar.update())
        except ValueError as error:
            raise InvalidError(str(error)) from error


def _require_variant(given: Namespace, variants: Sequence[Variant]) -> None:
    if given.variant.isdecimal() and int(given.variant) >= len(variants):
        raise InvalidError(
            f"There is no variant {given.variant}: they are numbered 0 to {len(variants) - 1}.", "variant"
        )
    if given.save_map is not None and not given.save_map.absolute().parent.is_dir():
        raise InvalidError(f"There is no folder {given.save_map.absolute().parent}: create it first.", "save_map")


def _which(named: str, decision: Decision) -> int:
    return int(named) if named.isdecimal() else {"chosen": decision.chosen, "smallest": decision.smallest}[named]


def _entry(variant: Variant, task: Task) -> dict[str, Any]:
    return {
        "name": variant.name,
        "method": variant.method,
        "parameters": dict(variant.parameters),
        "dimensions": str(variant.dimensions),
        "storage": variant.storage.value,
        "bytes": variant.bytes_of(task.setting.d),
    }


def list_lines(variants: Sequence[Variant], task: Task) -> Iterator[str]:
    """Yield the list of variants that is printed before it runs."""
    yield f"{plural(len(variants), 'variant')}, judged by {METRICS[task.judged_by]}, {task.similarity}:"
    for place, one in enumerate(variants):
        yield f"{place:4}  {one.bytes_of(task.setting.d):6,} bytes  {one.name}"


def _table(task: Task, decision: Decision) -> Iterator[str]:
    """Yield the scores of all variants, and the conclusion."""
    if decision.task == "compression":
        yield (
            "There is no ground truth, so only compression is judged: whether the same rows are found, not whether "
            "they are right."
        )
    yield (
        f"corpus {decision.n:,} x {decision.d:,}; "
        f"{task.truth.units}: {decision.fit:,} fit, {decision.choose:,} choose, {decision.report:,} report"
    )
    yield f"{'':6}{'bytes':>7}{'IsoScore':>10}{'choose':>9}{'report':>9}  {'difference [95%]':26}  variant"
    yield from map("".join, _rows(decision))
    yield "* chosen, + smallest: reported on rows that chose nothing. The others are not corrected for choosing."
    yield "bytes per vector; IsoScore is bias-corrected, so it can exceed 1."
    for side, one in decision.hubness.items():
        most = ", ".join(f"{hub.id} ({hub.queries:,})" for hub in one.hubs[:3])
        yield f"hubness, {side}: skewness {number(one.skewness)}, {one.never:.0%} never found; most queries: {most}"
    yield ""
    yield decision.conclusion


def _rows(decision: Decision) -> Iterable[str]:
    for place, one in enumerate(decision.variants):
        mark = ("*" if place == decision.chosen else " ") + ("+" if place == decision.smallest else " ")
        yield f"{mark}{place:3} {one.bytes:7,}{number(one.isoscore):>10}{_scores(one)}  {one.variant.name}"


def _scores(one: Judged) -> str:
    return f"{one.choose:9.3f}{one.report.value:9.3f}  {difference(one.report):26}"
