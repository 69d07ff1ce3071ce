"""The zip file of an exported experiment: its members, size limits, JSON and manifest.

Names and sizes are checked before anything is unpacked.
"""

import hashlib
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, BinaryIO, NoReturn

from app import VERSION
from app.db.session import strict_json
from app.db.types import utcnow
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import storable
from isoscope.files.compressed import COMPRESSIONS, ENCRYPTED, MAX_RATIO, is_bomb, reading_zip
from isoscope.plain import LONGEST_NUMBER, MAX_INTEGER, MAX_NUMBER, MIN_NUMBER

FORMAT = 1
"""Incremented when an older Isoscope would misread a new archive."""

MIB = 2**20

MANIFEST = "manifest.json"
README = "README.txt"
EXPERIMENT = "experiment.json"
RUNS = "runs.jsonl"
STEPS = "steps.jsonl"
RUN_FIGURES = "run_figures.jsonl"
SEALED = "sealed/"
SEALED_SCORES = f"{SEALED}test_scores.jsonl"
SEALED_PREDICTIONS = f"{SEALED}predictions.jsonl"
OPENINGS = f"{SEALED}openings.jsonl"
PREDICTIONS = "predictions.jsonl"
FIGURE_NAME = re.compile(r"figures/[a-z0-9_-]{1,60}\.(json|csv)")

REQUIRED_MEMBERS = (EXPERIMENT, RUNS, STEPS, RUN_FIGURES)
"""Members that every export has and an import reads."""

OPTIONAL_MEMBERS = (PREDICTIONS, SEALED_SCORES, SEALED_PREDICTIONS, OPENINGS)
"""Members that an import reads if the export has them. The README and the figures are for people."""

MAX_BYTES = {
    MANIFEST: 1 * MIB,
    README: 1 * MIB,
    EXPERIMENT: 16 * MIB,
    RUNS: 1024 * MIB,
    STEPS: 8 * 1024 * MIB,
    RUN_FIGURES: 1024 * MIB,
    PREDICTIONS: 2 * 1024 * MIB,
    SEALED_SCORES: 64 * MIB,
    SEALED_PREDICTIONS: 2 * 1024 * MIB,
    OPENINGS: 64 * MIB,
}
MAX_FIGURE_BYTES = 512 * MIB
MAX_MEMBERS = 300
MAX_LINE_BYTES = 16 * MIB
MAX_RUNS = 10_000
MAX_STEPS = 10_000_000

README_TEXT = """An experiment of Isoscope {version}, format {format}, exported at {exported_at}.

To read this file in another Isoscope: Experiments, Import; or
  isoscope import this.zip

manifest.json      format, version, time, and the SHA-256 and size of every other file
experiment.json    name, settings that all runs share, values that they differ in, data set with its files' hashes
runs.jsonl         one run per line: settings, status, times, performance and IsoScore*, results, environment, notes,
                   tags, log
steps.jsonl        one logged step per line, none left out: run, step, task_loss, penalty, and measures by layer
run_figures.jsonl  what figures of a run show that no other file holds, such as its activation by dimension
predictions.jsonl  predictions of runs by validation row, up to 5,000 rows per line; positions are from 0
sealed/            where the data set has a test split: scores and predictions of runs on it, and every choice that was
                   opened, by whom and when. Freeze a choice before you read them; an import keeps them sealed
figures/           the figures of the experiment's page: plotly JSON, and the numbers of each as CSV

Times are in UTC. A value that is undefined is null, with the reason next to it; NaN and infinity are never written.
Trained models are not inside; each run's own page has them. In Python:
  runs = pandas.read_json("runs.jsonl", lines=True); steps = pandas.read_json("steps.jsonl", lines=True)
  plotly.io.read_json("figures/isotropy.json").show()
"""

BLOCK_BYTES = 2**16
MAX_DEPTH = 100
"""Maximum depth of nested lists and objects. Deeper ones would exhaust the stack of recursive functions."""
MAX_INTEGER_CHARACTERS = len(f"-{MAX_INTEGER}")
ADVICE = "Export the experiment again where it was made."
BROKEN_MESSAGE = (
    "The file cannot be read as a zip archive ({reason}): it was cut off, altered, or is something else. Choose a file "
    "made by Export on the page of an experiment."
)


class Container:
    """The members of a zip file. Raises InvalidError or TooLargeError if their names or sizes are not an export's."""

    def __init__(self, zip_file: zipfile.ZipFile) -> None:
        self._zip = zip_file
        self.names = frozenset(zip_file.namelist())
        members = zip_file.infolist()
        if len(members) > MAX_MEMBERS:
            raise TooLargeError(
                f"The archive has {len(members):,} files, more than {MAX_MEMBERS}: it is not an export."
            )
        if len(self.names) < len(members):
            raise InvalidError(f"Two files in the archive have the same name. {ADVICE}")
        for member in members:
            name = repr(member.filename[:80])
            size = member.file_size
            limit = MAX_BYTES.get(member.filename, MAX_FIGURE_BYTES)
            if member.filename not in MAX_BYTES and not FIGURE_NAME.fullmatch(member.filename):
                raise InvalidError(
                    f"The archive contains {name}, which exports never contain. Choose a file made by Export "
                    "on the page of an experiment."
                )
            if member.flag_bits & ENCRYPTED or member.compress_type not in COMPRESSIONS:
                raise InvalidError(f"{name} is encrypted, or compressed in another way than exports are. {ADVICE}")
            if size > limit:
                raise TooLargeError(f"{name} unpacks to {size:,} bytes, more than the {limit:,} allowed here.")
            if is_bomb(size, member.compress_size):
                raise TooLargeError(
                    f"{name} declares {size:,} bytes in {member.compress_size:,}, more than {MAX_RATIO} to 1, "
                    "which could exhaust memory."
                )

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a member in blocks. Raise InvalidError if it is damaged, or longer than declared."""
        member = copy(self._zip.getinfo(name))
        member.file_size += 1  # so that the checksum covers bytes beyond the declared size
        # Reads are guarded one by one, because an error of the caller between two blocks is not the file's fault.
        with reading_zip(BROKEN_MESSAGE):
            stream = self._zip.open(member)
        with stream:
            while True:
                with reading_zip(BROKEN_MESSAGE):
                    block = stream.read(BLOCK_BYTES)
                if not block:
                    return
                yield block


def read_json(text: str | bytes) -> Any:
    """Parse untrusted JSON. Raise InvalidError if it is invalid, too deep, or has a number that cannot be stored."""
    try:
        value = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_float, parse_int=_parse_int)
        return map_json(value, lambda leaf: storable(leaf) if isinstance(leaf, str) else leaf)
    except RecursionError:
        raise InvalidError("it is nested too deeply") from None
    except ValueError as error:
        raise InvalidError(f"it is not JSON ({str(error)[:80]})") from None


def write_json(value: Any) -> bytes:
    """Return a value as a line of JSON in UTF-8. NaN and infinity become null."""
    json_options: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}
    try:
        text = strict_json(value, **json_options)
    except ValueError:
        finite = map_json(value, lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf)
        text = strict_json(finite, **json_options)
    return f"{text}\n".encode()


def map_json(value: Any, change: Callable[[Any], Any], max_depth: int = MAX_DEPTH) -> Any:
    """Apply a function to every key and leaf of a JSON value. Raise RecursionError beyond ``max_depth``."""
    if not max_depth:
        raise RecursionError
    if isinstance(value, dict):
        return {change(key): map_json(item, change, max_depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [map_json(item, change, max_depth - 1) for item in value]
    return change(value)


def _reject_constant(name: str) -> NoReturn:
    raise InvalidError(f"it contains {name}, which is not a number in JSON; a value that is undefined is null")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value and not MIN_NUMBER <= abs(value) <= MAX_NUMBER:
        raise InvalidError(f"it contains the number {digits[:LONGEST_NUMBER]}, beyond {MIN_NUMBER:g} to {MAX_NUMBER:g}")
    return value


def _parse_int(digits: str) -> int:
    # Python refuses to convert very long numbers, so their length is checked first.
    if len(digits) > MAX_INTEGER_CHARACTERS or abs(int(digits)) > MAX_INTEGER:
        raise InvalidError(f"it contains the whole number {digits[:LONGEST_NUMBER]}, beyond 2 to the power of 53")
    return int(digits)


class ArchiveWriter:
    """Writes the members of an archive, holding at most one block in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._members: dict[str, dict[str, str | int]] = {}
        self.exported_at = utcnow().isoformat()

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a member, and note its hash and size for the manifest."""
        digest, size = hashlib.sha256(), 0
        with self._zip.open(name, "w", force_zip64=True) as member:
            for block in _join_blocks(pieces):
                digest.update(block)
                size += len(block)
                member.write(block)
        self._members[name] = {"sha256": digest.hexdigest(), "bytes": size}

    def close(self) -> None:
        """Write the manifest and the directory. The file itself stays open."""
        manifest = {
            "format": FORMAT, "isoscope": VERSION, "exported_at": self.exported_at, "members": self._members
        }  # fmt: skip
        self._zip.writestr(MANIFEST, write_json(manifest))
        self._zip.close()


def _join_blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join short pieces into blocks, because compressing each row separately is slow."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)
