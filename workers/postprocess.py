"""The jobs of the lab: judge a method on rows held out, and apply its map to all rows."""

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
from app.db.models.embeddings import MAKING_IDS, SAMPLE_SEED
from app.db.session import Sessions
from app.db.task import MapVariant
from app.storage import open_storage
from app.storage.ledger import Ledger
from isoscope.core.errors import ConflictError, InvalidError, NotFoundError
from isoscope.files.ground_truth import id_column
from isoscope.files.matrix import Matrix
from isoscope.files.selection import Selection
from isoscope.rows import draw_rows, values_of
from isotropy.catalog import measures_in
from isotropy.cloud import read_cloud
from isotropy.neighbours import first_equal_rows
from isotropy.postprocess.held_out import HeldOut, held_out
from isotropy.postprocess.methods import fit, restore
from isotropy.report import measure
from isotropy.rows import Rows, finite_rows, group_numbers
from isotropy.tasks.maps import Map
from isotropy.tasks.variants import Variant
from workers.embeddings.measure import columns_of
from workers.embeddings.neighbours import K, first_named, named_neighbours
from workers.files import ARRAY, GROUP, ID, LABEL, NAME, fetch, jsonl_file, keeping, npy_file, open_embedding
from workers.job_rows import ResultJob, answer, fail, files_of, job_sessions, waiting

FRACTION = 0.5
COMPARED = measures_in("lab")
MOMENTS = tuple(measure.slug for measure in COMPARED if measure.group in ("spread", "directions"))
"""Taken of the rows fitted on too: one pass over them is enough."""
DRAWN = tuple(measure.slug for measure in measures_in("lab figures"))
"""Of which figures show more than the value."""
MEASURED = tuple(dict.fromkeys((*(measure.slug for measure in COMPARED), *DRAWN)))
MAPS_BYTES = 256 * 2**20
"""Of the fitted maps of an embedding, which take d^2 numbers each; the oldest trials go."""
NAMED_ROWS = 200
"""Rows whose neighbors can be looked up."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows that a trial is of, in random order, with their names and labels where there are any."""

    points: Tensor
    names: list[str] | None
    labels: list[str] | None
    groups: list[str] | None = None

    @cached_property
    def firsts(self) -> Tensor:
        """[n] int64, for each row the first that equals it."""
        return first_equal_rows(self.points)

    @cached_property
    def units(self) -> Tensor:
        """[n] int64, equal for rows that are fitted on or held out together: of one group, or equal."""
        if self.groups is None:
            return self.firsts
        return torch.from_numpy(group_numbers(self.groups))


def _post_process(job: ResultJob[PostProcessing]) -> None:
    """Try a method on the CPU, and store its results and fitted map."""
    job.check(current=job.row.fits_selection_of(job.embedding))
    matrix = open_embedding(job.embedding, job.settings)
    points, rows = draw_rows(matrix, SAMPLE_SEED)
    selection = matrix.selection
    names, labels, groups = (
        values_of(matrix, column, rows) for column in (selection.names, selection.labels, selection.groups)
    )
    sample = Drawn(points, names, labels, groups)
    trial = try_out(job.row.method, job.row.parameters, sample)
    earlier_measurements = _known_before(job.embedding, trial, job.sessions)
    # Store map and results, unless the row no longer waits for them.
    results = results_of(trial, sample, earlier_measurements)
    use = "isotropy.postprocess.methods.restore(method, tensors).apply(points)"
    metadata = {"method": job.row.method, "use": use}
    ledger = Ledger(job.sessions, open_storage(job.settings))
    with keeping(ledger) as keep:
        stored_map = keep(partial(io.BytesIO, save(trial.fitted.state(), metadata)))
        with ledger.recording(stored_map) as session:
            job.fill(session, results=results, state_sha256=stored_map.sha256)
            newest_first = (
                select(PostProcessing.id, StoredFile.size_bytes)
                .join(StoredFile, StoredFile.sha256 == PostProcessing.state_sha256)
                .where(PostProcessing.embedding_id == job.row.embedding_id)
                .order_by(PostProcessing.id != job.row.id, PostProcessing.created_at.desc(), PostProcessing.id)
            )
            maps = session.execute(newest_first).all()  # empty if this row was deleted and has no siblings
            totals = accumulate(size for _, size in maps)
            excess_ids = [trial_id for (trial_id, _), total in zip(maps, totals, strict=True) if total > MAPS_BYTES]
            removal = delete(PostProcessing).where(
                PostProcessing.id.in_(excess_ids), PostProcessing.id != job.row.id, PostProcessing.id.not_in(MAKING_IDS)
            )
            removed_hashes = session.scalars(removal.returning(PostProcessing.state_sha256)).all()
    ledger.release(*removed_hashes)


post_process = partial(answer, PostProcessing, _post_process)


def try_out(method: str, parameters: dict[str, Any], drawn: Drawn) -> HeldOut:
    """Fit a method on a random half of the rows, and apply it to the other half.

    Rows of one unit (``Drawn.units``) stay together, so that the held-out rows are new to the fit.

    Raises:
        InvalidError: the method cannot be fitted on these rows with these parameters.

    """
    try:
        return held_out(drawn.points, lambda x: fit(method, x, **parameters), FRACTION, SAMPLE_SEED, groups=drawn.units)
    except ValueError as error:
        raise InvalidError(str(error)) from error


def results_of(trial: HeldOut, drawn: Drawn, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the document for ``PostProcessing.results``; ``before`` holds earlier measurements, if any."""
    labels, groups = (_select_rows(annotation, trial.held_out_rows) for annotation in (drawn.labels, drawn.groups))
    fit_groups = _select_rows(drawn.groups, trial.fit_rows)
    neighbors = None
    if (names := _select_rows(drawn.names, trial.held_out_rows)) is not None:
        # The first names are a random sample, as the rows are shuffled. Neighbors are held-out rows too.
        x, mapped = trial.held_out.before, trial.held_out.after
        queries = first_named(names, x, torch.arange(len(names)), NAMED_ROWS)
        neighbors = {"k": K, "rows": len(names), "of": named_neighbours(names, x, mapped, queries)}
    return {
        "rows": len(drawn.points),
        "distinct": len(torch.unique(drawn.firsts)),
        "fit_rows": len(trial.fit_rows),
        "seed": SAMPLE_SEED,
        "before": before or _measure_rows(Rows(trial.held_out.before.numpy(), labels, groups), MEASURED),
        "after": _measure_rows(Rows(trial.held_out.after.numpy(), labels, groups), MEASURED),
        "in_sample": _measure_rows(Rows(trial.in_sample.after.numpy(), None, fit_groups), MOMENTS),
        "neighbours": neighbors,
    }


def _select_rows(annotation: list[str] | None, rows: Tensor) -> list[str] | None:
    return None if annotation is None else [annotation[row] for row in rows.tolist()]


def _known_before(embedding: Embedding, trial: HeldOut, sessions: Sessions) -> dict[str, Any] | None:
    """Return an earlier trial's measurements of the same held-out rows before the map; None without any."""
    trials = select(PostProcessing).where(
        PostProcessing.embedding_id == embedding.id, PostProcessing.status == ResultStatus.READY
    )
    with sessions() as session:
        earlier_trial = session.scalar(trials.order_by(PostProcessing.created_at.desc()).limit(1))
    if (
        earlier_trial is None
        or (results := earlier_trial.results) is None
        or not earlier_trial.fits_selection_of(embedding)
    ):
        return None
    before: dict[str, Any] = results["before"]
    # Earlier versions split equal rows apart and did not store the number of distinct rows.
    split = len(trial.fit_rows), SAMPLE_SEED
    is_same_split = "distinct" in results and (results["fit_rows"], results["seed"]) == split
    has_resamples = all("resampled" in result for result in before.values())
    return before if is_same_split and has_resamples and set(before) == set(MEASURED) else None


def _measure_rows(points: Rows, slugs: Sequence[str]) -> dict[str, Any]:
    """Return the ``Measurement`` columns of each measure, without details that no figure shows."""
    return {
        slug: columns_of(slug, result if slug in DRAWN else result._replace(detail=None))
        for slug, result in measure(read_cloud(points), slugs).items()
    }


ANNOTATIONS = "annotations.jsonl"


def make_embedding(embedding_id: str, settings: Settings, device: str) -> Sequence[Job]:
    """Compute the vectors of a requested embedding, and queue its inspection as for an upload."""
    sessions = job_sessions(settings)
    with sessions() as session:
        embedding = session.get(Embedding, embedding_id)
        if embedding is None or embedding.status is not EmbeddingStatus.MAKING:
            return ()
        source = session.get(Embedding, embedding.source_id or "")
        trial = session.get(PostProcessing, embedding.made_by_id or "")
        task = session.get(TaskRun, embedding.made_by_id or "")
    try:
        if source is None:
            raise NotFoundError("What this was to be made of was deleted; try a method on another embedding.")
        matrix = open_embedding(source, settings)
        variant: MapVariant | None = (embedding.provenance or {}).get("which")
        transform = (
            _by_trial(matrix, source, trial, settings) if variant is None else _by_task(source, task, variant, settings)
        )
        return _store_embedding(embedding, matrix, transform, Ledger(sessions, open_storage(settings)))
    except Exception as error:  # noqa: BLE001 - any error belongs in the row and is not retried
        fail(error, sessions, embedding)
        return ()


class Images(NamedTuple):
    """What a map makes of vectors: how many dimensions in which type, chunk by chunk."""

    d: int
    dtype: np.dtype[Any]
    apply: Callable[[Tensor], Tensor]


def images(matrix: Matrix, transform: Images) -> Iterator[NDArray[Any]]:
    """Yield the mapped rows in order; rows with NaN or infinity stay unchanged, so that row numbers do not shift.

    Raises:
        InvalidError: the map has other dimensions.

    """
    for chunk, is_finite in finite_rows(matrix):
        try:
            mapped = transform.apply(chunk[is_finite])
        except ValueError as error:
            raise InvalidError(str(error)) from error
        image = chunk[:, : transform.d].to(mapped.dtype)
        image[is_finite] = mapped
        yield image.numpy()


def _by_task(source: Embedding, task: TaskRun | None, choice: MapVariant, settings: Settings) -> Images:
    """Return the map that a task stored, applied as its exported NumPy code does."""
    if task is None or task.results is None or source.id not in (task.embedding_id, task.queries_id):
        raise ConflictError(
            f"The task that this was to be made by is gone, or other vectors were chosen of {source.name} meanwhile. "
            "Judge it again first."
        )
    results, is_chosen = task.results, choice == "chosen"
    scored_variant = results.variants[results.chosen if is_chosen else results.smallest]
    variant = Variant(scored_variant.method, tuple(scored_variant.parameters.items()))
    sha256 = (task.chosen_sha256 if is_chosen else task.smallest_sha256) or ""
    tensors = load_file(fetch(sha256, f"map.safetensors of {source.name!r}", settings))
    mapping = Map.from_tensors(variant, results.similarity, tensors)
    return Images(
        mapping.matrix.shape[1],
        np.dtype(np.float32),
        lambda points: torch.from_numpy(mapping.apply(points.double().numpy())),
    )


def _by_trial(matrix: Matrix, source: Embedding, judged: PostProcessing | None, settings: Settings) -> Images:
    if judged is None:
        raise ConflictError(
            f"The trial that this was to be made by is gone: other vectors were chosen of {source.name} meanwhile, or "
            "newer trials took its place. Try the method again first."
        )
    if judged.state_sha256 is None or not judged.fits_selection_of(source):
        raise ConflictError(f"Other vectors were chosen of {source.name} meanwhile; try the method on them first.")
    tensors = load_file(fetch(judged.state_sha256, f"map.safetensors of {source.name!r}", settings))
    return Images(matrix.d, matrix.dtype, restore(judged.method, tensors).apply)


def _store_embedding(read: Embedding, matrix: Matrix, mapped: Images, ledger: Ledger) -> Sequence[Job]:
    """Store the files and queue their inspection, unless the row no longer waits for them."""
    selection = matrix.selection
    ids = id_column(column_info.name for column_info in matrix.contents.annotations if column_info.n == matrix.n)
    annotations = {NAME: selection.names, LABEL: selection.labels, GROUP: selection.groups, ID: ids}
    annotation_columns = {column: annotation for column, annotation in annotations.items() if annotation is not None}
    annotation_files = []
    with keeping(ledger) as keep:
        vectors = keep(lambda: npy_file(matrix.n, mapped.d, mapped.dtype, images(matrix, mapped)))
        if annotation_columns:
            stored_annotations = keep(
                lambda: jsonl_file(
                    {column: matrix.contents.values(source) for column, source in annotation_columns.items()}
                )
            )
            annotation_files.append((ANNOTATIONS, stored_annotations))
        with ledger.recording(vectors, *(stored for _, stored in annotation_files)) as session:
            if (row := waiting(session, read)) is None:
                return ()
            row.files = files_of((read.filename, vectors), *annotation_files)
            row.selection = Selection(
                vectors=ARRAY,
                names=annotations[NAME] and NAME,
                labels=annotations[LABEL] and LABEL,
                groups=annotations[GROUP] and GROUP,
            ).model_dump()
            row.commit_when_inspected = True
            row.status = EmbeddingStatus.INSPECTING
            row.attempts = 0
            row.error = None
    return (Job(job_kinds.INSPECT, read.id),)
