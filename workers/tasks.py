"""The job of a task run: score variants of an embedding's vectors on ground truth, and store two maps."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from safetensors.torch import save

from app.core.settings import Settings
from app.db.job_kinds import Job
from app.db.models import UNFINISHED_TASK, Embedding, TaskRun, TaskStatus
from app.db.task import QueryHubness, ScoreSoFar, TaskMaps, TaskResults
from app.db.types import utcnow
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope import task_files
from isoscope.core.errors import NotFoundError, value_errors_as_invalid
from isoscope.files.ground_truth import COLUMN_ADVICE, PAIRS, NamedVectors, read_ids, read_pairs, read_qrels, vectors_of
from isoscope.files.matrix import open_matrix
from isoscope.files.selection import Selection
from isoscope.remedies import sample_labels
from isoscope.rows import require_measurable
from isotropy.catalog import TruthKind
from isotropy.tasks.calibrate import calibrate
from isotropy.tasks.judge import JudgingTask, ScoredVariant, decide, map_of
from isotropy.tasks.variants import all_variants, default_variants, remedies
from workers.failure import record_error
from workers.files import fetch, fetch_upload, storing_files
from workers.job_rows import JobProgress, StoppedError, job_sessions

GROUP_COLUMN = PAIRS[-1]
TRUTH_FILE = "truth.jsonl"
"""The filename given to readers of stored ground truth: its suffix tells them the format."""
MAP_FILE = "map.safetensors"


@dataclass(frozen=True)
class _TaskJob:
    """A running task with its embeddings."""

    row: TaskRun
    corpus: Embedding
    queries: Embedding | None
    """The embedding of the queries; None for a task on the rows of ``corpus`` alone."""
    settings: Settings


def judge_task(task_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Score the variants of a task run; store the scores and the maps of the chosen and the smallest variant.

    A final or deleted task run stays as it is. After a kill, the job starts over.
    """
    sessions = job_sessions(settings)
    initial_values: dict[str, Any] = {"done": 0, "total": None, "judged": None}
    begun = JobProgress.begin(sessions, TaskRun, UNFINISHED_TASK, TaskStatus.RUNNING, task_id, **initial_values)
    if begun is None:
        return ()
    row, progress = begun
    try:
        with sessions() as session:
            corpus = session.get_one(Embedding, row.embedding_id)
            queries = None if row.queries_id is None else session.get_one(Embedding, row.queries_id)
        _judge(_TaskJob(row, corpus, queries, settings), progress)
    except StoppedError:
        pass
    except Exception as error:  # noqa: BLE001 - any but temporary errors belong in the row
        record_error(error, sessions, progress.update_running, status=TaskStatus.FAILED, finished_at=utcnow())
    return ()


def _judge(job: _TaskJob, progress: JobProgress) -> None:
    loaded = _load_task(job)
    config = job.row.config
    scores: list[ScoreSoFar] = []

    def advance(scored: ScoredVariant) -> None:
        scores.append(
            ScoreSoFar(
                name=scored.variant.name, bytes=scored.bytes, isoscore=scored.isoscore, choose=scored.choose_score
            )
        )
        progress.advance(len(scores), judged=scores)

    with value_errors_as_invalid():
        task = JudgingTask(loaded.corpus, loaded.truth, config.similarity, config.seed, config.metric)
        list_variants = remedies if config.remedies else all_variants if config.full else default_variants
        variants = list_variants(task.setting)
        progress.write_and_commit(total=len(variants), notes=loaded.notes)
        decision = decide(task, variants, config.tolerance, advance)
        chosen, smallest = (map_of(task, variants[index]) for index in (decision.chosen, decision.smallest))
    calibrated = None
    if config.kind is not TruthKind.COMPRESSION:
        try:
            calibrated = calibrate(task, config.match)
        except ValueError as error:
            loaded.notes.append(f"There is no cutoff. {error}")
    hubness = {side: QueryHubness.model_validate(values.to_dict()) for side, values in decision.hubness.items()}
    ledger = Ledger(progress.sessions, open_storage(job.settings))
    with storing_files(ledger) as store_file:
        stored_maps = [
            store_file(partial(io.BytesIO, save(mapping.tensors(), mapping.metadata())))
            for mapping in (chosen, smallest, *([calibrated.mapping] if calibrated else []))
        ]
        chosen_file, smallest_file, *cutoff_files = stored_maps
        with ledger.recording(*stored_maps) as session:
            progress.write(
                session,
                status=TaskStatus.FINISHED,
                done=len(decision.variants),
                judged=None,
                error=None,
                notes=loaded.notes,
                results=TaskResults.model_validate(
                    decision.to_dict()
                    | {"hubness": hubness, "calibration": None if calibrated is None else calibrated.calibration}
                ),
                maps=TaskMaps(chosen=chosen.numpy_code(MAP_FILE), smallest=smallest.numpy_code(MAP_FILE)),
                chosen_sha256=chosen_file.sha256,
                smallest_sha256=smallest_file.sha256,
                cutoff_sha256=cutoff_files[0].sha256 if cutoff_files else None,
                finished_at=utcnow(),
            )


def _load_task(job: _TaskJob) -> task_files.LoadedTask:
    """Read vectors and ground truth into memory; raise IsoscopeError if they do not make a valid task."""
    config, queries, groups = job.row.config, None, None
    if job.queries is not None:
        queries = _load_vectors(job.queries, job, "queries", config.query_ids, groups_column=config.groups)
    elif config.kind is not TruthKind.PAIRS:  # the file of pairs has its own groups
        groups = config.groups
    corpus = _load_vectors(job.corpus, job, "corpus", config.ids, labels_column=config.labels, groups_column=groups)
    if queries is not None:
        task_files.require_same_dimensions(corpus, queries)
    if config.kind is TruthKind.LABELS:
        loaded = task_files.labels_task(corpus)
        return sample_labels(loaded, config.seed) if config.remedies else loaded
    if config.kind is TruthKind.PAIRS or (config.kind is TruthKind.QUERIES and queries is not None):
        if job.row.truth_sha256 is None:
            raise NotFoundError("This task has no ground truth. Upload it again.")
        filename = job.row.filename or "the ground truth"
        path = fetch(job.row.truth_sha256, filename, job.settings)
        if config.kind is TruthKind.QUERIES and queries is not None:
            return task_files.qrels_task(corpus, queries, read_qrels(path, TRUTH_FILE), filename, COLUMN_ADVICE)
        return task_files.pairs_task(corpus, read_pairs(path, TRUTH_FILE, GROUP_COLUMN), filename, COLUMN_ADVICE)
    if queries is not None:
        return task_files.queries_task(corpus, queries, config.similarity)
    return task_files.compression_task(corpus, config.similarity, config.seed)


def _load_vectors(
    embedding: Embedding,
    job: _TaskJob,
    role: str,
    ids_column: str | None,
    *,
    labels_column: str | None = None,
    groups_column: str | None = None,
) -> NamedVectors:
    """Return an embedding's vectors with their ids, and the values of these columns, if any; errors name the role."""
    stored_selection = Selection.model_validate(embedding.selection)
    selection = stored_selection.model_copy(update={"labels": labels_column, "groups": groups_column})
    matrix = open_matrix(fetch_upload(embedding, job.settings), selection)
    require_measurable(matrix)
    row_ids = read_ids(matrix, embedding.name, ids_column, selection.names, role)
    if job.row.truth_sha256 is not None:
        row_ids.require_unique(role, COLUMN_ADVICE)
    else:  # without a file of ground truth that refers to them, ids only break ties
        row_ids = row_ids.without_repeats()
    return vectors_of(matrix, row_ids, role)
