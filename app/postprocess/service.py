"""Queue, read and delete trials of post-processing, and make new embeddings from them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import defer

from app.context import Context, makes_room
from app.core.names import clean_name, describe_method
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, PostProcessing, ResultStatus
from app.db.models.embeddings import MAP_IDS_IN_USE
from app.embeddings.service import (
    add_mapped_embedding,
    deletion_of_oldest,
    get_embedding,
    request_result,
    require_measured,
)
from app.postprocess.method_settings import MethodSettings, check_settings
from isoscope.core.errors import ConflictError, NotFoundError

MAX_TRIALS = 200
"""Trials stored per embedding. The oldest are deleted."""


def list_postprocessings(context: Context, embedding_id: str) -> list[PostProcessing]:
    """Return the trials of the current vectors, the newest first, without their results."""
    embedding = get_embedding(context, embedding_id)
    query = select(PostProcessing).where(PostProcessing.embedding_id == embedding_id)
    newest = query.order_by(PostProcessing.created_at.desc(), PostProcessing.id)
    with context.sessions() as session:
        trials = session.scalars(newest.options(defer(PostProcessing.results)))
        return [trial for trial in trials if trial.fits_selection_of(embedding)]


def get_postprocessing(context: Context, embedding_id: str, postprocessing_id: str) -> PostProcessing:
    trial = context.get(PostProcessing, postprocessing_id)
    if trial is None or trial.embedding_id != embedding_id:
        raise NotFoundError(
            f"There is no post-processing {postprocessing_id!r} of this embedding; only the last {MAX_TRIALS} are "
            "kept. Request it again."
        )
    return trial


def find_postprocessing(context: Context, embedding: Embedding, settings: MethodSettings) -> PostProcessing | None:
    key = embedding.hash_request(settings.method, settings.parameters)
    return context.scalar(
        select(PostProcessing).where(PostProcessing.embedding_id == embedding.id, PostProcessing.key == key)
    )


def find_last_result(context: Context, embedding: Embedding, method: str) -> PostProcessing | None:
    """Return the newest result of a method, to show while another is computed."""
    query = select(PostProcessing).where(
        PostProcessing.embedding_id == embedding.id,
        PostProcessing.method == method,
        PostProcessing.status == ResultStatus.READY,
    )
    trial = context.scalar(query.order_by(PostProcessing.created_at.desc()).limit(1))
    return trial if trial is not None and trial.fits_selection_of(embedding) else None


def request_postprocessing(
    context: Context, embedding_id: str, method: str, values: Mapping[str, Any], replaced_id: str | None = None
) -> PostProcessing:
    """Queue a trial, or repeat a failed one. ``replaced_id`` is a waiting trial to drop."""
    embedding = get_embedding(context, embedding_id)
    require_measured(embedding, "post-processing")
    settings = check_settings(embedding, method, values)
    trial = find_postprocessing(context, embedding, settings)
    if replaced_id is not None and (trial is None or trial.id != replaced_id):
        drop_waiting = delete(PostProcessing).where(
            PostProcessing.id == replaced_id,
            PostProcessing.embedding_id == embedding_id,
            PostProcessing.status == ResultStatus.QUEUED,
        )
        with context.sessions.begin() as session:
            dropped_id = session.scalar(drop_waiting.returning(PostProcessing.id))
        if dropped_id is not None:
            context.queue.cancel(Job(job_kinds.POSTPROCESS, dropped_id))
    key = embedding.hash_request(settings.method, settings.parameters)
    new_trial = PostProcessing(
        embedding_id=embedding_id, key=key, method=settings.method, parameters=settings.parameters
    )
    request_result(context, job_kinds.POSTPROCESS, trial, new_trial)
    if trial is None:
        with context.sessions.begin() as session:
            deletion = deletion_of_oldest(session, PostProcessing, embedding_id, MAX_TRIALS)
            deletion = deletion.where(PostProcessing.id.not_in(MAP_IDS_IN_USE))
            file_hashes = session.scalars(deletion.returning(PostProcessing.state_sha256)).all()
        context.ledger.release(*file_hashes)
    if (current_trial := find_postprocessing(context, embedding, settings)) is None:
        raise ConflictError("This embedding or this result was just deleted. Try again.")
    return current_trial


@makes_room
def delete_postprocessing(context: Context, embedding_id: str, postprocessing_id: str) -> None:
    get_postprocessing(context, embedding_id, postprocessing_id)
    deletion = delete(PostProcessing).where(
        PostProcessing.id == postprocessing_id, PostProcessing.id.not_in(MAP_IDS_IN_USE)
    )
    with context.sessions.begin() as session:
        deleted_trial = session.execute(
            deletion.returning(PostProcessing.status, PostProcessing.state_sha256)
        ).one_or_none()
    if deleted_trial is None:
        get_postprocessing(context, embedding_id, postprocessing_id)  # raises NotFoundError if it was just deleted
        raise ConflictError("An embedding is being made by this trial. Delete it when that has finished.")
    if deleted_trial.status is ResultStatus.QUEUED:
        context.queue.cancel(Job(job_kinds.POSTPROCESS, postprocessing_id))
    context.ledger.release(deleted_trial.state_sha256)


def create_postprocessed_embedding(
    context: Context, embedding_id: str, postprocessing_id: str, name: str | None = None
) -> Embedding:
    source = get_embedding(context, embedding_id)
    require_measured(source, "post-processing")
    trial = get_postprocessing(context, embedding_id, postprocessing_id)
    if trial.status is not ResultStatus.READY or trial.results is None:
        raise ConflictError(f"This trial is {trial.status}; a new embedding needs one that is ready.")
    if not trial.fits_selection_of(source):
        raise ConflictError(f"The vectors of {source.name} have changed since. Try the method on the new ones first.")
    title = clean_name(name, f"{source.name}, {describe_method(trial.method, trial.parameters)}")
    provenance = {
        "method": trial.method,
        "parameters": trial.parameters,
        **{key: trial.results[key] for key in ("rows", "fit_rows", "seed")},
    }
    return add_mapped_embedding(context, source, trial.id, title, source.d or 0, provenance)
