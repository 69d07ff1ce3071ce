"""attempts at runs, and the time that was worked on a run."""

import sqlalchemy as sa

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("worker", sa.String(100), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("detail", sa.Text()),
        sa.Column("first_step", sa.Integer()),
        sa.Column("last_step", sa.Integer()),
    )
    with op.batch_alter_table("runs") as batch_op:
        batch_op.add_column(sa.Column("worked_seconds", sa.Double()))


def downgrade() -> None:
    with op.batch_alter_table("runs") as batch_op:
        batch_op.drop_column("worked_seconds")
    op.drop_table("attempts")
