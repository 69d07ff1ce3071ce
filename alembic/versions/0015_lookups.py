"""look-ups of rows by their names, among all rows of an embedding"""

import sqlalchemy as sa

from alembic import op

revision = "0015"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lookups",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column(
            "embedding_id",
            sa.String(32),
            sa.ForeignKey("embeddings.id", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("error", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("results", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("embedding_id", "key"),
    )


def downgrade() -> None:
    op.drop_table("lookups")
