"""Columns for runs that share a device, and for the load of GPUs."""

import sqlalchemy as sa

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("peak_bytes", sa.BigInteger))
    op.add_column("runs", sa.Column("whole_device", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("workers", sa.Column("load", sa.JSON))
