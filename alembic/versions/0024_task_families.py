"""tasks on other embeddings name the first that has their ground truth"""

import sqlalchemy as sa

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("task_runs") as batch_op:
        batch_op.add_column(sa.Column("family_id", sa.String(32)))
        batch_op.create_index(batch_op.f("ix_task_runs_family_id"), ["family_id"])


def downgrade() -> None:
    with op.batch_alter_table("task_runs") as batch_op:
        batch_op.drop_index(batch_op.f("ix_task_runs_family_id"))
        batch_op.drop_column("family_id")
