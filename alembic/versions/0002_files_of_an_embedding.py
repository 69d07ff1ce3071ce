"""files of an embedding: one or several, and what each is for."""

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "embedding_files",
        sa.Column("embedding_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column(
            "role", sa.Enum("vectors", "annotations", name="filerole", native_enum=False, length=16), nullable=False
        ),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("file_sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["embedding_id"], ["embeddings.id"], name=op.f("fk_embedding_files_embedding_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["file_sha256"], ["files.sha256"], name=op.f("fk_embedding_files_file_sha256")),
        sa.PrimaryKeyConstraint("embedding_id", "position", name=op.f("pk_embedding_files")),
    )
    with op.batch_alter_table("embedding_files", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_embedding_files_file_sha256"), ["file_sha256"], unique=False)
    op.execute(
        "INSERT INTO embedding_files (embedding_id, position, role, filename, file_sha256) "
        "SELECT id, 0, 'vectors', filename, file_sha256 FROM embeddings"
    )
    with op.batch_alter_table("embeddings", schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f("fk_embeddings_file_sha256"), type_="foreignkey")
        batch_op.drop_index(batch_op.f("ix_embeddings_file_sha256"))
        batch_op.drop_column("file_sha256")


def downgrade() -> None:
    # Of an embedding of several files only the first is known from here on.
    with op.batch_alter_table("embeddings", schema=None) as batch_op:
        batch_op.add_column(sa.Column("file_sha256", sa.String(length=64), nullable=True))
    op.execute(
        "UPDATE embeddings SET file_sha256 = (SELECT file_sha256 FROM embedding_files "
        "WHERE embedding_files.embedding_id = embeddings.id AND position = 0)"
    )
    with op.batch_alter_table("embeddings", schema=None) as batch_op:
        batch_op.alter_column("file_sha256", existing_type=sa.String(length=64), nullable=False)
        batch_op.create_foreign_key(batch_op.f("fk_embeddings_file_sha256"), "files", ["file_sha256"], ["sha256"])
        batch_op.create_index(batch_op.f("ix_embeddings_file_sha256"), ["file_sha256"], unique=False)
    op.drop_table("embedding_files")
