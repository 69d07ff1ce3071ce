"""Routes and row lists of this feature."""

from app.feature import Feature

FEATURE = Feature(
    api=("app.training.api.datasets:router", "app.training.api.queue:router"),
    pages=("app.training.pages.datasets:router", "app.training.pages.launch:router", "app.training.pages.queue:router"),
    row_lists=("app.training.run_actions:RUNS", "app.training.run_actions:EXPERIMENTS"),
)
