"""files that figures of a report read, such as the points of its map"""

import sqlalchemy as sa

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "figure_files",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
    )


def downgrade() -> None:
    op.drop_table("figure_files")
