"""task runs: variants of an embedding's vectors judged by a task"""

import sqlalchemy as sa

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def _embedding(name: str, *, nullable: bool) -> sa.Column[str]:
    key = sa.ForeignKey("embeddings.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(32), key, nullable=nullable, index=True)


def _file(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(64), sa.ForeignKey("files.sha256"), index=True)


def upgrade() -> None:
    op.create_table(
        "task_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        _embedding("embedding_id", nullable=False),
        _embedding("queries_id", nullable=True),
        sa.Column("config", JSON, nullable=False),
        sa.Column("filename", sa.String(255)),
        _file("truth_sha256"),
        sa.Column("preview", JSON),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("notes", JSON),
        sa.Column("results", JSON),
        sa.Column("maps", JSON),
        _file("chosen_sha256"),
        _file("smallest_sha256"),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )


def downgrade() -> None:
    op.drop_table("task_runs")
