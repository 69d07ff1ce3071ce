"""``isoscope decide``: the best variant of vectors by a task, and the smallest that is about as good.

Of several vectors, such as layers, each is judged by the same task, with what they show together.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from safetensors.torch import save_file
from tqdm import tqdm

from isoscope.cli.printing import number, table, write
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural, shown
from isoscope.rank_relation import Placed, relation_of, statement
from isoscope.task_files import LoadedTask, TaskFiles, load_task
from isotropy.catalog import METRICS, Similarity
from isotropy.tasks.decision import BASELINE, Decision, JudgedVariant, difference
from isotropy.tasks.judge import JudgingTask, decide, map_of
from isotropy.tasks.variants import Variant, all_variants, default_variants


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


def read_task(given: Namespace, vectors: str | list[str] | None) -> tuple[LoadedTask, JudgingTask]:
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
        return loaded, JudgingTask(loaded.corpus, loaded.truth, similarity, given.seed, given.metric)
    except ValueError as error:
        raise InvalidError(str(error)) from error


def variants_of(given: Namespace, task: JudgingTask) -> Sequence[Variant]:
    """Return the variants that are judged: the default list, or all."""
    return (all_variants if given.full else default_variants)(task.setting)


def judge(given: Namespace, task: JudgingTask, variants: Sequence[Variant], name: str | None = None) -> Decision:
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


def _entry(variant: Variant, task: JudgingTask) -> dict[str, Any]:
    return {
        "name": variant.name,
        "method": variant.method,
        "parameters": dict(variant.parameters),
        "dimensions": str(variant.dimensions),
        "storage": variant.storage.value,
        "bytes": variant.bytes_of(task.setting.d),
    }


def list_lines(variants: Sequence[Variant], task: JudgingTask) -> Iterator[str]:
    """Yield the list of variants that is printed before it runs."""
    yield f"{plural(len(variants), 'variant')}, judged by {METRICS[task.judged_by]}, {task.similarity}:"
    for place, one in enumerate(variants):
        yield f"{place:4}  {one.bytes_of(task.setting.d):6,} bytes  {one.name}"


def _table(task: JudgingTask, decision: Decision) -> Iterator[str]:
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


def _scores(one: JudgedVariant) -> str:
    return f"{one.choose:9.3f}{one.report.value:9.3f}  {difference(one.report):26}"


class JudgedVectors(NamedTuple):
    """What the variants of some vectors score."""

    name: str
    decision: Decision

    @property
    def placed(self) -> Placed:
        """The vectors as they are."""
        one = self.decision.variants[BASELINE]
        return Placed(self.name, one.isoscore, one.report.value)


def print_decisions(given: Namespace) -> int:
    """Print what several vectors of the same rows score by one task, as they are and with their chosen variant.

    Raises:
        InvalidError: they are not of the same rows, or make no task.

    """
    names = [",".join(one) for one in given.vectors]
    _check(given, names)
    aside = sys.stderr if given.json or given.list else sys.stdout
    lists: list[list[str]] = []
    rows = None
    for name, vectors in zip(names, given.vectors, strict=True):  # a wrong one is told before hours of judging
        loaded, task = read_task(given, vectors)
        rows = rows or len(task.corpus)
        if len(task.corpus) != rows:
            found = plural(len(task.corpus), "row")
            raise InvalidError(
                f"{shown(name)} has {found}, {shown(names[0])} {rows:,}. Choose vectors of the same rows.", "vectors"
            )
        lists.append(list(list_lines(variants_of(given, task), task)))
        aside.writelines(f"{name}: {note}\n" for note in loaded.notes)
    if given.list:
        return write(_lists(names, lists))
    aside.writelines(f"{line}\n" for line in (*_lists(names, lists), ""))
    judged = []
    for name, vectors in zip(names, given.vectors, strict=True):
        _, task = read_task(given, vectors)
        judged.append(JudgedVectors(name, judge(given, task, variants_of(given, task), name)))
    return write([json.dumps(document(judged), allow_nan=False)] if given.json else _lines(judged, task))


def document(judged: Sequence[JudgedVectors]) -> dict[str, Any]:
    """Return what ``--json`` prints of several vectors: the document of each, and the rank relation over them."""
    placed, decision = [one.placed for one in judged], judged[0].decision
    relation = relation_of(placed)
    return {
        "task": decision.task.value,
        "metric": decision.metric,
        "similarity": decision.similarity.value,
        "embeddings": [{"name": one.name, **one.decision.document()} for one in judged],
        "relation": None if relation is None else relation._asdict(),
        "conclusion": statement(placed, decision.metric),
    }


def _check(given: Namespace, names: Sequence[str]) -> None:
    if given.qrels is None and given.pairs is None and given.labels is None:
        raise InvalidError(
            "Several --vectors need ground truth: vectors as they are always score 1 without. Give --qrels, --pairs or "
            "--labels, or one --vectors.",
            "vectors",
        )
    if again := [name for place, name in enumerate(names) if name in names[:place]]:
        raise InvalidError(f"--vectors names {shown(again[0])} twice. Name it once.", "vectors")
    if given.save_map is not None:
        raise InvalidError("--save-map writes the map of one embedding. Give one --vectors.", "save_map")
    if given.list and given.json:
        raise InvalidError("--list with --json is of one embedding. Give one --vectors, or leave out --json.", "list")


def _lists(names: Sequence[str], lists: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each list of variants once, below the names of the vectors that it is of."""
    for place, lines in enumerate(lists):
        if lines not in lists[:place]:
            yield ", ".join(name for name, others in zip(names, lists, strict=True) if others == lines) + ":"
            yield from lines


def _lines(judged: Sequence[JudgedVectors], task: JudgingTask) -> Iterator[str]:
    """Yield the table of all vectors, the sentence about them, and the conclusion of each."""
    metric = METRICS[judged[0].decision.metric]
    heads = ["vectors", "IsoScore", f"{metric} [95%]", "chosen variant", "IsoScore", f"{metric} [95%]", "reported on"]
    yield from table(heads, [_row(one) for one in judged])
    if len({one.decision.report for one in judged}) > 1:
        yield f"Vectors with other exact copies are split otherwise: scores are not on all the same {task.truth.units}."
    yield "Scores are reported on rows that chose nothing. IsoScore is bias-corrected, so it can exceed 1."
    yield ""
    yield statement([one.placed for one in judged], judged[0].decision.metric)
    for one in judged:
        yield f"{one.name}: {one.decision.conclusion}"


def _row(one: JudgedVectors) -> list[str]:
    decision = one.decision
    as_it_is, chosen = decision.variants[BASELINE], decision.variants[decision.chosen]
    return [
        one.name,
        *_both(as_it_is),
        chosen.variant.name,
        *_both(chosen),
        f"{decision.report:,}",
    ]


def _both(one: JudgedVariant) -> tuple[str, str]:
    return number(one.isoscore), f"{one.report.value:.3f} [{one.report.low:.3f}, {one.report.high:.3f}]"
