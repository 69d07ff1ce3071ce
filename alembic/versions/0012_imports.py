"""imports of experiments as jobs: how far each is, and what it hides until it has finished."""

import sqlalchemy as sa

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "imports",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("content", sa.String(64)),
        sa.Column("written", JSON, nullable=False),
        sa.Column("total", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("page", sa.String(200)),
        sa.Column("experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="SET NULL"), index=True),
        sa.Column("dataset_id", sa.String(32), sa.ForeignKey("datasets.id", ondelete="SET NULL"), index=True),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )


def downgrade() -> None:
    op.drop_table("imports")
