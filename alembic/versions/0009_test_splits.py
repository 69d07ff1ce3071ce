"""test splits of data sets, sealed test scores of runs, and the record of their openings."""

import sqlalchemy as sa

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.add_column(sa.Column("test_sha256", sa.String(64)))
        batch_op.add_column(sa.Column("test_filename", sa.String(255)))
        batch_op.add_column(sa.Column("n_test", sa.Integer()))
        batch_op.add_column(sa.Column("division", JSON))
        batch_op.create_foreign_key("fk_datasets_test_sha256", "files", ["test_sha256"], ["sha256"])
        batch_op.create_index("ix_datasets_test_sha256", ["test_sha256"])
    op.create_table(
        "test_scores",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("metrics", JSON, nullable=False),
        sa.Column("reasons", JSON, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("rows_sha256", sa.String(64), nullable=False, index=True),
    )
    op.create_table(
        "openings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("record_id", sa.String(32), nullable=False, index=True),
        sa.Column("experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="SET NULL"), index=True),
        sa.Column("experiment_name", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("rows_sha256", sa.String(64), nullable=False, index=True),
        sa.Column("opened_before", sa.Integer(), nullable=False),
        sa.UniqueConstraint("experiment_id", "number", name="uq_openings_experiment_id_number"),
    )


def downgrade() -> None:
    op.drop_table("openings")
    op.drop_table("test_scores")
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.drop_index("ix_datasets_test_sha256")
        batch_op.drop_constraint("fk_datasets_test_sha256", type_="foreignkey")
        for column in ("division", "n_test", "test_filename", "test_sha256"):
            batch_op.drop_column(column)
