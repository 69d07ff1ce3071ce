"""Encodings over the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import Field

from app.db.encoding import EncodingConfig
from app.db.models import Embedding, EmbeddingStatus, Encoding, EncodingStatus, Pooling
from app.db.types import RowId
from app.embeddings import encoding_layers, encodings
from app.embeddings.api.measures import MeasurementSummary
from app.embeddings.encodings import EncodingPlan, Split
from app.web.dependencies import ContextDep, Row
from app.web.uploads import in_parser_slot, to_incoming
from isoscope.core.errors import InvalidError
from isoscope.files.columns import Column
from isoscope.files.text import Quoting
from isoscope.files.upload_formats import Role, usual_suffixes


class QrelsOut(Row):
    """The relevance judgments of one split of a BEIR data set."""

    split: str
    judgments: int
    queries_id: Annotated[str, Field(description="The encoding of the queries.")]


class EncodingOut(Row):
    """Texts, the model that encodes them, and its progress."""

    id: str
    name: str
    filename: str
    n_texts: int
    columns: list[Column]
    quoting: Annotated[Quoting | None, Field(description="How quotes are read in a .tsv file. Null if it has none.")]
    config: Annotated[EncodingConfig | None, Field(description="Null for a draft.")]
    status: EncodingStatus
    done: Annotated[int, Field(description="Texts encoded so far.")]
    total: Annotated[int | None, Field(description="Number of texts to encode; null until they have been read.")]
    qrels: Annotated[list[QrelsOut], Field(description="Splits of a BEIR data set, on the encoding of its corpus.")]
    error: str | None
    environment: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class LayerOut(Row):
    """A layer of an encoding under a pooling."""

    layer: Annotated[int, Field(description="0 is the embedding layer.")]
    pooling: Pooling
    embedding_id: Annotated[str, Field(validation_alias="id")]
    status: EmbeddingStatus
    n: int | None
    d: int | None
    measurements: list[MeasurementSummary]


router = APIRouter(prefix="/encodings", tags=["encodings"])


@router.get("", response_model=list[EncodingOut])
def list_encodings(context: ContextDep) -> Sequence[Encoding]:
    """All encodings, newest first."""
    return encodings.list_encodings(context)


@router.post("", status_code=201, response_model=EncodingOut)
@in_parser_slot
def create_encoding(
    request: Request,
    context: ContextDep,
    file: Annotated[
        list[UploadFile] | None,
        File(
            description=f"Texts: {usual_suffixes(Role.TEXTS)}; one text per line in .txt. Or a BEIR data set: its zip "
            "file, or corpus.jsonl, queries.jsonl and the .tsv files of its qrels, which are named by their split."
        ),
    ] = None,
    dataset_id: Annotated[
        RowId | None, Form(description="An uploaded data set in place of a file, with `split`.")
    ] = None,
    split: Annotated[Split, Form()] = "validation",
    name: Annotated[str | None, Form(max_length=200)] = None,
) -> Encoding:
    """Create a draft from uploaded texts or a data set; from a BEIR data set, the draft of its corpus."""
    if (not file) == (dataset_id is None):
        raise InvalidError("Expected either a file of texts or a dataset_id; give one of them.", "file")
    if file:
        return encodings.create_encoding(context, [*map(to_incoming, file)], name)
    return encodings.create_encoding_of_dataset(context, str(dataset_id), split, name)


@router.get("/{encoding_id}", response_model=EncodingOut)
def show_encoding(context: ContextDep, encoding_id: str) -> Encoding:
    """One encoding and its progress."""
    return encodings.get_encoding(context, encoding_id)


@router.post("/{encoding_id}/plan", response_model=EncodingPlan)
def plan_encoding(context: ContextDep, encoding_id: str, config: EncodingConfig) -> EncodingPlan:
    """What a configuration would make: embeddings, rows, bytes on the disk. Nothing is launched."""
    return encodings.plan_encoding(context, encodings.get_encoding(context, encoding_id), config)


@router.post("/{encoding_id}/launch", response_model=EncodingOut)
def launch_encoding(context: ContextDep, encoding_id: str, config: EncodingConfig) -> Encoding:
    """Encode the texts of a draft, or retry an encoding that failed or was cancelled."""
    return encodings.launch_encoding(context, encoding_id, config)


@router.post("/{encoding_id}/cancel", response_model=EncodingOut)
def cancel_encoding(context: ContextDep, encoding_id: str) -> Encoding:
    """Cancel a queued or running encoding."""
    return encodings.cancel_encoding(context, encoding_id)


@router.get("/{encoding_id}/layers", response_model=list[LayerOut])
def list_layers(context: ContextDep, encoding_id: str) -> Sequence[Embedding]:
    """The embedding of each layer and pooling with its measurements, which `/api/embeddings/<id>` has in detail."""
    encodings.get_encoding(context, encoding_id)
    return encoding_layers.list_layers(context, encoding_id)


@router.delete("/{encoding_id}", status_code=204)
def delete_encoding(context: ContextDep, encoding_id: str) -> None:
    """Delete an encoding with the embeddings of its layers, the tasks that use them, and files that no other needs."""
    encodings.delete_encoding(context, encoding_id)
