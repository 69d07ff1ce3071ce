"""the place where conclusions are read: models of runs, priorities, origins, studies and saved views."""

import sqlalchemy as sa

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
JSON = sa.JSON(none_as_null=True)

MODEL = {
    "sqlite": "UPDATE runs SET model = coalesce(json_extract(config, '$.model'), '')",
    "postgresql": "UPDATE runs SET model = coalesce(config ->> 'model', '')",
}

# What lists of runs and of experiments read, so that they need not read rows that results and logs make wide.
LISTED = (["experiment_id", "position"], ["experiment_id", "status", "lam", "performance"])


def upgrade() -> None:
    op.create_table(
        "views",
        sa.Column("id", sa.String(12), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("path", sa.String(200), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False, index=True),
    )
    with op.batch_alter_table("experiments") as batch_op:
        batch_op.add_column(sa.Column("origin", sa.String(16), nullable=False, server_default="launched"))
        batch_op.add_column(sa.Column("source", JSON))
        batch_op.add_column(sa.Column("study", JSON))
    with op.batch_alter_table("runs") as batch_op:
        batch_op.add_column(sa.Column("model", sa.String(200), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="100"))
        batch_op.add_column(sa.Column("heard_at", TIME))
        batch_op.add_column(sa.Column("rested_seconds", sa.Double(), nullable=False, server_default="0"))
        batch_op.create_index("ix_runs_model", ["model"])
        batch_op.add_column(sa.Column("cause", sa.String(16)))
        batch_op.add_column(sa.Column("error_field", sa.String(64)))
        batch_op.drop_index("ix_runs_experiment_id")
        for columns in LISTED:
            batch_op.create_index(f"ix_runs_{'_'.join(columns)}", columns)
    with op.batch_alter_table("workers") as batch_op:
        batch_op.add_column(sa.Column("memory_bytes", sa.BigInteger()))
        batch_op.add_column(sa.Column("jobs", JSON))
    op.execute(MODEL[op.get_bind().dialect.name])


def downgrade() -> None:
    with op.batch_alter_table("workers") as batch_op:
        batch_op.drop_column("jobs")
        batch_op.drop_column("memory_bytes")
    with op.batch_alter_table("runs") as batch_op:
        batch_op.drop_column("error_field")
        batch_op.drop_column("cause")
        for columns in LISTED:
            batch_op.drop_index(f"ix_runs_{'_'.join(columns)}")
        batch_op.create_index("ix_runs_experiment_id", ["experiment_id"])
        batch_op.drop_index("ix_runs_model")
        batch_op.drop_column("rested_seconds")
        batch_op.drop_column("heard_at")
        batch_op.drop_column("priority")
        batch_op.drop_column("model")
    with op.batch_alter_table("experiments") as batch_op:
        for column in ("study", "source", "origin"):
            batch_op.drop_column(column)
    op.drop_table("views")
