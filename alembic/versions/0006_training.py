"""training to both papers: grids, dry runs, measures by layer, kept models and logs."""

import sqlalchemy as sa

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)

# A probe was IsoScore* of every layer, and is now several measures of every layer.
TO_MEASURES = {
    "sqlite": "UPDATE steps SET layers = json_object('isoscore_star', json(layers)) WHERE layers IS NOT NULL",
    "postgresql": "UPDATE steps SET layers = json_build_object('isoscore_star', layers) WHERE layers IS NOT NULL",
}
TO_LIST = {
    "sqlite": "UPDATE steps SET layers = json_extract(layers, '$.isoscore_star') WHERE layers IS NOT NULL",
    "postgresql": "UPDATE steps SET layers = layers -> 'isoscore_star' WHERE layers IS NOT NULL",
}


def upgrade() -> None:
    op.create_table(
        "dry_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column(
            "dataset_id", sa.String(32), sa.ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False, index=True
        ),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("configs", JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("results", JSON),
        sa.Column("created_at", TIME, nullable=False),
    )
    op.create_table(
        "run_figures",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("data", JSON, nullable=False),
    )
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.alter_column("glue_name", new_column_name="hub_name")
    op.execute("UPDATE datasets SET origin = 'hub' WHERE origin = 'glue'")
    with op.batch_alter_table("experiments") as batch_op:
        batch_op.add_column(sa.Column("grid", JSON, nullable=False, server_default="{}"))
    with op.batch_alter_table("runs") as batch_op:
        batch_op.add_column(sa.Column("notes", JSON, nullable=False, server_default="[]"))
        batch_op.add_column(sa.Column("performance_reason", sa.Text()))
        batch_op.add_column(sa.Column("log", sa.Text()))
        batch_op.add_column(sa.Column("model_sha256", sa.String(64)))
        batch_op.create_foreign_key("fk_runs_model_sha256", "files", ["model_sha256"], ["sha256"])
        batch_op.create_index("ix_runs_model_sha256", ["model_sha256"])
    op.execute(TO_MEASURES[op.get_bind().dialect.name])


def downgrade() -> None:
    op.execute(TO_LIST[op.get_bind().dialect.name])
    with op.batch_alter_table("runs") as batch_op:
        batch_op.drop_index("ix_runs_model_sha256")
        batch_op.drop_constraint("fk_runs_model_sha256", type_="foreignkey")
        for column in ("model_sha256", "log", "performance_reason", "notes"):
            batch_op.drop_column(column)
    with op.batch_alter_table("experiments") as batch_op:
        batch_op.drop_column("grid")
    op.execute("UPDATE datasets SET origin = 'glue' WHERE origin = 'hub'")
    with op.batch_alter_table("datasets") as batch_op:
        batch_op.alter_column("hub_name", new_column_name="glue_name")
    for table in ("run_figures", "dry_runs"):
        op.drop_table(table)
