"""Embeddings over the API: upload, measure, describe, select a part, trash; and all tags."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, File, Form, UploadFile
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import Field, StrictInt

from app.context import PAGE_ROWS
from app.db.models import Embedding, FileRole, Pooling
from app.descriptions.service import DescriptionChange, collect_tags
from app.embeddings import library, service, trash
from app.embeddings.api.measures import MeasurementOut
from app.embeddings.files import get_file, get_npy, get_safetensors
from app.embeddings.library import EmbeddingListed, EmbeddingSearch, find_embeddings
from app.embeddings.report import EmbeddingFinding
from app.embeddings.selections import LeftOut, create_selection, leave_out_finding
from app.embeddings.service import EmbeddingSummary
from app.embeddings.trash import Purged, Trash
from app.web.dependencies import TOTAL, ContextDep, Limit, Offset, PagingDep, Row
from app.web.responses import FILE_RESPONSE, download_response, stream_download
from app.web.uploads import to_incoming
from isoscope.core.errors import InvalidError
from isoscope.files.selection import MAX_LISTED, Selection
from isoscope.files.strict import Strict
from isoscope.files.upload_formats import Role, usual_suffixes
from isotropy.catalog import Similarity


class EmbeddingFileOut(Row):
    """A file of an embedding, in the order of the rows."""

    role: FileRole
    filename: str
    file_sha256: str
    size_bytes: int


class EmbeddingOut(EmbeddingSummary):
    """An embedding with its inspection and its measurements."""

    notes: str
    provenance: Annotated[
        dict[str, Any] | None,
        Field(description="How it was made here, with everything needed to repeat it; null for an upload."),
    ]
    source_id: Annotated[str | None, Field(description="The embedding it was made from, if it still exists.")]
    layer: Annotated[int | None, Field(description="0 is the embedding layer.")]
    pooling: Pooling | None
    files: list[EmbeddingFileOut]
    inspection: dict[str, Any] | None
    selection: Annotated[
        dict[str, Any] | None,
        Field(
            description="The selection. More than 100,000 `without_rows` are encoded in base64 as bits, one per row of "
            "the file, the highest bit of a byte first."
        ),
    ]
    measurements: list[MeasurementOut]
    findings: Annotated[
        list[EmbeddingFinding],
        Field(description="Findings of the cloud; empty before it is measured, or if it is healthy."),
    ]


Indices = Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(max_length=MAX_LISTED)]


class SelectionRequest(Strict):
    """What to leave out: the rows and dimensions of a finding, or those in the lists."""

    finding: Annotated[str | None, Field(description="Slug of a finding; then give no rows and no dimensions.")] = None
    rows: Annotated[Indices, Field(description="Positions in the file, from 0, as findings list them.")] = Field([])
    dimensions: Annotated[Indices, Field(description="Dimensions of the file, from 0.")] = Field([])
    name: Annotated[str | None, Field(max_length=200, description="Name of the new embedding.")] = None


router = APIRouter(prefix="/embeddings", tags=["embeddings"])


@router.get("", responses=TOTAL)
def list_embeddings(
    context: ContextDep, search: Annotated[EmbeddingSearch, Depends()], paging: PagingDep
) -> list[EmbeddingListed]:
    """Embeddings, newest first unless sorted otherwise. The header `X-Total-Count` has their number."""
    embeddings = find_embeddings(context, search, paging.limit, paging.offset)
    paging.set_total(embeddings.total)
    return embeddings.rows


@router.post("", status_code=201, response_model=EmbeddingOut)
def create_embedding(
    context: ContextDep,
    file: Annotated[
        list[UploadFile],
        File(description=f"{usual_suffixes(Role.VECTORS)}. Several files are joined: shard-2 before shard-10."),
    ],
    annotations: Annotated[
        UploadFile | None, File(description=f"Names and labels of the rows: {usual_suffixes(Role.ANNOTATIONS)}.")
    ] = None,
    name: Annotated[str | None, Form(max_length=200)] = None,
    commit: Literal["auto"] | None = None,
) -> Embedding:
    """Upload a file, or several shards. With `?commit=auto` it is measured as soon as a worker has read it."""
    annotation_file = None if annotations is None else to_incoming(annotations)
    return service.create_embedding(context, [*map(to_incoming, file)], annotation_file, name, commit=commit == "auto")


@router.get("/{embedding_id}", response_model=EmbeddingOut)
def show_embedding(context: ContextDep, embedding_id: str) -> Embedding:
    """One embedding with its measurements; `status` is `ready` when they are there."""
    return service.get_embedding(context, embedding_id)


@router.patch("/{embedding_id}", response_model=EmbeddingOut)
def describe_embedding(context: ContextDep, embedding_id: str, change: DescriptionChange) -> Embedding:
    """Rename an embedding, write its notes, tag it."""
    return library.describe_embedding(context, embedding_id, change)


@router.put("/{embedding_id}/selection", response_model=EmbeddingOut)
def select_embedding(
    context: ContextDep, embedding_id: str, selection: Selection, commit: Literal["auto"] | None = None
) -> Embedding:
    """Choose other vectors, names or labels; with `?commit=auto` they are measured without another request.

    This deletes earlier measurements, curves and post-processings, and all tasks that use these vectors, as rows or
    as queries of another embedding.
    """
    return service.select_embedding(context, embedding_id, selection, commit=commit == "auto")


@router.post("/{embedding_id}/commit", response_model=EmbeddingOut)
def commit_embedding(context: ContextDep, embedding_id: str, similarity: Similarity | None = None) -> Embedding:
    """Measure a draft. `similarity` replaces the selection's for finding nearest neighbors."""
    return service.commit_embedding(context, embedding_id, similarity)


@router.post("/{embedding_id}/selections", status_code=201, response_model=EmbeddingOut)
def post_selection(context: ContextDep, embedding_id: str, request: SelectionRequest) -> Embedding:
    """Measure the same files without some rows or dimensions, as a new embedding. No file is copied.

    Repeating a request returns the existing selection.
    """
    if request.finding is None:
        left_out = LeftOut(sorted(set(request.rows)), sorted(set(request.dimensions)))
    elif request.rows or request.dimensions:
        raise InvalidError("Give a finding, or rows and dimensions. Not both.", "finding")
    else:
        left_out = leave_out_finding(context, embedding_id, request.finding)
    return create_selection(context, embedding_id, left_out, request.name)


@router.delete("/{embedding_id}", status_code=204)
def trash_embedding(context: ContextDep, embedding_id: str) -> None:
    """Put an embedding into the trash, from which `/api/trash` deletes it permanently."""
    trash.trash_embedding(context, embedding_id)


@router.post("/{embedding_id}/restore", response_model=EmbeddingOut)
def restore_embedding(context: ContextDep, embedding_id: str) -> Embedding:
    """Take an embedding out of the trash."""
    return trash.restore_embedding(context, embedding_id)


@router.get("/{embedding_id}/files/{position}", **FILE_RESPONSE)
def show_file(context: ContextDep, embedding_id: str, position: int) -> FileResponse:
    """A file as it was uploaded or made, by its position in `files`, from 0."""
    return download_response(get_file(context, embedding_id, position))


@router.get("/{embedding_id}/vectors.npy", **FILE_RESPONSE)
def show_npy(context: ContextDep, embedding_id: str) -> FileResponse:
    """The vectors, if they are stored as one .npy file."""
    return download_response(get_npy(context, embedding_id))


@router.get("/{embedding_id}/vectors.safetensors", **FILE_RESPONSE)
def show_safetensors(context: ContextDep, embedding_id: str) -> StreamingResponse:
    """The same vectors as the tensor `embeddings`."""
    file = get_safetensors(context, embedding_id)
    return stream_download(file.filename, file.size_bytes, file.blocks())


tags_router = APIRouter(prefix="/tags", tags=["embeddings"])


@tags_router.get("")
def list_tags(context: ContextDep) -> list[str]:
    """The tags of embeddings outside the trash and of experiments, each once, in alphabetical order."""
    return collect_tags(context)


trash_router = APIRouter(prefix="/trash", tags=["trash"])


@trash_router.get("")
def list_trash(context: ContextDep, limit: Limit = PAGE_ROWS, offset: Offset = 0) -> Trash:
    """Embeddings in the trash, the most recently trashed first."""
    return trash.list_trash(context, limit, offset)


@trash_router.delete("")
def empty_trash(context: ContextDep) -> Purged:
    """Permanently delete everything in the trash, with the tasks that use it."""
    return trash.empty_trash(context)


@trash_router.delete("/{embedding_id}")
def purge_embedding(context: ContextDep, embedding_id: str) -> Purged:
    """Permanently delete an embedding in the trash, the tasks that use it, and the files that only it needs."""
    return trash.purge_embedding(context, embedding_id)
