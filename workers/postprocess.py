"""The jobs of the lab: evaluate a method on held-out rows, and apply its map to all rows."""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from sqlalchemy import delete, select
from torch import Tensor

from app.core.settings import Settings
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingStatus, PostProcessing, ResultStatus, StoredFile, TaskRun
from app.db.models.embeddings import MAP_IDS_IN_USE, SAMPLE_SEED
from app.db.session import Sessions
from app.db.task import MapVariant
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import ConflictError, NotFoundError, value_errors_as_invalid
from isoscope.files.ground_truth import id_column
from isoscope.files.matrix import Matrix
from isoscope.files.selection import Selection
from isoscope.rows import draw_rows, values_of
from isotropy.catalog import Similarity, measures_in
from isotropy.cloud import read_cloud
from isotropy.neighbors import first_equal_rows
from isotropy.postprocess.held_out import HeldOut, held_out
from isotropy.postprocess.methods import fit, restore
from isotropy.report import measure
from isotropy.rows import Rows, finite_rows, group_numbers
from isotropy.tasks.maps import Map
from isotropy.tasks.variants import Variant
from workers.embeddings.measure import measurement_columns
from workers.embeddings.neighbors import K, find_named_neighbors, first_named_rows
from workers.files import ARRAY, GROUP, ID, LABEL, NAME, fetch, make_jsonl, make_npy, open_embedding, storing_files
from workers.job_rows import ResultJob, lock_waiting_row, make_file_rows, run_embedding_job, run_result_job

FIT_FRACTION = 0.5
COMPARED_MEASURES = measures_in("lab")
MOMENT_SLUGS = tuple(measure.slug for measure in COMPARED_MEASURES if measure.group in ("spread", "directions"))
"""Measures from one pass over the rows, taken on the fitted rows too."""
FIGURE_SLUGS = tuple(measure.slug for measure in measures_in("lab figures"))
"""Measures whose figures show more than the value."""
MEASURED_SLUGS = tuple(dict.fromkeys((*(measure.slug for measure in COMPARED_MEASURES), *FIGURE_SLUGS)))
MAX_MAPS_BYTES = 256 * 2**20
"""Limit for the fitted maps of an embedding, d^2 numbers each; beyond it, the oldest trials are deleted."""
NAMED_ROWS = 200
"""Rows whose neighbors can be looked up."""


@dataclass(frozen=True, eq=False)
class LabSample:
    """The rows of a trial in random order, with their names, labels and groups, if any."""

    points: Tensor
    names: list[str] | None
    labels: list[str] | None
    groups: list[str] | None = None
    similarity: Similarity = Similarity.COSINE

    @cached_property
    def first_equal_indices(self) -> Tensor:
        """For each row, the index of the first equal row, [n] int64."""
        return first_equal_rows(self.points)

    @cached_property
    def split_groups(self) -> Tensor:
        """Numbers of the groups, or without groups of equal rows, [n] int64: each is fitted on or held out as one."""
        if self.groups is None:
            return self.first_equal_indices
        return torch.from_numpy(group_numbers(self.groups))


def _post_process(job: ResultJob[PostProcessing]) -> None:
    """Try a method on the CPU and store its map. Delete the embedding's oldest trials beyond MAX_MAPS_BYTES."""
    job.require_current_vectors(is_current=job.row.fits_selection_of(job.embedding))
    matrix = open_embedding(job.embedding, job.settings)
    points, rows = draw_rows(matrix, SAMPLE_SEED)
    selection = matrix.selection
    names, labels, groups = (
        values_of(matrix, column, rows) for column in (selection.names, selection.labels, selection.groups)
    )
    sample = LabSample(points, names, labels, groups, selection.similarity)
    trial = run_trial(job.row.method, job.row.parameters, sample)
    earlier_measurements = _find_earlier_measurements(job.embedding, trial, job.sessions)
    results = make_results(trial, sample, earlier_measurements)
    usage = "isotropy.postprocess.methods.restore(method, tensors).apply(points)"
    metadata = {"method": job.row.method, "use": usage}
    ledger = Ledger(job.sessions, open_storage(job.settings))
    with storing_files(ledger) as store_file:
        stored_map = store_file(partial(io.BytesIO, save(trial.fitted.state(), metadata)))
        with ledger.recording(stored_map) as session:
            job.fill(session, results=results, state_sha256=stored_map.sha256)
            # This trial comes first, then earlier ones, newest first. Trials whose map is in use are not deleted.
            sizes_query = (
                select(PostProcessing.id, StoredFile.size_bytes)
                .join(StoredFile, StoredFile.sha256 == PostProcessing.state_sha256)
                .where(PostProcessing.embedding_id == job.row.embedding_id)
                .order_by(PostProcessing.id != job.row.id, PostProcessing.created_at.desc(), PostProcessing.id)
            )
            ids_and_sizes = session.execute(sizes_query).all()
            totals = accumulate(map_bytes for _, map_bytes in ids_and_sizes)
            excess_ids = [
                trial_id for (trial_id, _), total in zip(ids_and_sizes, totals, strict=True) if total > MAX_MAPS_BYTES
            ]
            removal = delete(PostProcessing).where(
                PostProcessing.id.in_(excess_ids),
                PostProcessing.id != job.row.id,
                PostProcessing.id.not_in(MAP_IDS_IN_USE),
            )
            removed_hashes = session.scalars(removal.returning(PostProcessing.state_sha256)).all()
    ledger.release(*removed_hashes)


post_process = partial(run_result_job, PostProcessing, _post_process)


def run_trial(method: str, parameters: dict[str, Any], sample: LabSample) -> HeldOut:
    """Fit a method on a random half of the rows, and apply it to the other half.

    Rows of one group (``LabSample.split_groups``) stay together, so that the held-out rows are new to the fit. Raises
    InvalidError if the method cannot be fitted on these rows with these parameters.
    """
    with value_errors_as_invalid():
        groups = sample.split_groups
        return held_out(sample.points, lambda x: fit(method, x, **parameters), FIT_FRACTION, SAMPLE_SEED, groups=groups)


def make_results(
    trial: HeldOut, sample: LabSample, earlier_measurements: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return ``PostProcessing.results``. ``earlier_measurements`` are those before the map; None to measure them."""
    labels, groups = (_select_rows(annotation, trial.held_out_rows) for annotation in (sample.labels, sample.groups))
    fit_groups = _select_rows(sample.groups, trial.fit_rows)
    neighbors = None
    if sample.names is not None:
        # The first names are a random sample, because the rows are shuffled. All rows are searched, as on the map.
        queries = first_named_rows(sample.names, sample.points, trial.held_out_rows, NAMED_ROWS)
        mapped = trial.fitted.apply(sample.points)
        nearest = find_named_neighbors(sample.names, sample.points, mapped, queries, similarity=sample.similarity)
        neighbors = {"k": K, "similarity": sample.similarity.value, "rows": len(sample.points), "of": nearest}
    return {
        "rows": len(sample.points),
        "distinct": len(torch.unique(sample.first_equal_indices)),
        "fit_rows": len(trial.fit_rows),
        "seed": SAMPLE_SEED,
        "before": earlier_measurements
        or _measure_rows(Rows(trial.held_out.before.numpy(), labels, groups), MEASURED_SLUGS),
        "after": _measure_rows(Rows(trial.held_out.after.numpy(), labels, groups), MEASURED_SLUGS),
        "in_sample": _measure_rows(Rows(trial.in_sample.after.numpy(), None, fit_groups), MOMENT_SLUGS),
        "neighbours": neighbors,
    }


def _select_rows(annotation: list[str] | None, rows: Tensor) -> list[str] | None:
    return None if annotation is None else [annotation[row] for row in rows.tolist()]


def _find_earlier_measurements(embedding: Embedding, trial: HeldOut, sessions: Sessions) -> dict[str, Any] | None:
    """Return an earlier trial's measurements of the same held-out rows before the map; None without any."""
    trials = select(PostProcessing).where(
        PostProcessing.embedding_id == embedding.id, PostProcessing.status == ResultStatus.READY
    )
    with sessions() as session:
        earlier_trial = session.scalar(trials.order_by(PostProcessing.created_at.desc()).limit(1))
    if earlier_trial is None or earlier_trial.results is None or not earlier_trial.fits_selection_of(embedding):
        return None
    results = earlier_trial.results
    before: dict[str, Any] = results["before"]
    # Earlier versions split equal rows apart and did not store the number of distinct rows, nor resampled scores.
    fit_size_and_seed = (len(trial.fit_rows), SAMPLE_SEED)
    is_same_split = "distinct" in results and (results["fit_rows"], results["seed"]) == fit_size_and_seed
    has_resamples = all("resampled" in result for result in before.values())
    return before if is_same_split and has_resamples and set(before) == set(MEASURED_SLUGS) else None


def _measure_rows(points: Rows, slugs: Sequence[str]) -> dict[str, Any]:
    """Return the ``Measurement`` columns of each measure, without details that no figure shows."""
    return {
        slug: measurement_columns(slug, result if slug in FIGURE_SLUGS else result._replace(detail=None))
        for slug, result in measure(read_cloud(points), slugs).items()
    }


ANNOTATIONS = "annotations.jsonl"


def _make(embedding: Embedding, settings: Settings, sessions: Sessions) -> Sequence[Job]:
    """Compute the vectors of a requested embedding, and queue its inspection as for an upload."""
    with sessions() as session:
        source = session.get(Embedding, embedding.source_id or "")
        trial = session.get(PostProcessing, embedding.made_by_id or "")
        task = session.get(TaskRun, embedding.made_by_id or "")
    if source is None:
        raise NotFoundError("The embedding to make this from was deleted. Try a method on another embedding.")
    matrix = open_embedding(source, settings)
    variant: MapVariant | None = (embedding.provenance or {}).get("which")  # None for the map of a trial
    if variant is None:
        mapping = _load_trial_map(matrix, source, trial, settings)
    else:
        mapping = _load_task_map(source, task, variant, settings)
    return _store_embedding(embedding, matrix, mapping, Ledger(sessions, open_storage(settings)))


make_embedding = partial(run_embedding_job, EmbeddingStatus.MAKING, _make)


class RowMapping(NamedTuple):
    """A map of vectors, with the dimension and dtype of its output."""

    d: int
    dtype: np.dtype[Any]
    apply: Callable[[Tensor], Tensor]


def map_rows(matrix: Matrix, mapping: RowMapping) -> Iterator[NDArray[Any]]:
    """Yield the mapped rows in order, in blocks.

    Rows with NaN or infinity stay, cut to the new dimension, so that row numbers do not shift. Raises InvalidError if
    the map does not fit the dimensions of the rows.
    """
    for chunk, is_finite in finite_rows(matrix):
        with value_errors_as_invalid():
            mapped_rows = mapping.apply(chunk[is_finite])
        block = chunk[:, : mapping.d].to(mapped_rows.dtype)
        block[is_finite] = mapped_rows
        yield block.numpy()


def _load_task_map(source: Embedding, task: TaskRun | None, variant_name: MapVariant, settings: Settings) -> RowMapping:
    """Return a map that a task stored; raise ConflictError if it was not fitted on the selected vectors."""
    if task is None or task.results is None or source.id not in (task.embedding_id, task.queries_id):
        raise ConflictError(
            f"The task whose map makes this embedding was deleted, or other vectors of {source.name} have been "
            "selected since. Judge the vectors again first."
        )
    results, is_chosen = task.results, variant_name == "chosen"
    scored_variant = results.variants[results.chosen if is_chosen else results.smallest]
    variant = Variant(scored_variant.method, tuple(scored_variant.parameters.items()))
    sha256 = (task.chosen_sha256 if is_chosen else task.smallest_sha256) or ""
    tensors = load_file(fetch(sha256, f"map.safetensors of {source.name!r}", settings))
    mapping = Map.from_tensors(variant, results.similarity, tensors)
    return RowMapping(
        mapping.matrix.shape[1],
        np.dtype(np.float32),
        # In NumPy and float64, so that the vectors are those of the task's exported code.
        lambda points: torch.from_numpy(mapping.apply(points.double().numpy())),
    )


def _load_trial_map(matrix: Matrix, source: Embedding, trial: PostProcessing | None, settings: Settings) -> RowMapping:
    """Return the map that a trial fitted; raise ConflictError if it was not fitted on the selected vectors."""
    if trial is None:
        raise ConflictError(
            f"The trial that fitted the map of this embedding no longer exists: other vectors of {source.name} have "
            "been selected since, or newer trials replaced it. Try the method again first."
        )
    if trial.state_sha256 is None or not trial.fits_selection_of(source):
        raise ConflictError(f"Other vectors of {source.name} have been selected since. Try the method on them first.")
    tensors = load_file(fetch(trial.state_sha256, f"map.safetensors of {source.name!r}", settings))
    return RowMapping(matrix.d, matrix.dtype, restore(trial.method, tensors).apply)


def _store_embedding(embedding: Embedding, matrix: Matrix, mapping: RowMapping, ledger: Ledger) -> Sequence[Job]:
    """Store the files and queue their inspection, unless the row no longer waits for them."""
    selection, contents = matrix.selection, matrix.contents
    ids = id_column(annotation.name for annotation in contents.annotations if annotation.n == matrix.n)
    source_columns = {NAME: selection.names, LABEL: selection.labels, GROUP: selection.groups, ID: ids}
    source_by_column = {column: source for column, source in source_columns.items() if source is not None}
    annotation_files = []
    with storing_files(ledger) as store_file:
        vectors = store_file(lambda: make_npy(matrix.n, mapping.d, mapping.dtype, map_rows(matrix, mapping)))
        if source_by_column:
            stored_annotations = store_file(
                lambda: make_jsonl({column: contents.values(source) for column, source in source_by_column.items()})
            )
            annotation_files.append((ANNOTATIONS, stored_annotations))
        with ledger.recording(vectors, *(stored for _, stored in annotation_files)) as session:
            if (row := lock_waiting_row(session, embedding)) is None:
                return ()
            row.files = make_file_rows((embedding.filename, vectors), *annotation_files)
            row.selection = Selection(
                vectors=ARRAY,
                names=None if selection.names is None else NAME,
                labels=None if selection.labels is None else LABEL,
                groups=None if selection.groups is None else GROUP,
            ).model_dump()
            row.commit_when_inspected = True
            row.status = EmbeddingStatus.INSPECTING
            row.attempts = 0
            row.error = None
    return (Job(job_kinds.INSPECT, embedding.id),)
