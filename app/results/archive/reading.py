"""Read an untrusted archive, and check all of its hashes and lines."""

import hashlib
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from app import VERSION
from app.core.validation_messages import first_message
from app.db.models import Run, Split
from app.db.predictions import Predictions
from app.results.archive import container
from app.results.archive.container import (
    ADVICE,
    BROKEN_MESSAGE,
    FORMAT,
    MANIFEST,
    MAX_LINE_BYTES,
    MAX_RUNS,
    MAX_STEPS,
    REQUIRED_MEMBERS,
    Container,
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
from app.results.archive.sealed_records import MAX_OPENINGS, OpeningRecord, SealedScoreRecord, predictions_from_records
from app.results.run_table import as_cell, setting_of
from isoscope.core.errors import InvalidError, TooLargeError, UnsupportedFormatError
from isoscope.core.task import TaskKind
from isoscope.files.compressed import open_zip

PREDICTION_MEMBERS = {Split.VALIDATION: container.PREDICTIONS, Split.TEST: container.SEALED_PREDICTIONS}
RecordT = TypeVar("RecordT", bound=BaseModel)


class CheckedArchive(NamedTuple):
    """The manifest, experiment and size of an archive that was checked."""

    manifest: Manifest
    experiment: ExperimentRecord
    content_hash: str
    """Hash of all rows. Two exports of an experiment share it, unless the experiment changed between them."""
    n_rows: int
    """Number of database rows that an import writes, besides the experiment and its data set."""


class Archive:
    """The records of an untrusted archive. A wrong record, member or hash raises InvalidError when it is read."""

    def __init__(self, zip_container: Container) -> None:
        self._container = zip_container
        self.bytes_read = 0
        """Total size of the lines that were read so far."""
        if MANIFEST not in zip_container.names:
            raise InvalidError(
                f"Expected an exported experiment, got a zip archive without {MANIFEST}. "
                "Choose a file made by Export on the page of an experiment."
            )
        document = _parse(b"".join(zip_container.blocks(MANIFEST)), MANIFEST)
        format_version = document.get("format") if isinstance(document, dict) else None
        if isinstance(format_version, int) and format_version != FORMAT:
            raise UnsupportedFormatError(
                f"The file has format {format_version}, and this Isoscope {VERSION} reads format {FORMAT}: "
                f"{'update Isoscope' if format_version > FORMAT else 'export the experiment with a newer Isoscope'}."
            )
        self.manifest = _validate(Manifest, document, MANIFEST)
        listed_names, member_names = set(self.manifest.members), zip_container.names - {MANIFEST}
        missing = [name for name in REQUIRED_MEMBERS if name not in member_names]
        missing += sorted(listed_names - member_names)
        if missing:
            raise InvalidError(f"The file lacks {missing[0][:80]!r}: it is incomplete. {ADVICE}")
        if unlisted := sorted(member_names - listed_names):
            raise InvalidError(f"{unlisted[0]!r} is not in the manifest: the file was altered. {ADVICE}")

    def check(self) -> CheckedArchive:
        """Read all members. Raise InvalidError or TooLargeError if they could not be imported."""
        for name in self.manifest.members:
            for _ in self._blocks(name):  # the hash is checked after the last block
                pass
        experiment = self.experiment()
        run_ids = self._check_runs(experiment)
        n_steps = 0
        last_steps: dict[str, int] = {}
        layer_counts: dict[str, int] = {}
        for n_steps, step in enumerate(self.steps(), start=1):
            if n_steps > MAX_STEPS:
                raise TooLargeError(f"{container.STEPS} has more than {MAX_STEPS:,} steps, the limit here.")
            run_id = _require_run(step.run, run_ids, container.STEPS)
            if run_id in last_steps and step.step <= last_steps[run_id]:
                raise InvalidError(f"{container.STEPS} repeats a step of a run, or steps are out of order. {ADVICE}")
            last_steps[run_id] = step.step
            for layer_values in (step.layers or {}).values():
                if layer_counts.setdefault(run_id, len(layer_values)) != len(layer_values):
                    raise InvalidError(f"{container.STEPS} has steps of a run with unequal layer counts. {ADVICE}")
        figures = self.run_figures()
        figure_keys = ((_require_run(figure.run, run_ids, container.RUN_FIGURES), figure.slug) for figure in figures)
        n_figures = _count_distinct(figure_keys, f"{container.RUN_FIGURES} has a figure of a run")
        n_rows = len(run_ids) + n_steps + n_figures
        for split, name in PREDICTION_MEMBERS.items():
            predictions = self.predictions(experiment.config.task, split)
            predicted_ids = (_require_run(run_id, run_ids, name) for run_id, _ in predictions)
            n_rows += _count_distinct(predicted_ids, f"The file has the {split} predictions of a run")
        n_rows += self._check_sealed(run_ids) + sum(len(run.timeline) + len(run.tags) for run in self.runs())
        members = self.manifest.members
        # An export with an empty optional member has the same hash as one that leaves the member out.
        optional = [name for name in container.OPTIONAL_MEMBERS if name in members and members[name].bytes]
        hashes = "".join(members[name].sha256 for name in (*container.REQUIRED_MEMBERS, *optional))
        return CheckedArchive(self.manifest, experiment, hashlib.sha256(hashes.encode()).hexdigest(), n_rows)

    def experiment(self) -> ExperimentRecord:
        text = b"".join(self._blocks(container.EXPERIMENT))
        return _validate_by_origin(ExperimentRecord, LoggedExperimentRecord, text, container.EXPERIMENT)

    def runs(self) -> Iterator[RunRecord]:
        for number, line in enumerate(self._lines(container.RUNS), start=1):
            yield _validate_by_origin(RunRecord, LoggedRunRecord, line, f"{container.RUNS}, line {number}")

    def steps(self) -> Iterator[StepRecord]:
        """Yield the steps of all runs. They are read by pydantic's faster parser, because there may be millions."""
        for number, line in enumerate(self._lines(container.STEPS), start=1):
            with _locating_errors(f"{container.STEPS}, line {number}"):
                step = StepRecord.model_validate_json(line)
            yield step

    def run_figures(self) -> Iterator[RunFigureRecord]:
        yield from self._records(container.RUN_FIGURES, RunFigureRecord)

    def predictions(self, task: TaskKind, split: Split = Split.VALIDATION) -> Iterator[tuple[str, Predictions]]:
        """Yield the id and the predictions of each run that has predictions for the split."""
        name = PREDICTION_MEMBERS[split]
        for run_id, records in groupby(self._records(name, PredictionsRecord), key=lambda record: record.run):
            try:
                yield run_id, predictions_from_records(records, task, split)
            except ValueError as error:
                raise InvalidError(f"{name} cannot be what a run predicted: {error}. {ADVICE}") from None

    def sealed_scores(self) -> Iterator[SealedScoreRecord]:
        yield from self._records(container.SEALED_SCORES, SealedScoreRecord)

    def openings(self) -> Iterator[OpeningRecord]:
        yield from self._records(container.OPENINGS, OpeningRecord)

    def _records(self, name: str, record_class: type[RecordT]) -> Iterator[RecordT]:
        """Yield a record for each line of a member, or none if the archive lacks the member."""
        lines = self._lines(name) if name in self.manifest.members else iter(())
        for number, line in enumerate(lines, start=1):
            location = f"{name}, line {number}"
            yield _validate(record_class, _parse(line, location), location)

    def _check_runs(self, experiment: ExperimentRecord) -> set[str]:
        """Return the ids of the runs. Raise InvalidError if the runs contradict each other or the experiment."""
        run_ids: set[str] = set()
        positions: set[int] = set()
        for run in self.runs():
            if len(run_ids) == MAX_RUNS:
                raise TooLargeError(f"{container.RUNS} has more than {MAX_RUNS:,} runs, the limit here.")
            if run.id in run_ids or run.position in positions:
                raise InvalidError(f"{container.RUNS} has two runs of the same id or position. {ADVICE}")
            if isinstance(experiment, LoggedExperimentRecord) != isinstance(run, LoggedRunRecord):
                raise InvalidError(
                    f"{container.EXPERIMENT} and a run in {container.RUNS} disagree whether it was logged by a script "
                    f"or launched. {ADVICE}"
                )
            row = Run(config=run.config, regularizer=run.regularizer, lam=run.lam, zeta=run.zeta)
            setting_values = setting_of(row, list(experiment.grid)).values
            for (field, values), value in zip(experiment.grid.items(), setting_values, strict=True):
                if value is not None and value not in [as_cell(grid_value) for grid_value in values]:
                    raise InvalidError(
                        f"A run in {container.RUNS} has a {field} that is not among those of the grid. {ADVICE}"
                    )
            run_ids.add(run.id)
            positions.add(run.position)
        if not run_ids:
            raise InvalidError(f"{container.RUNS} is empty: there is no run to show. {ADVICE}")
        return run_ids

    def _check_sealed(self, run_ids: Collection[str]) -> int:
        """Return the number of sealed scores and openings. Raise InvalidError if they contradict the runs."""
        scored_ids = (_require_run(score.run, run_ids, container.SEALED_SCORES) for score in self.sealed_scores())
        n_scores = _count_distinct(scored_ids, f"{container.SEALED_SCORES} has the score of a run")
        positions = {run.position for run in self.runs()}
        n_openings = 0
        for n_openings, opening in enumerate(self.openings(), start=1):
            if opening.number != n_openings or n_openings > MAX_OPENINGS:
                raise InvalidError(f"The openings are not numbered 1, 2, 3 and so on: the file was altered. {ADVICE}")
            if opening.position not in positions:
                raise InvalidError(f"An opening chose a run that is not in the file. {ADVICE}")
        return n_scores + n_openings

    def _lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a member without their line breaks."""
        incomplete_line = b""
        for block in self._blocks(name):
            *lines, incomplete_line = (incomplete_line + block).split(b"\n")
            if max(map(len, (*lines, incomplete_line))) > MAX_LINE_BYTES:
                raise TooLargeError(f"{name} has a line of more than {MAX_LINE_BYTES:,} bytes, the limit here.")
            for line in lines:
                self.bytes_read += len(line)
                yield line
        if incomplete_line:
            raise InvalidError(f"The last line of {name} is cut off. {ADVICE}")

    def _blocks(self, name: str) -> Iterator[bytes]:
        """Yield a member in blocks. Raise InvalidError after the last one if they do not have the manifest's hash."""
        digest, member = hashlib.sha256(), self.manifest.members[name]
        for block in self._container.blocks(name):
            digest.update(block)
            yield block
        if digest.hexdigest() != member.sha256:
            raise InvalidError(f"{name} is not what the manifest says, by its hash: the file was altered. {ADVICE}")


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    with open_zip(path, BROKEN_MESSAGE) as zip_file:
        yield Archive(Container(zip_file))


def check_archive(path: Path) -> CheckedArchive:
    """Check an archive. A sandboxed process does this before any other process reads the untrusted content."""
    with open_archive(path) as archive:
        return archive.check()


def _count_distinct(keys: Iterable[Hashable], subject: str) -> int:
    """Return the number of keys. Raise InvalidError at a duplicate; its message is "{subject} twice"."""
    distinct_keys: set[Hashable] = set()
    for key in keys:
        if key in distinct_keys:
            raise InvalidError(f"{subject} twice. {ADVICE}")
        distinct_keys.add(key)
    return len(distinct_keys)


def _require_run(run_id: str, run_ids: Collection[str], name: str) -> str:
    """Return the run id that the member ``name`` refers to. Raise InvalidError if it is not among ``run_ids``."""
    if run_id not in run_ids:
        raise InvalidError(f"{name} has a run that is not in {container.RUNS}. {ADVICE}")
    return run_id


def _validate(record_class: type[RecordT], document: object, location: str) -> RecordT:
    with _locating_errors(location):
        return record_class.model_validate(document)


def _validate_by_origin(
    launched_class: type[RecordT], logged_class: type[RecordT], text: bytes, location: str
) -> RecordT:
    """Parse the JSON of an experiment or a run; its configuration says whether it was launched or logged."""
    document = _parse(text, location)
    config = document.get("config") if isinstance(document, dict) else None
    is_logged = isinstance(config, dict) and config.get("logged") is True
    return _validate(logged_class if is_logged else launched_class, document, location)


@contextmanager
def _locating_errors(location: str) -> Iterator[None]:
    """Raise InvalidError that starts with the file and line, in place of pydantic's error."""
    try:
        yield
    except ValidationError as error:
        raise InvalidError(f"{location}: {first_message(error.errors()).sentence} {ADVICE}") from None


def _parse(text: bytes, location: str) -> object:
    try:
        return read_json(text)
    except InvalidError as error:
        raise InvalidError(f"{location} cannot be read: {error.message}. {ADVICE}") from None
