"""What version 0.2 no longer has: saved views, stars and archives, dry runs, look-ups of rows."""

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
