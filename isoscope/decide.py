"""``isoscope decide``: choose the variant of vectors that is best by a task, and the smallest about as good."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from tqdm import tqdm

from isoscope.cli.printing import number, table, write
from isoscope.core.errors import InvalidError, value_errors_as_invalid
from isoscope.core.formatting import plural, quote
from isoscope.leader import RankedEmbedding, describe_leader
from isoscope.rank_relation import ScoredEmbedding, describe_relation, relation_of
from isoscope.remedies import sample_labels
from isoscope.task_files import LoadedTask, TaskFiles, read_files, task_of_vectors
from isotropy.catalog import METRICS, Similarity, format_signed
from isotropy.tasks.bridges import Bridge
from isotropy.tasks.decision import BASELINE, Decision, format_difference
from isotropy.tasks.judge import JudgingTask, decide, map_of
from isotropy.tasks.maps import Map
from isotropy.tasks.variants import Variant, all_variants, default_variants, remedies


def print_decision(arguments: Namespace) -> int:
    """Print the decision among variants of one embedding, or the variants with ``--list``; return the exit code."""
    loaded, task = read_task(arguments, arguments.vectors[0] if arguments.vectors else None)
    variants = select_variants(arguments, task)
    if arguments.list:
        entries = [
            {
                "name": variant.name,
                "method": variant.method,
                "parameters": dict(variant.parameters),
                "dimensions": str(variant.dimensions),
                "storage": variant.storage.value,
                "bytes": variant.bytes_of(task.setting.d),
            }
            for variant in variants
        ]
        return write([json.dumps(entries)] if arguments.json else describe_variants(variants, task))
    if arguments.variant.isdecimal() and int(arguments.variant) >= len(variants):
        raise InvalidError(
            f"There is no variant {arguments.variant}: they are numbered 0 to {len(variants) - 1}.", "variant"
        )
    require_parent_folder(arguments.save_map, "save_map")
    note_stream = sys.stderr if arguments.json else sys.stdout
    note_stream.writelines(f"{line}\n" for line in (*loaded.notes, *describe_variants(variants, task), ""))
    decision = decide_with_progress(arguments, task, variants)
    lines = _decision_lines(task, decision)
    exit_code = write([json.dumps(decision.to_dict(), allow_nan=False)] if arguments.json else lines)
    if arguments.save_map is not None:
        index_by_name = {"chosen": decision.chosen, "smallest": decision.smallest}
        index = int(arguments.variant) if arguments.variant.isdecimal() else index_by_name[arguments.variant]
        variant = variants[index]
        note_stream.write(save_map(map_of(task, variant), arguments.save_map, variant.name, "save_map"))
    return exit_code


def require_parent_folder(path: Path | None, field: str) -> None:
    """Raise InvalidError unless the folder of a file to write exists; ``path`` is None if none is to be written."""
    if path is not None and not path.absolute().parent.is_dir():
        raise InvalidError(f"There is no folder {path.absolute().parent}: create it first.", field)


def save_map(fitted: Map | Bridge, path: Path, target: str, field: str) -> str:
    """Write a map as safetensors; return text that names its ``target``, such as a variant, with NumPy to apply it."""
    try:
        save_file(fitted.tensors(), path, fitted.metadata())
    except OSError as error:
        raise InvalidError(f"{path} could not be written: {error.strerror}.", field) from error
    return f"\n{path} maps vectors to {target}. To apply it:\n\n{fitted.numpy_code(path.name)}"


def read_task(arguments: Namespace, vectors: str | list[str] | None) -> tuple[LoadedTask, JudgingTask]:
    """Load the task of the files with ``vectors``, or the likeliest if None; sample labeled rows without ``--full``."""
    similarity = Similarity(arguments.similarity)
    files = TaskFiles(
        arguments.corpus, arguments.queries, qrels=arguments.qrels, pairs=arguments.pairs, labels=arguments.labels,
        annotations=arguments.annotations, vectors=vectors, ids=arguments.ids, groups=arguments.groups,
        split=arguments.split,
    )  # fmt: skip
    loaded = task_of_vectors(files, *read_files(files), similarity, arguments.seed)
    if arguments.labels is not None and not arguments.full:
        if len(arguments.vectors or ()) < 2:  # several vectors are judged on the same rows, whatever their dimensions
            loaded = sample_labels(loaded, arguments.seed)
        if arguments.full is not None:  # the command has the option
            loaded.notes.append("Only remedies that take seconds are tried. --full tries all.")
    with value_errors_as_invalid():
        return loaded, JudgingTask(loaded.corpus, loaded.truth, similarity, arguments.seed, arguments.metric)


def select_variants(arguments: Namespace, task: JudgingTask) -> Sequence[Variant]:
    """Return all variants with ``--full``; else the remedies for a task of labels, and the default ones for others."""
    if arguments.full:
        return all_variants(task.setting)
    return (default_variants if arguments.labels is None else remedies)(task.setting)


def decide_with_progress(
    arguments: Namespace, task: JudgingTask, variants: Sequence[Variant], name: str | None = None
) -> Decision:
    """Decide among variants with a progress bar, which ``name`` labels."""
    bar = tqdm(total=len(variants), desc=name, unit=" variants", disable=None, leave=False)
    with bar, value_errors_as_invalid():
        return decide(task, variants, arguments.tolerance, progress=lambda _: bar.update())


def describe_variants(variants: Sequence[Variant], task: JudgingTask) -> Iterator[str]:
    yield f"{plural(len(variants), 'variant')}, judged by {METRICS[task.judged_by]}, {task.similarity}:"
    for index, variant in enumerate(variants):
        yield f"{index:4}  {variant.bytes_of(task.setting.d):6,} bytes  {variant.name}"


def _decision_lines(task: JudgingTask, decision: Decision) -> Iterator[str]:
    if decision.task == "compression":
        yield (
            "There is no ground truth, so only compression is judged: whether the same rows are found, not whether "
            "they are right."
        )
    yield (
        f"corpus {decision.n:,} x {decision.d:,}; "
        f"{task.truth.units}: {decision.fit_units:,} fit, {decision.choose_units:,} choose, "
        f"{decision.report_units:,} report"
    )
    score_headings = f"{'held out':>9}  {'difference [95%]':26}  {'gain [95%]':26}"
    yield f"{'':6}{'bytes':>7}{'IsoScore':>10}{score_headings}  variant"
    for index, result in enumerate(decision.variants):
        mark = ("*" if index == decision.chosen else " ") + ("+" if index == decision.smallest else " ")
        gain, low, high = map(format_signed, result.gain)
        gain_cell = f"{gain} [{low}, {high}]"
        scores = f"{result.report.value:9.3f}  {format_difference(result.report):26}  {gain_cell:26}"
        yield f"{mark}{index:3} {result.bytes:7,}{number(result.isoscore):>10}{scores}  {result.variant.name}"
    yield "* chosen: the best whose gain has an interval above 0, else as it is. + smallest within the tolerance of it."
    yield f"gain: on the {decision.choose_units:,} that choose; its intervals hold for all variants at once."
    yield f"held out, difference: on {decision.report_units:,} others. bytes: per vector. IsoScore: bias-corrected."
    for side, hubness in decision.hubness.items():
        top_hubs = ", ".join(f"{hub.id} ({hub.queries:,})" for hub in hubness.hubs[:3])
        skewness = f"skewness {number(hubness.skewness)}, {hubness.never:.0%} never found"
        yield f"hubness, {side}: {skewness}; most queries: {top_hubs}"
    yield ""
    yield decision.conclusion


class JudgedVectors(NamedTuple):
    """The name of an embedding, and the decision among its variants."""

    name: str
    decision: Decision

    @property
    def scored_baseline(self) -> ScoredEmbedding:
        baseline = self.decision.variants[BASELINE]
        return ScoredEmbedding(self.name, baseline.isoscore, baseline.report.value)

    @property
    def ranked_choice(self) -> RankedEmbedding:
        chosen = self.decision.variants[self.decision.chosen]
        report = chosen.report
        return RankedEmbedding(self.name, chosen.choose_score, report.value, report.low, report.high)


def print_decisions(arguments: Namespace) -> int:
    """Print a comparison of embeddings of the same rows by one task, each unchanged and as its chosen variant."""
    names = [",".join(columns) for columns in arguments.vectors]
    if arguments.qrels is None and arguments.pairs is None and arguments.labels is None:
        raise InvalidError(
            "Several --vectors need ground truth: vectors as they are always score 1 without. Give --qrels, --pairs or "
            "--labels, or one --vectors.",
            "vectors",
        )
    if repeated_names := [name for index, name in enumerate(names) if name in names[:index]]:
        raise InvalidError(f"--vectors names {quote(repeated_names[0])} twice. Name it once.", "vectors")
    if arguments.save_map is not None:
        raise InvalidError("--save-map writes the map of one embedding. Give one --vectors.", "save_map")
    if arguments.list and arguments.json:
        raise InvalidError("--list with --json is of one embedding. Give one --vectors, or leave out --json.", "list")
    note_stream = sys.stderr if arguments.json or arguments.list else sys.stdout
    names_by_variant_lines: dict[tuple[str, ...], list[str]] = {}
    n_corpus = None
    for name, vectors in zip(names, arguments.vectors, strict=True):  # report errors before hours of evaluation
        loaded, task = read_task(arguments, vectors)
        n_corpus = n_corpus or len(task.corpus)
        if len(task.corpus) != n_corpus:
            n_rows = plural(len(task.corpus), "row")
            raise InvalidError(
                f"{quote(name)} has {n_rows}, {quote(names[0])} {n_corpus:,}. Choose vectors of the same rows.",
                "vectors",
            )
        variant_lines = tuple(describe_variants(select_variants(arguments, task), task))
        names_by_variant_lines.setdefault(variant_lines, []).append(name)
        note_stream.writelines(f"{name}: {note}\n" for note in loaded.notes)
    lines = [
        line
        for variant_lines, sharing_names in names_by_variant_lines.items()
        for line in (f"{', '.join(sharing_names)}:", *variant_lines)
    ]
    if arguments.list:
        return write(lines)
    note_stream.writelines(f"{line}\n" for line in (*lines, ""))
    judged_vectors = []
    for name, vectors in zip(names, arguments.vectors, strict=True):
        _, task = read_task(arguments, vectors)
        decision = decide_with_progress(arguments, task, select_variants(arguments, task), name)
        judged_vectors.append(JudgedVectors(name, decision))
    if arguments.json:
        return write([json.dumps(decisions_document(judged_vectors), allow_nan=False)])
    return write(_comparison_lines(judged_vectors, task.truth.units))


def decisions_document(judged_vectors: Sequence[JudgedVectors]) -> dict[str, Any]:
    """Return the decision of each embedding, and how isotropy and score relate over all of them, as JSON."""
    relation = relation_of([vectors.scored_baseline for vectors in judged_vectors])
    first_decision = judged_vectors[0].decision
    return {
        "task": first_decision.task.value,
        "metric": first_decision.metric,
        "similarity": first_decision.similarity.value,
        "embeddings": [{"name": vectors.name, **vectors.decision.to_dict()} for vectors in judged_vectors],
        "relation": None if relation is None else relation._asdict(),
        "conclusion": _conclusion(judged_vectors),
    }


def _conclusion(judged_vectors: Sequence[JudgedVectors]) -> str:
    """Say which vectors score highest by the chosen variants, and whether the more isotropic ones do."""
    metric = judged_vectors[0].decision.metric
    leader = describe_leader([vectors.ranked_choice for vectors in judged_vectors], metric)
    relation = describe_relation([vectors.scored_baseline for vectors in judged_vectors], metric)
    return f"{leader} {relation}"


def _comparison_lines(judged_vectors: Sequence[JudgedVectors], units: str) -> Iterator[str]:
    metric = METRICS[judged_vectors[0].decision.metric]
    score_headings = ("IsoScore", f"{metric} [95%]")
    headings = ["vectors", *score_headings, "chosen variant", *score_headings, "reported on"]
    rows = []
    for vectors in judged_vectors:
        decision = vectors.decision
        baseline, chosen = decision.variants[BASELINE], decision.variants[decision.chosen]
        baseline_cells, chosen_cells = (
            (number(result.isoscore), f"{result.report.value:.3f} [{result.report.low:.3f}, {result.report.high:.3f}]")
            for result in (baseline, chosen)
        )
        rows.append([vectors.name, *baseline_cells, chosen.variant.name, *chosen_cells, f"{decision.report_units:,}"])
    yield from table(headings, rows)
    if len({vectors.decision.report_units for vectors in judged_vectors}) > 1:
        yield f"Vectors with other exact copies are split otherwise: scores are not on all the same {units}."
    yield "Scores are reported on held-out rows. IsoScore is bias-corrected, so it can exceed 1."
    yield ""
    yield _conclusion(judged_vectors)
    for vectors in judged_vectors:
        yield f"{vectors.name}: {vectors.decision.conclusion}"
