"""Jobs that add a neighbor layout to a map."""

import sqlalchemy as sa

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "map_layouts",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column(
            "embedding_id",
            sa.String(32),
            sa.ForeignKey("embeddings.id", ondelete="CASCADE"),
            nullable=False,
            unique=True,
        ),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
    )
