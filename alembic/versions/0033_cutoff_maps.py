"""The map that a task's cutoffs belong to."""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # In SQL, because Alembic adds a foreign key apart from its column, which SQLite cannot.
    op.execute("ALTER TABLE task_runs ADD COLUMN cutoff_sha256 VARCHAR(64) REFERENCES files (sha256)")
    op.create_index("ix_task_runs_cutoff_sha256", "task_runs", ["cutoff_sha256"])
