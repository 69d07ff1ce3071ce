"""Attempts at a run in words."""

from app.db.models import AttemptOutcome

OUTCOMES = {
    AttemptOutcome.FINISHED: "finished",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.PRUNED: "pruned",
    AttemptOutcome.CANCELLED: "cancelled",
    AttemptOutcome.PAUSED: "paused",
    AttemptOutcome.KILLED: "process ended",
    AttemptOutcome.WORKER_LOST: "worker lost",
    AttemptOutcome.WORKER_STOPPED: "worker stopped",
    AttemptOutcome.DATABASE_AWAY: "database did not answer",
    AttemptOutcome.DISK_FULL: "disk full",
}
