"""Files of an embedding to take away: as they lie, as safetensors, the map of a trial."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from app.context import Context
from app.db.models import Embedding, EmbeddingFile, PostProcessing
from app.embeddings.service import get_embedding
from app.storage.storage import BLOCK_BYTES, Download
from isoscope.core.errors import ConflictError, NotFoundError
from isoscope.files.arrays import StoredArray
from isoscope.files.npy import read_npy
from isoscope.files.safetensors import TYPES

TENSOR = "embeddings"
NPY = "npy"
ALIGNMENT = 8
"""Of a safetensors header, so that the values behind it lie where processors like them."""


@dataclass(frozen=True)
class SafetensorsFile:
    """A header and the values of an .npy file behind it, which are not copied."""

    header: bytes
    array: StoredArray
    filename: str

    @property
    def size_bytes(self) -> int:
        """Bytes in all."""
        return len(self.header) + self.array.size_bytes

    def blocks(self) -> Iterator[bytes]:
        """Yield the file."""
        yield self.header
        with self.array.open() as stream:
            stream.seek(self.array.offset)
            while block := stream.read(BLOCK_BYTES):
                yield block


def get_file(context: Context, embedding_id: str, position: int) -> Download:
    """A file of an embedding as it was uploaded or made."""
    embedding = get_embedding(context, embedding_id)
    file = next((one for one in embedding.files if one.position == position), None)
    if file is None:
        raise NotFoundError(
            f"There is no file {position} of {embedding.name}, which has {len(embedding.files)}: they count from 0."
        )
    return _download(context, file)


def get_npy(context: Context, embedding_id: str) -> Download:
    """The vectors of an embedding that lie in one .npy file."""
    return _download(context, _vectors(get_embedding(context, embedding_id)))


def get_safetensors(context: Context, embedding_id: str) -> SafetensorsFile:
    """The same vectors with the header of safetensors."""
    file = _download(context, _vectors(get_embedding(context, embedding_id)))
    (array,) = read_npy(file.path)
    types = {name: code for code, name in TYPES.items()}
    if array.type_name not in types or array.fortran or array.dtype.newbyteorder("<") != array.dtype:
        raise ConflictError(
            "Expected numbers that lie row after row with their lowest byte first, as safetensors has them, got "
            f"{array.dtype.str}{' column after column' if array.fortran else ''}. Download the .npy instead."
        )
    described = {"dtype": types[array.type_name], "shape": array.shape, "data_offsets": [0, array.size_bytes]}
    text = json.dumps({TENSOR: described}).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    name = file.filename.removesuffix(".npy")
    return SafetensorsFile(len(text).to_bytes(8, "little") + text, array, f"{name}.safetensors")


def get_map(context: Context, postprocessing: PostProcessing) -> Download:
    """The fitted map of a trial."""
    if postprocessing.state_sha256 is None:
        raise ConflictError(f"This trial is {postprocessing.status}; there is a map when it is ready.")
    return Download(context.storage.local(postprocessing.state_sha256), f"{postprocessing.method}.safetensors")


def is_npy(embedding: Embedding) -> bool:
    """Whether the vectors lie in one .npy file, row by row as they are measured."""
    whole = not _transposed(embedding) and not _leaves_out(embedding)
    return embedding.format == NPY and len(embedding.shards) == 1 and whole


def _vectors(embedding: Embedding) -> EmbeddingFile:
    shards = embedding.shards
    if not shards:
        raise ConflictError(f"{embedding.name} is {embedding.status}; its files are not there yet.")
    if _transposed(embedding):
        raise ConflictError(
            f"The rows of {embedding.name} are the columns of its file. Download that as it is, and transpose it: "
            f"/embeddings/{embedding.id}/files/0."
        )
    if _leaves_out(embedding):
        raise ConflictError(
            f"{embedding.name} is a part of its file. Download the file, /embeddings/{embedding.id}/files/0, and drop "
            "`without_rows` and `without_dimensions` of its selection."
        )
    if not is_npy(embedding):
        raise ConflictError(
            f"Expected vectors in one .npy file, got {len(shards)} of {embedding.format}. Download them as they are: "
            f"/embeddings/{embedding.id}/files/0."
        )
    return shards[0]


def _transposed(embedding: Embedding) -> bool:
    return bool((embedding.selection or {}).get("transpose"))


def _leaves_out(embedding: Embedding) -> bool:
    chosen = embedding.selection or {}
    return bool(chosen.get("without_rows") or chosen.get("without_dimensions"))


def _download(context: Context, file: EmbeddingFile) -> Download:
    return Download(context.storage.local(file.file_sha256), file.filename)
