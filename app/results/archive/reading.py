"""An archive from outside: hostile until every hash and every line of it have been checked."""

import hashlib
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from app import VERSION
from app.core.validation_messages import message_of
from app.db.models import Run, Split
from app.db.predictions import Predictions
from app.results.archive import container
from app.results.archive.container import (
    ADVICE,
    FORMAT,
    MAX_LINE_BYTES,
    MAX_RUNS,
    MAX_STEPS,
    Container,
    open_container,
    read_json,
)
from app.results.archive.records import (
    ExperimentRecord,
    LoggedExperimentRecord,
    LoggedRunRecord,
    Manifest,
    PredictionsRecord,
    RunFigureRecord,
    RunRecord,
    StepRecord,
)
from app.results.archive.sealed_records import OpeningRecord, SealedScoreRecord, check_openings, joined
from app.results.setting import as_cell, setting_of
from isoscope.core.errors import InvalidError, TooLargeError, UnsupportedFormatError
from isoscope.core.task import TaskKind

R = TypeVar("R", bound=BaseModel)


class Found(NamedTuple):
    """What a checked archive is."""

    manifest: Manifest
    experiment: ExperimentRecord
    content: str
    """A hash of all rows: the same for two exports of the same experiment, unless it has changed between them."""
    total: int
    """Rows of all members that an import reads."""


class Archive:
    """The rows of an archive, one at a time. Each look at a file of it compares its hash when the file ends."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self.passed = 0
        """Bytes of all lines that were yielded so far."""
        self.manifest = self._read_manifest()
        self._check_members()

    def check(self) -> Found:
        """Read all of it, and say what it is."""
        for name in self.manifest.members:
            for _ in self._blocks(name):
                pass
        experiment = self.experiment()
        runs = self._check_runs(experiment)
        total = len(runs) + self._check_steps(runs) + self._check_run_figures(runs)
        total += self._check_predictions(experiment, runs) + self._check_sealed(runs)
        total += sum(len(run.timeline) + len(run.tags) for run in self.runs()) + len(list(self.openings()))
        members = self.manifest.members
        # Empty is as good as missing: what an earlier version exported is the same experiment.
        told = [*container.ROWS, *(name for name in container.LATER_ROWS if name in members and members[name].bytes)]
        hashes = "".join(members[name].sha256 for name in told)
        return Found(self.manifest, experiment, hashlib.sha256(hashes.encode()).hexdigest(), total)

    def experiment(self) -> ExperimentRecord:
        """What the runs share."""
        text = b"".join(self._blocks(container.EXPERIMENT))
        return _launched_or_logged(ExperimentRecord, LoggedExperimentRecord, text, container.EXPERIMENT)

    def runs(self) -> Iterator[RunRecord]:
        """Yield the runs."""
        for number, line in enumerate(self._lines(container.RUNS), start=1):
            yield _launched_or_logged(RunRecord, LoggedRunRecord, line, f"{container.RUNS}, line {number}")

    def steps(self) -> Iterator[StepRecord]:
        """Yield what they logged. There may be millions, so pydantic's own parser reads them, which is the faster."""
        for number, line in enumerate(self._lines(container.STEPS), start=1):
            with _told(f"{container.STEPS}, line {number}"):
                step = StepRecord.model_validate_json(line)
            yield step

    def run_figures(self) -> Iterator[RunFigureRecord]:
        """Yield what their figures show."""
        yield from self._records(container.RUN_FIGURES, RunFigureRecord)

    def predictions(self, task: TaskKind, split: Split = Split.VALIDATION) -> Iterator[tuple[str, Predictions]]:
        """Yield run and predictions, one run at a time; none where the export has none of the split."""
        name = container.PREDICTIONS if split is Split.VALIDATION else container.SEALED_PREDICTIONS
        for run, parts in groupby(self._records(name, PredictionsRecord), key=lambda record: record.run):
            try:
                yield run, joined(parts, task, split)
            except ValueError as error:
                raise InvalidError(f"{name} cannot be what a run predicted: {error}. {ADVICE}") from None

    def sealed_scores(self) -> Iterator[SealedScoreRecord]:
        """Yield what runs scored on test rows, sealed."""
        yield from self._records(container.SEALED_SCORES, SealedScoreRecord)

    def openings(self) -> Iterator[OpeningRecord]:
        """Yield the choices that were opened, the first first."""
        yield from self._records(container.OPENINGS, OpeningRecord)

    def _records(self, name: str, kind: type[R]) -> Iterator[R]:
        """Yield the records of a member; none where an export of an earlier version lacks it."""
        lines = self._lines(name) if name in self.manifest.members else iter(())
        for number, line in enumerate(lines, start=1):
            place = f"{name}, line {number}"
            yield _record(kind, _parsed(line, place), place)

    def _read_manifest(self) -> Manifest:
        if container.MANIFEST not in self._container.names:
            raise InvalidError(
                f"Expected an exported experiment, got a zip archive without {container.MANIFEST}. "
                "Choose a file that an experiment's Export wrote."
            )
        found = _parsed(b"".join(self._container.blocks(container.MANIFEST)), container.MANIFEST)
        written_as = found.get("format") if isinstance(found, dict) else None
        if isinstance(written_as, int) and written_as != FORMAT:
            raise UnsupportedFormatError(
                f"The file is of format {written_as}, and this Isoscope {VERSION} reads format {FORMAT}: "
                f"{'update it' if written_as > FORMAT else 'export it again with a newer one'}."
            )
        return _record(Manifest, found, container.MANIFEST)

    def _check_members(self) -> None:
        told, there = set(self.manifest.members), self._container.names - {container.MANIFEST}
        if missing := [name for name in container.ROWS if name not in there] or sorted(told - there):
            raise InvalidError(f"The file lacks {missing[0][:80]!r}: it is not whole. {ADVICE}")
        if untold := sorted(there - told):
            raise InvalidError(f"{untold[0]!r} is not in the manifest: the file was altered. {ADVICE}")

    def _check_runs(self, experiment: ExperimentRecord) -> dict[str, int]:
        """Return the greatest step so far of each run, none yet."""
        runs: dict[str, int] = {}
        positions = set()
        for run in self.runs():
            if len(runs) == MAX_RUNS:
                raise TooLargeError(f"{container.RUNS} has more than {MAX_RUNS:,} runs, the limit here.")
            if run.id in runs or run.position in positions:
                raise InvalidError(f"{container.RUNS} has two runs of the same id or position. {ADVICE}")
            _check_grid(experiment, run)
            runs[run.id] = -1
            positions.add(run.position)
        if not runs:
            raise InvalidError(f"{container.RUNS} is empty: there is no run to show. {ADVICE}")
        return runs

    def _check_steps(self, runs: dict[str, int]) -> int:
        """Return how many there are."""
        n, depths = 0, dict[str, int]()
        for n, step in enumerate(self.steps(), start=1):
            if n > MAX_STEPS:
                raise TooLargeError(f"{container.STEPS} has more than {MAX_STEPS:,} steps, the limit here.")
            if step.step <= runs.get(_run_of(step.run, runs, container.STEPS), -1):
                raise InvalidError(f"{container.STEPS} has the steps of a run out of order, or one twice. {ADVICE}")
            runs[step.run] = step.step
            for values in (step.layers or {}).values():
                if depths.setdefault(step.run, len(values)) != len(values):
                    raise InvalidError(f"{container.STEPS} has measures of more layers of a run than others. {ADVICE}")
        return n

    def _check_run_figures(self, runs: dict[str, int]) -> int:
        """Return how many there are."""
        keys = ((_run_of(one.run, runs, container.RUN_FIGURES), one.slug) for one in self.run_figures())
        return _count_distinct(keys, f"{container.RUN_FIGURES} has a figure of a run")

    def _check_predictions(self, experiment: ExperimentRecord, runs: dict[str, int]) -> int:
        """Return of how many runs there are predictions, on either split."""
        n = 0
        for split in Split:
            found = self.predictions(experiment.config.task, split)
            of_runs = (_run_of(run, runs, container.PREDICTIONS) for run, _ in found)
            n += _count_distinct(of_runs, f"The file has the {split} predictions of a run")
        return n

    def _check_sealed(self, runs: dict[str, int]) -> int:
        """Return how many scores there are."""
        of_runs = (_run_of(score.run, runs, container.SEALED_SCORES) for score in self.sealed_scores())
        n = _count_distinct(of_runs, f"{container.SEALED_SCORES} has the score of a run")
        check_openings(self.openings(), {run.position for run in self.runs()}, ADVICE)
        return n

    def _lines(self, name: str) -> Iterator[bytes]:
        rest = b""
        for block in self._blocks(name):
            *whole, rest = (rest + block).split(b"\n")
            if max(map(len, (*whole, rest))) > MAX_LINE_BYTES:
                raise TooLargeError(f"{name} has a line of more than {MAX_LINE_BYTES:,} bytes, the limit here.")
            for line in whole:
                self.passed += len(line)
                yield line
        if rest:
            raise InvalidError(f"The last line of {name} is cut off. {ADVICE}")

    def _blocks(self, name: str) -> Iterator[bytes]:
        digest, told = hashlib.sha256(), self.manifest.members[name]
        for block in self._container.blocks(name):
            digest.update(block)
            yield block
        if digest.hexdigest() != told.sha256:
            raise InvalidError(f"{name} is not what the manifest says, by its hash: the file was altered. {ADVICE}")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive, whose directory and manifest are in order."""
    with open_container(path) as container:
        yield Archive(container)


def check_archive(path: Path) -> Found:
    """What an archive is; for a process of its own, as whatever it holds is read here for the first time."""
    with open_archive(path) as archive:
        return archive.check()


def _check_grid(experiment: ExperimentRecord, run: RunRecord) -> None:
    """Figures look up every value that a run reads among those of the grid."""
    if isinstance(experiment, LoggedExperimentRecord) != isinstance(run, LoggedRunRecord):
        raise InvalidError(
            f"{container.EXPERIMENT} and a run in {container.RUNS} disagree whether it was logged by a script or "
            f"launched. {ADVICE}"
        )
    row = Run(config=run.config, regularizer=run.regularizer, lam=run.lam, zeta=run.zeta)
    of_run = setting_of(row, list(experiment.grid)).values
    for (field, values), value in zip(experiment.grid.items(), of_run, strict=True):
        if value is not None and value not in [as_cell(one) for one in values]:
            raise InvalidError(f"A run in {container.RUNS} has a {field} that is not among those of the grid. {ADVICE}")


def _count_distinct(keys: Iterable[Hashable], twice: str) -> int:
    """Count keys; raise InvalidError, whose sentence begins so, where one comes twice."""
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise InvalidError(f"{twice} twice. {ADVICE}")
        seen.add(key)
    return len(seen)


def _run_of(run_id: str, runs: dict[str, int], name: str) -> str:
    if run_id not in runs:
        raise InvalidError(f"{name} has a run that is not in {container.RUNS}. {ADVICE}")
    return run_id


def _record(kind: type[R], found: object, place: str) -> R:
    with _told(place):
        return kind.model_validate(found)


def _launched_or_logged(launched: type[R], logged: type[R], text: bytes, place: str) -> R:
    """A record of what was launched, or of what a user's script logged, as its configuration says."""
    found = _parsed(text, place)
    config = found.get("config") if isinstance(found, dict) else None
    return _record(logged if isinstance(config, dict) and config.get("logged") is True else launched, found, place)


@contextmanager
def _told(place: str) -> Iterator[None]:
    """Say where in the archive it is that pydantic complains about."""
    try:
        yield
    except ValidationError as error:
        raise InvalidError(f"{place}: {message_of(error.errors()).sentence} {ADVICE}") from None


def _parsed(text: bytes, place: str) -> object:
    try:
        return read_json(text)
    except InvalidError as error:
        raise InvalidError(f"{place} cannot be read: {error.message}. {ADVICE}") from None
