"""how far each row moves between two embeddings"""

import sqlalchemy as sa

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Stored alignments lack the rows that moved. One click computes them again within seconds.
    op.execute(sa.text("DELETE FROM alignments"))
    op.add_column("alignments", sa.Column("moved", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("alignments", "moved")
