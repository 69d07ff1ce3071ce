"""``isoscope upgrade``: whether to stay with a model, to bridge a new one into its vectors, or to embed again."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.cli.printing import table, write
from isoscope.core.errors import InvalidError, value_errors_as_invalid
from isoscope.core.formatting import plural, quote
from isoscope.decide import require_parent_folder, save_map
from isoscope.files.ground_truth import NamedVectors, RowIds
from isoscope.task_files import TaskFiles, read_files, task_of_vectors
from isotropy.catalog import METRICS, Similarity
from isotropy.tasks.decision import format_difference
from isotropy.tasks.judge import JudgingTask
from isotropy.tasks.upgrade import Upgrade, UpgradeTask, judge_upgrade


class SharedTexts(NamedTuple):
    """Old and new vectors [n, d] and [n, e] of the texts in both files, and sentences about texts in only one."""

    old: NamedVectors
    new: NamedVectors
    unsampled: NDArray[np.float32]  # [u, d], the old vectors of texts without a new one
    notes: list[str]


def print_upgrade(arguments: Namespace) -> int:
    """Print the verdict, and save the bridge with ``--save-bridge``; return the exit code."""
    require_parent_folder(arguments.save_bridge, "save_bridge")
    with value_errors_as_invalid():
        task, notes = read_upgrade(arguments)
        upgrade, bridge = judge_upgrade(task, arguments.retain)
    note_stream = sys.stderr if arguments.json else sys.stdout
    note_stream.writelines(f"{note}\n" for note in notes)
    lines = _upgrade_lines(task, upgrade)
    exit_code = write([json.dumps(upgrade.to_dict(), allow_nan=False)] if arguments.json else lines)
    if arguments.save_bridge is not None:
        note_stream.write(save_map(bridge, arguments.save_bridge, arguments.old.name, "save_bridge"))
    return exit_code


def read_upgrade(arguments: Namespace) -> tuple[UpgradeTask, list[str]]:
    """Read the vectors of both models and the ground truth; return the task and sentences about rows left out."""
    vectors = arguments.vectors or [None]  # a single name is for both files
    if len(vectors) > 2:
        raise InvalidError("--vectors names old and new vectors: give it at most twice.", "vectors")
    old_queries_file, new_queries_file = arguments.queries or (None, None)
    files = TaskFiles(
        [arguments.old], old_queries_file, qrels=arguments.qrels, pairs=arguments.pairs, labels=arguments.labels,
        annotations=arguments.annotations, vectors=vectors[0], ids=arguments.ids, groups=arguments.groups,
        split=arguments.split,
    )  # fmt: skip
    new_files = TaskFiles([arguments.new], new_queries_file, vectors=vectors[-1], ids=arguments.ids)
    similarity, seed = Similarity(arguments.similarity), arguments.seed
    (old, old_queries), (new, new_queries) = read_files(files), read_files(new_files)
    corpus = match_texts(old, new)
    queries = old_queries and new_queries and match_texts(old_queries, new_queries)
    old_loaded = task_of_vectors(files, corpus.old, queries and queries.old, similarity, seed)
    new_loaded = task_of_vectors(files, corpus.new, queries and queries.new, similarity, seed)
    judging_task = JudgingTask(old_loaded.corpus, old_loaded.truth, similarity, seed, arguments.metric)
    n_to_embed = len(corpus.unsampled) or len(old.x)
    task = UpgradeTask(judging_task, new_loaded.corpus, new_loaded.truth.query_vectors, n_to_embed, corpus.unsampled)
    return task, [*corpus.notes, *(queries.notes if queries else ()), *old_loaded.notes]


def match_texts(old: NamedVectors, new: NamedVectors) -> SharedTexts:
    """Match rows by ids if both files have them, else by order; raise InvalidError if the files do not fit."""
    for vectors in (old, new):
        if (vectors.x == vectors.x[0]).all():
            raise InvalidError(f"All vectors of {vectors.filename} are equal: there is nothing to search for.", "new")
    has_ids = old.row_ids.column is not None and new.row_ids.column is not None
    if not has_ids and len(old.x) != len(new.x):
        raise InvalidError(
            f"{old.filename} has {plural(len(old.x), 'row')}, {new.filename} {len(new.x):,}. Give vectors of the same "
            "texts in order, or a column of ids in both files by --ids.",
            "new",
        )
    new_rows = np.array(new.row_ids.rows(old.ids)) if has_ids else np.arange(len(new.x))
    old_rows = (new_rows >= 0).nonzero()[0]
    if not len(old_rows):
        raise InvalidError(
            f"No id of {new.filename}, such as {quote(new.ids[0])}, is one of {old.filename}, such as "
            f"{quote(old.ids[0])}: give vectors of the same texts, or choose their column by --ids.",
            "new",
        )
    ids = (old if old.row_ids.column is not None else new).ids
    shared = NamedVectors(
        old.filename,
        old.x[old_rows],
        RowIds(old.filename, [ids[row] for row in old_rows], old.row_ids.column or new.row_ids.column),
        old.groups and [old.groups[row] for row in old_rows],
        old.labels and [old.labels[row] for row in old_rows],
    )
    counts = f"{len(old.x):,} rows of {old.filename} and {len(new.x):,} of {new.filename}"
    notes = [] if len(old.x) == len(new.x) == len(old_rows) else [f"{plural(len(old_rows), 'text')} are in {counts}."]
    shared_new = replace(shared, filename=new.filename, x=new.x[new_rows[old_rows]])
    return SharedTexts(shared, shared_new, np.delete(old.x, old_rows, 0), notes)


def _upgrade_lines(task: UpgradeTask, upgrade: Upgrade) -> Iterator[str]:
    units = f"{task.old.truth.units}: {upgrade.choose_units:,} choose, {upgrade.report_units:,} report"
    yield f"old vectors: {upgrade.n:,}, of the same texts: {upgrade.sampled:,}; {units}"
    yield f"bridge: {upgrade.bridge}, fitted on {upgrade.fit_texts:,} texts"
    if upgrade.scores is not None:
        rows = [
            (name, f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]", format_difference(score))
            for name, score in upgrade.scores.items()
        ]
        yield from table(("", f"{METRICS[upgrade.metric]} [95%]", "difference [95%]"), rows)
    yield from ("", upgrade.conclusion)
