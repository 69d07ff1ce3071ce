"""All tables of version 0.1 (1909e121), whose databases are at this revision."""

from typing import Any

import sqlalchemy as sa

from alembic import op

revision = "0029"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def owner_id(name: str, table: str) -> sa.Column[str]:
    """Return a foreign key to a row whose deletion deletes this row."""
    return sa.Column(name, sa.String(32), sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=False, index=True)


def result_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
    ]


def upgrade() -> None:
    op.create_table(
        "files",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
    )
    op.create_table(
        "views",
        sa.Column("id", sa.String(12), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("path", sa.String(200), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False, index=True),
    )
    op.create_table(
        "workers",
        sa.Column("slot", sa.String(100), primary_key=True),
        sa.Column("device", sa.String(100), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger),
        sa.Column("jobs", sa.JSON),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("hub_name", sa.String(16)),
        sa.Column("train_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("validation_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("test_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("train_filename", sa.String(255)),
        sa.Column("validation_filename", sa.String(255)),
        sa.Column("test_filename", sa.String(255)),
        sa.Column("n_train", sa.Integer),
        sa.Column("n_validation", sa.Integer),
        sa.Column("n_test", sa.Integer),
        sa.Column("division", sa.JSON),
        sa.Column("columns", sa.JSON, nullable=False),
        sa.Column("quoting", sa.JSON),
        sa.Column("created_at", TIME, nullable=False, index=True),
    )
    op.create_table(
        "encodings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
        sa.Column("n_texts", sa.Integer, nullable=False),
        sa.Column("columns", sa.JSON, nullable=False),
        sa.Column("quoting", sa.String(16)),
        sa.Column("config", sa.JSON),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("environment", sa.JSON),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("queued_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )
    op.create_table(
        "dry_runs",
        owner_id("dataset_id", "datasets"),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("configs", sa.JSON, nullable=False),
        sa.Column("results", sa.JSON),
        sa.Column("queued_at", TIME, nullable=False),
        *result_columns(),
        sa.UniqueConstraint("key"),
    )
    op.create_table(
        "embeddings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("provenance", sa.JSON),
        sa.Column("source_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="SET NULL"), index=True),
        sa.Column("made_by_id", sa.String(32)),
        sa.Column("encoding_id", sa.String(32), sa.ForeignKey("encodings.id", ondelete="CASCADE"), index=True),
        sa.Column("layer", sa.Integer),
        sa.Column("pooling", sa.String(16)),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("commit_when_inspected", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("inspection", sa.JSON),
        sa.Column("selection", sa.JSON),
        sa.Column("n", sa.Integer),
        sa.Column("d", sa.Integer),
        sa.Column("n_left_out", sa.Integer),
        sa.Column("independent", sa.JSON),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("measured_at", TIME),
        sa.Column("trashed_at", TIME, index=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("starred", sa.Boolean, nullable=False),
        sa.Column("archived_at", TIME),
    )
    op.create_table(
        "experiments",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("dataset_id", sa.String(32), sa.ForeignKey("datasets.id"), nullable=False, index=True),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("grid", sa.JSON, nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("source", sa.JSON),
        sa.Column("study", sa.JSON),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("removed_at", TIME),
        sa.Column("notified_at", TIME),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("starred", sa.Boolean, nullable=False),
        sa.Column("archived_at", TIME),
    )
    op.create_table(
        "qrels",
        sa.Column("id", sa.String(32), primary_key=True),
        owner_id("corpus_id", "encodings"),
        owner_id("queries_id", "encodings"),
        sa.Column("split", sa.String(100), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("judgments", sa.Integer, nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
        sa.UniqueConstraint("corpus_id", "split"),
    )
    op.create_table(
        "alignments",
        owner_id("embedding_id", "embeddings"),
        owner_id("other_id", "embeddings"),
        sa.Column("rows_by", sa.String(16), nullable=False),
        sa.Column("results", sa.JSON),
        sa.Column("moved", sa.JSON),
        *result_columns(),
        sa.UniqueConstraint("embedding_id", "other_id"),
    )
    op.create_table(
        "embedding_files",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
    )
    op.create_table(
        "embedding_tags",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tag", sa.String(40), primary_key=True, index=True),
    )
    op.create_table(
        "experiment_tags",
        sa.Column(
            "experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("tag", sa.String(40), primary_key=True, index=True),
    )
    op.create_table(
        "figure_data",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_table(
        "figure_files",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), nullable=False, index=True),
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("filename", sa.String(255), nullable=False),
        sa.Column("file_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("content", sa.String(64)),
        sa.Column("written", sa.JSON, nullable=False),
        sa.Column("total", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("page", sa.String(200)),
        sa.Column("experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="SET NULL"), index=True),
        sa.Column("dataset_id", sa.String(32), sa.ForeignKey("datasets.id", ondelete="SET NULL"), index=True),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )
    op.create_table(
        "lookups",
        owner_id("embedding_id", "embeddings"),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("results", sa.JSON),
        *result_columns(),
        sa.UniqueConstraint("embedding_id", "key"),
    )
    op.create_table(
        "measurements",
        sa.Column("embedding_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("measure", sa.String(40), primary_key=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("se", sa.Double),
        sa.Column("resampled", sa.JSON),
        sa.Column("reason", sa.Text),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("detail", sa.JSON),
    )
    op.create_table(
        "openings",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("record_id", sa.String(32), nullable=False, index=True),
        sa.Column("experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="SET NULL"), index=True),
        sa.Column("experiment_name", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("by", sa.String(200), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("rows_sha256", sa.String(64), nullable=False, index=True),
        sa.Column("opened_before", sa.Integer, nullable=False),
        sa.UniqueConstraint("experiment_id", "number"),
    )
    op.create_table(
        "postprocessings",
        owner_id("embedding_id", "embeddings"),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("method", sa.String(40), nullable=False),
        sa.Column("parameters", sa.JSON, nullable=False),
        sa.Column("results", sa.JSON),
        sa.Column("state_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        *result_columns(),
        sa.UniqueConstraint("embedding_id", "key"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("experiment_id", sa.String(32), sa.ForeignKey("experiments.id", ondelete="CASCADE"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("model", sa.String(200), nullable=False, index=True),
        sa.Column("regularizer", sa.String(16), nullable=False),
        sa.Column("lam", sa.Double, nullable=False),
        sa.Column("zeta", sa.Double, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("phase", sa.String(16)),
        sa.Column("phase_done", sa.Integer, nullable=False),
        sa.Column("phase_total", sa.Integer),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("worker", sa.String(100)),
        sa.Column("error", sa.Text),
        sa.Column("cause", sa.String(16)),
        sa.Column("error_field", sa.String(64)),
        sa.Column("queued_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
        sa.Column("rested_seconds", sa.Double, nullable=False),
        sa.Column("worked_seconds", sa.Double),
        sa.Column("heard_at", TIME),
        sa.Column("performance", sa.Double),
        sa.Column("performance_reason", sa.Text),
        sa.Column("isoscore_star", sa.Double),
        sa.Column("isoscore_star_reason", sa.Text),
        sa.Column("results", sa.JSON),
        sa.Column("learning", sa.JSON),
        sa.Column("notes", sa.JSON, nullable=False),
        sa.Column("log", sa.Text),
        sa.Column("model_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("environment", sa.JSON),
    )
    op.create_index(
        "ix_runs_experiment_id_status_lam_performance", "runs", ["experiment_id", "status", "lam", "performance"]
    )
    op.create_index("ix_runs_experiment_id_position", "runs", ["experiment_id", "position"])
    op.create_table(
        "task_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        owner_id("embedding_id", "embeddings"),
        sa.Column("queries_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), index=True),
        sa.Column("family_id", sa.String(32), index=True),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("filename", sa.String(255)),
        sa.Column("truth_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("preview", sa.JSON),
        sa.Column("status", sa.String(16), nullable=False, index=True),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer),
        sa.Column("judged", sa.JSON),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("notes", sa.JSON),
        sa.Column("results", sa.JSON),
        sa.Column("maps", sa.JSON),
        sa.Column("chosen_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("smallest_sha256", sa.String(64), sa.ForeignKey("files.sha256"), index=True),
        sa.Column("created_at", TIME, nullable=False, index=True),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
    )
    op.create_table(
        "zeta_curves",
        owner_id("embedding_id", "embeddings"),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("source_id", sa.String(32), sa.ForeignKey("embeddings.id", ondelete="CASCADE"), index=True),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("lines", sa.JSON),
        *result_columns(),
        sa.UniqueConstraint("embedding_id", "source", "source_id"),
    )
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("worker", sa.String(100), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("detail", sa.Text),
        sa.Column("first_step", sa.Integer),
        sa.Column("last_step", sa.Integer),
    )
    op.create_table(
        "run_figures",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("slug", sa.String(40), primary_key=True),
        sa.Column("data", sa.JSON, nullable=False),
    )
    op.create_table(
        "run_predictions",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("split", sa.String(16), primary_key=True),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "run_tags",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("tag", sa.String(40), primary_key=True, index=True),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True),
        sa.Column("task_loss", sa.Double),
        sa.Column("penalty", sa.Double),
        sa.Column("layers", sa.JSON),
    )
    measured = sa.text("layers IS NOT NULL")
    op.create_index("ix_steps_looks", "steps", ["run_id", "step"], sqlite_where=measured, postgresql_where=measured)
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE steps DROP CONSTRAINT pk_steps, "
            "ADD CONSTRAINT pk_steps PRIMARY KEY (run_id, step) INCLUDE (task_loss, penalty)"
        )
    op.create_table(
        "test_scores",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("reasons", sa.JSON, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("rows_sha256", sa.String(64), nullable=False, index=True),
    )
