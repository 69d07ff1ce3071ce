"""Downloads: an embedding's files as stored, its vectors as .npy or safetensors, the fitted map of a trial."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from app.context import Context
from app.db.models import Embedding, PostProcessing
from app.embeddings.service import get_embedding
from app.storage.storage import BLOCK_BYTES
from isoscope.core.errors import ConflictError, NotFoundError
from isoscope.files.arrays import StoredArray
from isoscope.files.npy import read_npy
from isoscope.files.safetensors import TYPE_NAMES
from isoscope.files.upload import NamedFile

TENSOR_NAME = "embeddings"
NPY = "npy"
# Safetensors pads its header to a multiple of this many bytes, so that the values are aligned.
HEADER_ALIGNMENT = 8


@dataclass(frozen=True)
class SafetensorsFile:
    """A safetensors file that is made of a header and the values of a stored .npy file."""

    header: bytes
    array: StoredArray
    filename: str

    @property
    def size_bytes(self) -> int:
        return len(self.header) + self.array.size_bytes

    def blocks(self) -> Iterator[bytes]:
        yield self.header
        with self.array.open() as stream:
            stream.seek(self.array.offset)
            while block := stream.read(BLOCK_BYTES):
                yield block


def get_file(context: Context, embedding_id: str, position: int) -> NamedFile:
    embedding = get_embedding(context, embedding_id)
    file = next((file for file in embedding.files if file.position == position), None)
    if file is None:
        raise NotFoundError(
            f"There is no file {position} of {embedding.name}, which has {len(embedding.files)}: they count from 0."
        )
    return NamedFile(context.storage.local_path(file.file_sha256), file.filename)


def get_npy(context: Context, embedding_id: str) -> NamedFile:
    embedding = get_embedding(context, embedding_id)
    if reason := explain_no_npy(embedding):
        raise ConflictError(reason)
    (file,) = embedding.shards
    return NamedFile(context.storage.local_path(file.file_sha256), file.filename)


def get_safetensors(context: Context, embedding_id: str) -> SafetensorsFile:
    file = get_npy(context, embedding_id)
    (array,) = read_npy(file.path)
    type_codes = {name: code for code, name in TYPE_NAMES.items()}
    if array.type_name not in type_codes or array.fortran or array.dtype.newbyteorder("<") != array.dtype:
        raise ConflictError(
            "safetensors needs little-endian numbers in row-major order, and this file has "
            f"{array.dtype.str}{' in column-major order' if array.fortran else ''}. Download the .npy instead."
        )
    tensor = {"dtype": type_codes[array.type_name], "shape": array.shape, "data_offsets": [0, array.size_bytes]}
    header = json.dumps({TENSOR_NAME: tensor}).encode()
    header += b" " * (-len(header) % HEADER_ALIGNMENT)
    name = file.filename.removesuffix(".npy")
    # The file starts with the length of its header, as 8 bytes.
    return SafetensorsFile(len(header).to_bytes(8, "little") + header, array, f"{name}.safetensors")


def get_trial_map(context: Context, postprocessing: PostProcessing) -> NamedFile:
    if postprocessing.state_sha256 is None:
        raise ConflictError(f"This trial is {postprocessing.status}; there is a map when it is ready.")
    return NamedFile(context.storage.local_path(postprocessing.state_sha256), f"{postprocessing.method}.safetensors")


def explain_no_npy(embedding: Embedding) -> str:
    """Return why the vectors are not stored as one .npy file; empty if they are."""
    shards, selection = embedding.shards, embedding.selection or {}
    if not shards:
        return f"{embedding.name} is {embedding.status}; its files are not there yet."
    if selection.get("transpose"):
        return (
            f"The rows of {embedding.name} are the columns of its file. Download that as it is, and transpose it: "
            f"/embeddings/{embedding.id}/files/0."
        )
    if selection.get("without_rows") or selection.get("without_dimensions"):
        return (
            f"{embedding.name} is a part of its file. Download the file, /embeddings/{embedding.id}/files/0, and drop "
            "`without_rows` and `without_dimensions` of its selection."
        )
    if embedding.format != NPY or len(shards) > 1:
        return (
            f"Expected vectors in one .npy file, got {len(shards)} of {embedding.format}. Download them as they are: "
            f"/embeddings/{embedding.id}/files/0."
        )
    return ""
