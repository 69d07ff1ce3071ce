"""standard errors of measurements."""

import sqlalchemy as sa

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("measurements") as batch_op:
        batch_op.add_column(sa.Column("se", sa.Double(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("measurements") as batch_op:
        batch_op.drop_column("se")
