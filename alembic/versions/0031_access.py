"""Named access tokens, sessions of browsers, activity."""

import sqlalchemy as sa

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False, unique=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.Column("revoked_at", TIME),
    )
    op.create_table(
        "login_sessions",
        sa.Column("cookie_hash", sa.String(64), primary_key=True),
        sa.Column("token_id", sa.String(32), sa.ForeignKey("access_tokens.id"), index=True),
        sa.Column("created_at", TIME, nullable=False),
    )
    op.create_table(
        "activity",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", TIME, nullable=False),
        sa.Column("by", sa.String(60), nullable=False),
        sa.Column("action", sa.String(60), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False, index=True),
        sa.Column("name", sa.String(200), nullable=False),
    )
