"""Run a job until its row is final: count the attempts, start again after a crash, give up with a sentence."""

import asyncio
import logging
import signal
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import update

from app.db.models import (
    UNFINISHED,
    UNFINISHED_ENCODING,
    UNFINISHED_IMPORT,
    DryRun,
    Embedding,
    EmbeddingStatus,
    Encoding,
    EncodingStatus,
    FailureCause,
    Import,
    ImportStatus,
    PostProcessing,
    ResultStatus,
    Run,
    RunStatus,
    ZetaCurve,
)
from app.db.session import Sessions
from app.db.types import utcnow
from app.queue import MODEL_KINDS, Job, JobKind
from workers.finetune.log import Log
from workers.process import DATABASE_AWAY, JobProcesses

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
# Where no crash of its own was ever seen, and the job only went down with its worker.
MAX_LOST_ATTEMPTS = 25
AWAY = "the database not answering"

# The table of each kind of job, the states in which a row waits for that job, and the state of having failed.
# Any: the tables share `status`, `attempts` and `error`, but each has states of its own.
ROWS: dict[JobKind, tuple[Any, tuple[StrEnum, ...], StrEnum]] = {
    JobKind.INSPECT: (Embedding, (EmbeddingStatus.INSPECTING,), EmbeddingStatus.FAILED),
    JobKind.MEASURE: (Embedding, (EmbeddingStatus.MEASURING,), EmbeddingStatus.FAILED),
    JobKind.CURVE: (ZetaCurve, (ResultStatus.QUEUED,), ResultStatus.FAILED),
    JobKind.POSTPROCESS: (PostProcessing, (ResultStatus.QUEUED,), ResultStatus.FAILED),
    JobKind.MAKE: (Embedding, (EmbeddingStatus.MAKING,), EmbeddingStatus.FAILED),
    JobKind.ENCODE: (Encoding, UNFINISHED_ENCODING, EncodingStatus.FAILED),
    JobKind.DRY_RUN: (DryRun, (ResultStatus.QUEUED,), ResultStatus.FAILED),
    JobKind.FINETUNE: (Run, UNFINISHED, RunStatus.FAILED),
    JobKind.IMPORT: (Import, UNFINISHED_IMPORT, ImportStatus.REMOVING),  # what it wrote has to go before it has failed
    JobKind.DISCARD: (Import, (ImportStatus.REMOVING,), ImportStatus.FAILED),
}


class Executor:
    """What the engine calls for each job."""

    def __init__(self, sessions: Sessions, processes: JobProcesses, slot: str, runs: Path) -> None:
        self._sessions = sessions
        self._processes = processes
        self._slot = slot
        self._runs = runs
        self._begun: set[Job] = set()
        self._stopping = False

    async def execute(self, job: Job) -> None:
        """Work on a job until its row is final or it is given up."""
        cause: str | None = None
        attempt = 0
        while attempt := await asyncio.to_thread(self._begin, job, cause, attempt):
            self._begun.add(job)
            try:
                exit_code = -signal.SIGTERM if self._stopping else await self._processes.run(job)
                if self._stopping:
                    # The job was ended because the worker ends. To return would tell the engine that it is done.
                    await asyncio.Event().wait()
            finally:
                self._begun.discard(job)
            if exit_code == 0:
                return
            cause = _cause(exit_code)
            logger.warning("the process of %s ended with %s", job.workflow_id, cause)

    def stop(self) -> None:
        """End all jobs; they go on where they were when a worker of this slot starts again."""
        self._stopping = True
        self._processes.kill_all()
        mine = (Run.worker == self._slot) & (Run.status == RunStatus.RUNNING)
        with self._sessions.begin() as session:
            for job in list(self._begun):  # an orderly end is no failed attempt
                table = ROWS[job.kind][0]
                begun = update(table).where(table.id == job.row_id)
                if table is Run:  # which may be another worker's by now
                    begun = begun.where(Run.worker == self._slot)
                session.execute(begun.values(attempts=0))
            session.execute(update(Run).where(mine).values(status=RunStatus.QUEUED, worker=None))

    def _begin(self, job: Job, cause: str | None, last: int) -> int:
        """Count an attempt and return its number; 0 where there is nothing to do, or no more hope.

        ``cause`` is what ended the last process of this call, shown if there is no more hope, and ``last`` the number
        of that attempt.
        """
        table, waiting, failed = ROWS[job.kind]
        with self._sessions.begin() as session:
            row = session.get(table, job.row_id, with_for_update=True)
            if row is None or row.status not in waiting:
                return 0
            if cause is not None:
                if isinstance(row, Run):  # whose attempts are counted anew at each checkpoint
                    if row.worker != self._slot:
                        return 0  # meanwhile this worker was thought dead, and the run given to another
                elif row.attempts != last:
                    return 0  # meanwhile it was cancelled and asked for again, which is not this call's
                row.error = cause
            row.attempts += 1
            if row.attempts > (MAX_ATTEMPTS if row.error else MAX_LOST_ATTEMPTS):
                row.status = failed
                self._give_up(job.kind, row)
                return 0
            if isinstance(row, Run):
                row.worker = self._slot
            attempt: int = row.attempts
        return attempt

    def _give_up(self, kind: JobKind, row: Any) -> None:
        """Write into a row that has failed why that is."""
        if isinstance(row, Run | Encoding):
            row.finished_at = utcnow()
        if isinstance(row, Run):
            row.cause = FailureCause.DATABASE if row.error == AWAY else FailureCause.KILLED
            row.log = Log(self._runs / row.id).tail()
        row.error = _given_up(kind, row.attempts - 1, row.error)
        if kind is JobKind.IMPORT:  # to remove what it wrote is another job, with attempts of its own
            row.attempts = 0


def _cause(exit_code: int) -> str:
    if exit_code == DATABASE_AWAY:
        return AWAY
    if exit_code >= 0:
        return f"exit code {exit_code}"
    return f"signal {signal.Signals(-exit_code).name}"


def _given_up(kind: JobKind, attempts: int, last_cause: str | None) -> str:
    if last_cause == AWAY:
        return (
            f"The process of this job ended {attempts} times without getting further, the last time because the "
            "database did not answer. See that it runs and can be reached from the worker, and try again."
        )
    has_model = kind in MODEL_KINDS
    smaller = "a smaller batch, a smaller model" if has_model else "fewer dimensions"
    return (
        f"The process of this job ended {attempts} times without getting further (last by "
        f"{last_cause or 'the end of its whole worker'}). SIGKILL most often means that memory ran out: "
        f"try {smaller} or fewer rows."
    )
