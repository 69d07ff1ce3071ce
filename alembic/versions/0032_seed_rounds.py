"""Rounds of added seeds, each followed by another look at the results."""

import sqlalchemy as sa

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("seed_round", sa.Integer, nullable=False, server_default="1"))
