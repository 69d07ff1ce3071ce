"""Drop saved views, stars, archives and dry runs; add worker speeds and the reason why runs are held."""

import sqlalchemy as sa

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table("views")
    for table in ("embeddings", "experiments"):
        op.drop_column(table, "starred")
        op.drop_column(table, "archived_at")
    op.drop_table("dry_runs")
    op.add_column("workers", sa.Column("speed", sa.JSON))
    op.add_column("experiments", sa.Column("held", sa.Text))
