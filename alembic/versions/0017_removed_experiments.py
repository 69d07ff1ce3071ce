"""when an experiment was deleted: hidden from then on, until all of its rows are removed"""

import sqlalchemy as sa

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("experiments", sa.Column("removed_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.execute("delete from experiments where removed_at is not null")
    op.drop_column("experiments", "removed_at")
