"""curves of many runs are read of indexes, not of wide rows"""

import sqlalchemy as sa

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

KEY = "ALTER TABLE steps DROP CONSTRAINT pk_steps, ADD CONSTRAINT pk_steps PRIMARY KEY (run_id, step)"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"{KEY} INCLUDE (task_loss, penalty)")
    looked = sa.text("layers IS NOT NULL")
    op.create_index("ix_steps_looks", "steps", ["run_id", "step"], sqlite_where=looked, postgresql_where=looked)


def downgrade() -> None:
    op.drop_index("ix_steps_looks", "steps")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(KEY)
