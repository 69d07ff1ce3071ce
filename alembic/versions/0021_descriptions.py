"""stars, archives and notes for embeddings and experiments alike, tags of experiments, notified ends"""

import sqlalchemy as sa

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    for table in ("embeddings", "experiments"):
        op.add_column(table, sa.Column("starred", sa.Boolean(), nullable=False, server_default=sa.false()))
        op.add_column(table, sa.Column("archived_at", TIME))
    op.add_column("experiments", sa.Column("notes", sa.Text(), nullable=False, server_default=""))
    op.add_column("experiments", sa.Column("notified_at", TIME))
    # Nobody waits for the end of what ended before.
    op.execute(
        "UPDATE experiments SET notified_at = created_at WHERE NOT EXISTS (SELECT 1 FROM runs WHERE "
        "runs.experiment_id = experiments.id AND runs.status NOT IN ('finished', 'failed', 'cancelled', 'pruned'))"
    )
    op.create_table(
        "experiment_tags",
        sa.Column(
            "experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("tag", sa.String(40), primary_key=True, index=True),
    )


def downgrade() -> None:
    op.drop_table("experiment_tags")
    for column in ("notified_at", "notes"):
        op.drop_column("experiments", column)
    for table in ("embeddings", "experiments"):
        op.drop_column(table, "archived_at")
        op.drop_column(table, "starred")
