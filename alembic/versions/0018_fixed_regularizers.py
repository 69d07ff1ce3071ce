"""the option `beside` is called `fixed_regularizers`, in configurations and grids"""

import sqlalchemy as sa

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

COLUMNS = (("experiments", "config"), ("experiments", "grid"), ("runs", "config"), ("dry_runs", "configs"))


def _rename(old: str, new: str) -> None:
    """Rename a key in the text of each document: inside a text its quotes would have backslashes before them."""
    for name, column in COLUMNS:
        cell = sa.column(column, sa.JSON)
        table = sa.table(name, cell)
        text = sa.cast(cell, sa.Text)
        renamed = sa.cast(sa.func.replace(text, f'"{old}":', f'"{new}":'), sa.Text)
        if op.get_bind().dialect.name == "postgresql":
            renamed = sa.cast(renamed, sa.JSON)
        op.execute(sa.update(table).values({cell: renamed}).where(text.contains(f'"{old}":', autoescape=True)))


def upgrade() -> None:
    _rename("beside", "fixed_regularizers")


def downgrade() -> None:
    _rename("fixed_regularizers", "beside")
