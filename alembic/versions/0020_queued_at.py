"""encodings and dry runs say since when they wait, which is their turn"""

import sqlalchemy as sa

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TABLES = ("encodings", "dry_runs")


def upgrade() -> None:
    for name in TABLES:
        with op.batch_alter_table(name) as batch_op:
            batch_op.add_column(sa.Column("queued_at", sa.DateTime(timezone=True)))
        table = sa.table(name, sa.column("queued_at"), sa.column("created_at"))
        op.execute(sa.update(table).values(queued_at=table.c.created_at))
        with op.batch_alter_table(name) as batch_op:
            batch_op.alter_column("queued_at", nullable=False)


def downgrade() -> None:
    for name in TABLES:
        with op.batch_alter_table(name) as batch_op:
            batch_op.drop_column("queued_at")
