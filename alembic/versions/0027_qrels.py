"""qrels kept with the encodings of a corpus and its queries"""

import sqlalchemy as sa

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def _encoding(name: str) -> sa.Column:
    key = sa.ForeignKey("encodings.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(32), key, nullable=False, index=True)


def upgrade() -> None:
    op.create_table(
        "qrels",
        sa.Column("id", sa.String(32), primary_key=True),
        _encoding("corpus_id"),
        _encoding("queries_id"),
        sa.Column("split", sa.String(100), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("judgments", sa.Integer(), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
        sa.UniqueConstraint("corpus_id", "split"),
    )


def downgrade() -> None:
    op.drop_table("qrels")
