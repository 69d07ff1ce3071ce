"""what each block of rows adds to the error of a measurement, and which rows are independent."""

import sqlalchemy as sa

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)

# Errors that were no errors of what they stood beside: of biased values, and of points taken as independent.
MISLEADING = """
    UPDATE measurements SET se = NULL WHERE measure IN
    ('isoscore', 'isoscore_star', 'participation_ratio', 'twonn', 'twonn_mle', 'levina_bickel')
"""


def upgrade() -> None:
    with op.batch_alter_table("measurements") as batch_op:
        batch_op.add_column(sa.Column("resampled", JSON))
    with op.batch_alter_table("embeddings") as batch_op:
        batch_op.add_column(sa.Column("independent", JSON))
    op.execute(MISLEADING)


def downgrade() -> None:
    with op.batch_alter_table("embeddings") as batch_op:
        batch_op.drop_column("independent")
    with op.batch_alter_table("measurements") as batch_op:
        batch_op.drop_column("resampled")
