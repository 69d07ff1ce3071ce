"""embeddings are made by the map of a trial or of a task"""

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Both databases rename in place; a batch would copy the table on SQLite.
    op.execute("ALTER TABLE embeddings RENAME COLUMN postprocessing_id TO made_by_id")


def downgrade() -> None:
    op.execute("ALTER TABLE embeddings RENAME COLUMN made_by_id TO postprocessing_id")
