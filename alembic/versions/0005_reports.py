"""reports worth reading: figures' data, post-processing, encodings, tags, notes and the trash."""

import sqlalchemy as sa

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)
KEYS = (("source_id", "embeddings", "SET NULL"), ("encoding_id", "encodings", "CASCADE"))
INDICES = ("source_id", "encoding_id", "trashed_at")


def columns() -> list[sa.Column]:
    return [
        sa.Column("notes", sa.Text(), nullable=False, server_default=""),
        sa.Column("origin", sa.String(16), nullable=False, server_default="upload"),
        sa.Column("provenance", JSON),
        sa.Column("source_id", sa.String(32)),
        sa.Column("postprocessing_id", sa.String(32)),
        sa.Column("encoding_id", sa.String(32)),
        sa.Column("layer", sa.Integer()),
        sa.Column("pooling", sa.String(16)),
        sa.Column("trashed_at", TIME),
    ]


def upgrade() -> None:
    op.create_table(
        "encodings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
        sa.Column("n_texts", sa.Integer(), nullable=False),
        sa.Column("columns", JSON, nullable=False),
        sa.Column("config", JSON),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("environment", JSON),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )
    with op.batch_alter_table("embeddings") as batch_op:
        for column in columns():
            batch_op.add_column(column)
        for column, table, ondelete in KEYS:
            name = f"fk_embeddings_{column}"
            batch_op.create_foreign_key(name, table, [column], ["id"], ondelete=ondelete)
        for column in INDICES:
            batch_op.create_index(f"ix_embeddings_{column}", [column])
    _create_parts()


def _create_parts() -> None:
    """Create the tables whose rows belong to an embedding."""

    def embedding() -> sa.ForeignKey:
        return sa.ForeignKey("embeddings.id", ondelete="CASCADE")

    op.create_table(
        "embedding_tags",
        sa.Column("embedding_id", sa.String(32), embedding(), primary_key=True),
        sa.Column("tag", sa.String(40), primary_key=True, index=True),
    )
    op.create_table(
        "figure_data",
        sa.Column("embedding_id", sa.String(32), embedding(), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("data", JSON, nullable=False),
    )
    op.create_table(
        "postprocessings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("embedding_id", sa.String(32), embedding(), nullable=False, index=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("method", sa.String(40), nullable=False),
        sa.Column("parameters", JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("error", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("results", JSON),
        sa.Column("state_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.UniqueConstraint("embedding_id", "key"),
    )


def downgrade() -> None:
    for table in ("postprocessings", "figure_data", "embedding_tags"):
        op.drop_table(table)
    with op.batch_alter_table("embeddings") as batch_op:
        for column in INDICES:
            batch_op.drop_index(f"ix_embeddings_{column}")
        for column, _, _ in KEYS:
            batch_op.drop_constraint(f"fk_embeddings_{column}", type_="foreignkey")
        for column in columns():
            batch_op.drop_column(column.name)
    op.drop_table("encodings")
