"""A run's configuration in words: its settings in groups, with their units, and what its baseline has instead."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from app.db.config import Checkpoint
from app.db.regularizer_options import Points, Refresh, is_read
from app.db.stated import Stated
from app.db.task import TaskKind
from app.numerals import count, plural, short
from app.regularizers import NAMES, added_words
from app.routes.pages.sweep_choices import LABELS, METRIC_WORDS, WORDS
from app.routes.pages.sweep_form import text_of

MORE_LABELS = {
    "text_columns": "Text columns",
    "label_names": "Classes",
    "regularizer": "Regularizer",
    "lam": "λ",
    "zeta": "ζ",
    "seed": "Seed",
    "beside": "Beside it",
    "max_steps": "Steps",
    "export": "Trained model kept",
}
GROUPS = {
    "Data and model": (
        "model", "task", "text_columns", "label_column", "label_names", "metric", "train_rows", "validation_rows",
        "max_length", "stride",
    ),
    "Regularizer": (
        "regularizer", "lam", "zeta", "beside", "layers", "points", "token_fraction", "include_padding",
        "shrinkage_points", "shrinkage_refresh", "shrinkage_every", "shrinkage_momentum", "entropy_bars",
        "entropy_by_label", "entropy_cluster_weight",
    ),
    "Training": (
        "seed", "epochs", "max_steps", "batch_size", "accumulation", "optimizer", "learning_rate", "warmup",
        "schedule", "weight_decay", "precision", "gradient_checkpointing", "processes",
    ),
    "Watching and choosing": (
        "probe_every", "evaluation_zeta", "checkpoint", "selection", "evaluate_every", "patience", "export",
    ),
}  # fmt: skip
UNITS = {
    "max_length": "token",
    "stride": "token",
    "train_rows": "row",
    "validation_rows": "row",
    "shrinkage_points": "point",
    "shrinkage_every": "step",
    "max_steps": "step",
    "batch_size": "row",
    "accumulation": "batch a step|batches a step",
    "processes": "process|processes",
    "probe_every": "step",
    "evaluate_every": "step",
    "patience": "evaluation",
}
NOTHING = {
    "layers": "those of its paper",
    "points": "those of its paper",
    "train_rows": "all rows",
    "validation_rows": "all rows",
    "probe_every": "at most about 12 measurements",
    "evaluate_every": "once an epoch",
    "patience": "never stopped early",
}
"""What null means; of all else it means that the setting is not used."""
KNOWN = frozenset({name for names in GROUPS.values() for name in names} | {"logged"})
SHOWN_CLASSES = 12


class Fact(NamedTuple):
    """A setting, its value, and that of the baseline where it has another."""

    label: str
    value: str
    baseline: str | None


def configuration(config: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> dict[str, list[Fact]]:
    """All that the run depends on, by group; of a script's run all that it said, its own settings last."""
    groups: Mapping[str, Sequence[str]] = {**GROUPS, "Of its script": [name for name in config if name not in KNOWN]}
    found = {group: [_fact(name, config, baseline) for name in names] for group, names in groups.items()}
    kept = {group: [fact for fact in facts if fact is not None] for group, facts in found.items()}
    return {group: facts for group, facts in kept.items() if facts}


def _fact(name: str, config: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> Fact | None:
    value = config.get(name)
    other = value if baseline is None or not _matters(name, baseline) else baseline.get(name)
    unused = value is None and other is None and name not in NOTHING
    if unused or not _matters(name, config):
        return None
    label = MORE_LABELS.get(name) or LABELS.get(name) or name.replace("_", " ")
    return Fact(label, in_words(name, value), None if other == value else in_words(name, other))


def _matters(name: str, config: Mapping[str, Any]) -> bool:
    """Whether anything in a run depends on a setting; of a script's run whether it was said."""
    if config.get("logged"):
        return name in config
    if not NEEDS.get(name, _always)(config):
        return False
    if name == "shrinkage_points" and config.get("evaluation_zeta"):
        return True
    points = config.get("points")
    return is_read(name, Stated.model_validate(config).weights, Points(points) if points else None)


def in_words(name: str, value: Any) -> str:
    """A setting's value as a reader has it: with its unit, and by the name that the form gives it."""
    if value is None:
        return NOTHING.get(name, "not used")
    if name in OWN_WORDS:
        return OWN_WORDS[name](value)
    if offered := WORDS.get(name, {}).get(text_of(value)):
        return offered
    return plural(value, *UNITS[name].split("|")) if name in UNITS else _plain(value)


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return count(value)
        case float():
            return short(value)
        case list():
            return ", ".join(map(str, value))
    return str(value)


def _classes(names: list[str]) -> str:
    if not names:
        return "none"
    rest = len(names) - SHOWN_CLASSES
    return ", ".join(names[:SHOWN_CLASSES]) + (f" and {count(rest)} more" if rest > 0 else "")


def _always(config: Mapping[str, Any]) -> bool:
    return True


def _selects(config: Mapping[str, Any]) -> bool:
    """Whether the run is evaluated while it trains."""
    return config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None


NEEDS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "stride": lambda config: config["task"] == TaskKind.SPAN,
    "selection": _selects,
    "evaluate_every": _selects,
    "shrinkage_every": lambda config: config.get("shrinkage_refresh") == Refresh.STEPS,
    "shrinkage_momentum": lambda config: config.get("shrinkage_refresh") == Refresh.AVERAGE,
}
"""Without what other settings one means nothing, beside the regularizers that read it."""
OWN_WORDS: dict[str, Callable[[Any], str]] = {
    "regularizer": lambda value: NAMES[value],
    "beside": added_words,
    "metric": lambda value: METRIC_WORDS[value],
    "label_names": _classes,
    "seed": str,
}
"""Settings whose values have names of their own."""
