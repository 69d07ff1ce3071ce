"""how the quotes of .tsv files of data sets and encodings are read; null of earlier ones, whose quotes are text"""

import sqlalchemy as sa

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("datasets", sa.Column("quoting", sa.JSON(none_as_null=True)))
    op.add_column("encodings", sa.Column("quoting", sa.String(16)))


def downgrade() -> None:
    op.drop_column("encodings", "quoting")
    op.drop_column("datasets", "quoting")
