"""An archive as it is written: JSON that databases and browsers can hold, hashes on the way, the manifest last."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NoReturn
from zipfile import ZIP_DEFLATED, ZipFile

from app import VERSION
from app.db.session import strict_json
from app.db.types import utcnow
from app.results.archive.container import FORMAT, MANIFEST
from isoscope.core.errors import InvalidError
from isoscope.core.number_limits import GREATEST, GREATEST_WHOLE, LEAST, LONGEST_NUMBER
from isoscope.files.wording import storable

DEEPEST = 100
"""Lists and objects inside of one another: far more, and whatever walks through them later runs out of stack."""


def read_json(text: str | bytes) -> Any:
    """The value that a text from outside holds; raises InvalidError where no row could hold it."""
    try:
        return _storable(json.loads(text, parse_constant=_no_number, parse_float=_float, parse_int=_int))
    except RecursionError:
        raise InvalidError("it is nested too deeply") from None
    except ValueError as error:
        raise InvalidError(f"it is no JSON ({str(error)[:80]})") from None


def write_json(value: Any) -> bytes:
    """A line of a file; NaN and infinity become null."""
    try:
        return _encoded(value)
    except ValueError:
        return _encoded(_mapped(value, lambda one: None if isinstance(one, float) and not math.isfinite(one) else one))


def _encoded(value: Any) -> bytes:
    return (strict_json(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _storable(value: Any) -> Any:
    return _mapped(value, lambda one: storable(one) if isinstance(one, str) else one)


def _mapped(value: Any, change: Callable[[Any], Any], room: int = DEEPEST) -> Any:
    """A value of JSON with every text, key, number, true, false and null changed."""
    if not room:
        raise RecursionError
    if isinstance(value, dict):
        return {change(key): _mapped(one, change, room - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_mapped(one, change, room - 1) for one in value]
    return change(value)


def _no_number(name: str) -> NoReturn:
    raise InvalidError(f"it holds {name}, which is no number in JSON; a value that is undefined is null")


def _float(digits: str) -> float:
    value = float(digits)
    if value and not LEAST <= abs(value) <= GREATEST:
        raise InvalidError(f"it holds the number {digits[:LONGEST_NUMBER]}, beyond {LEAST:g} to {GREATEST:g}")
    return value


def _int(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > GREATEST_WHOLE:
        raise InvalidError(f"it holds the whole number {digits[:LONGEST_NUMBER]}, beyond 2 to the power of 53")
    return int(digits)


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
