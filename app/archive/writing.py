"""An archive as it is written: piece by piece, each file's hash taken on the way, the manifest last."""

import hashlib
from collections.abc import Iterable
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

from app import VERSION
from app.archive.json_text import write_json
from app.archive.members import FORMAT, MANIFEST
from app.db.types import utcnow

BLOCK_BYTES = 2**16


class ArchiveWriter:
    """Writes the files of one archive, of which no more than a block is in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = ZipFile(file, "w", ZIP_DEFLATED)
        self._members: dict[str, dict[str, str | int]] = {}
        self.exported_at = utcnow().isoformat()

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file of these pieces."""
        digest, size = hashlib.sha256(), 0
        with self._zip.open(name, "w", force_zip64=True) as member:
            for block in _blocks(pieces):
                digest.update(block)
                size += len(block)
                member.write(block)
        self._members[name] = {"sha256": digest.hexdigest(), "bytes": size}

    def close(self) -> None:
        """Write the manifest and the directory."""
        manifest = {
            "format": FORMAT,
            "isoscope": VERSION,
            "exported_at": self.exported_at,
            "members": self._members,
        }
        self._zip.writestr(MANIFEST, write_json(manifest))
        self._zip.close()


def _blocks(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """The same bytes in fewer pieces: a call of the compressor for every row would take longer than the rest."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)
