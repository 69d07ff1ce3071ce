"""embeddings are made by the map of a trial or of a task; scores of a task as they come"""

import sqlalchemy as sa

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Both databases rename in place; a batch would copy the table on SQLite.
    op.execute("ALTER TABLE embeddings RENAME COLUMN postprocessing_id TO made_by_id")
    with op.batch_alter_table("task_runs") as batch_op:
        batch_op.add_column(sa.Column("judged", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    with op.batch_alter_table("task_runs") as batch_op:
        batch_op.drop_column("judged")
    op.execute("ALTER TABLE embeddings RENAME COLUMN made_by_id TO postprocessing_id")
