"""``isoscope decide`` with several vectors, such as layers: each judged by the same task, and what they show."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from isoscope.cli.printing import number, table, write
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural
from isoscope.decide import judge, list_lines, read_task, variants_of
from isoscope.files.wording import shown
from isoscope.rank_relation import Placed, relation_of, statement
from isotropy.catalog import METRICS
from isotropy.tasks.decision import BASELINE, Decision, Judged
from isotropy.tasks.judge import Task


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


def _lines(judged: Sequence[JudgedVectors], task: Task) -> Iterator[str]:
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
    return [one.name, *_scores(as_it_is), chosen.variant.name, *_scores(chosen), f"{decision.report:,}"]


def _scores(one: Judged) -> tuple[str, str]:
    return number(one.isoscore), f"{one.report.value:.3f} [{one.report.low:.3f}, {one.report.high:.3f}]"
