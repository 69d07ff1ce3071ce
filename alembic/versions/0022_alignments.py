"""how alike two embeddings of the same rows are"""

import sqlalchemy as sa

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def _embedding(name: str) -> sa.Column:
    key = sa.ForeignKey("embeddings.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(32), key, nullable=False, index=True)


def upgrade() -> None:
    op.create_table(
        "alignments",
        sa.Column("id", sa.String(32), primary_key=True),
        _embedding("embedding_id"),
        _embedding("other_id"),
        sa.Column("rows_by", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("error", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("results", sa.JSON(none_as_null=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("embedding_id", "other_id"),
    )


def downgrade() -> None:
    op.drop_table("alignments")
