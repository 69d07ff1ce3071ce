"""Seals of a checkpoint: size and SHA-256 of each of its files, so that nothing a disk damaged is ever trained on."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from app.run_files import MARKER

THREADS = 4


class Seal(NamedTuple):
    """What a file has to be."""

    bytes: int
    sha256: str


def seal_files(paths: Iterable[Path]) -> dict[Path, Seal]:
    """Bring files to the disk and return their seals.

    Hashing releases the interpreter, and goes on in some threads while others wait for the disk.
    """
    files = list(paths)
    with ThreadPoolExecutor(THREADS) as pool:
        flushed = [pool.submit(flush, path) for path in files]
        seals = list(pool.map(read_seal, files))
        for one in flushed:
            one.result()
    return dict(zip(files, seals, strict=True))


def read_seal(path: Path) -> Seal:
    """Return the seal of a file as it is now."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Seal(file.tell(), digest)


def write_seals(folder: Path, seals: Mapping[str, Seal]) -> None:
    """Seal a folder: with these, by path within it. The marker is there whole or not at all."""
    unfinished = folder / f"{MARKER}.unfinished"
    unfinished.write_text(json.dumps({name: seal._asdict() for name, seal in seals.items()}, indent=1))
    flush(unfinished)
    unfinished.rename(folder / MARKER)
    flush(folder)


def read_seals(folder: Path) -> dict[str, Seal]:
    """Return the seals of a folder. Raises ValueError where its marker cannot be read."""
    try:
        told = json.loads((folder / MARKER).read_bytes())
        return {name: Seal(**seal) for name, seal in told.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{MARKER} cannot be read") from error


def find_damage(folder: Path) -> str | None:
    """Say what is wrong with a sealed folder, None if every byte is as it was."""
    try:
        seals = read_seals(folder)
    except ValueError as error:
        return str(error)
    if not seals:
        return f"{MARKER} names no file"
    for name, seal in seals.items():
        path = folder / name
        if not path.is_file():
            return f"{path.name} is missing"
        if (size := path.stat().st_size) != seal.bytes:
            return f"{path.name} has {size:,} bytes instead of {seal.bytes:,}"
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda name: read_seal(folder / name), seals)
        changed = [name for name, now in zip(seals, found, strict=True) if now != seals[name]]
    return f"{Path(changed[0]).name} has changed since it was saved" if changed else None


def flush(path: Path) -> None:
    """Bring a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
