"""one curve for each source of an embedding."""

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NAME = "uq_zeta_curves_embedding_id_source_source_id"


def upgrade() -> None:
    # Of curves that were asked for twice at one moment one is kept.
    op.execute(
        sa.text(
            "delete from zeta_curves where exists (select 1 from zeta_curves as other where "
            "other.embedding_id = zeta_curves.embedding_id and other.source = zeta_curves.source "
            "and other.source_id = zeta_curves.source_id and other.id < zeta_curves.id)"
        )
    )
    with op.batch_alter_table("zeta_curves") as batch_op:
        batch_op.create_unique_constraint(NAME, ["embedding_id", "source", "source_id"])


def downgrade() -> None:
    with op.batch_alter_table("zeta_curves") as batch_op:
        batch_op.drop_constraint(NAME, type_="unique")
