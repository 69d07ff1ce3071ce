"""A run's configuration in words: its options in groups, with their units, and what its baseline has instead."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app.db.config import OPTIONS, applies
from app.db.reported_config import AnyRunConfig
from app.regularizers import added_words
from app.routes.pages.option_form import text_of
from isoscope.core.formatting import count, plural, short

OF_ITS_SCRIPT = "Of its script"
SHOWN_CLASSES = 12


class Fact(NamedTuple):
    """An option, its value, and that of the baseline where it has another."""

    label: str
    value: str
    baseline: str | None


def configuration(config: AnyRunConfig, baseline: AnyRunConfig | None) -> dict[str, list[Fact]]:
    """All that the run depends on, by section; of a script's run all that it said, its own settings last."""
    groups: dict[str, list[Fact]] = {}
    for name in (*OPTIONS, *(name for name in config.told() if name not in OPTIONS and name != "logged")):
        if fact := _fact(name, config, baseline):
            section = OPTIONS[name].group.section if name in OPTIONS else OF_ITS_SCRIPT
            groups.setdefault(section, []).append(fact)
    return groups


def _fact(name: str, config: AnyRunConfig, baseline: AnyRunConfig | None) -> Fact | None:
    value = config.value(name)
    other = value if baseline is None or not _matters(name, baseline) else baseline.value(name)
    option = OPTIONS.get(name)
    unused = value is None and other is None and not (option and option.none_means)
    if unused or not _matters(name, config):
        return None
    label = option.label if option else name.replace("_", " ")
    return Fact(label, in_words(name, value), None if other == value else in_words(name, other))


def _matters(name: str, config: AnyRunConfig) -> bool:
    """Whether anything in a run depends on an option; of a script's run whether it was said."""
    if config.logged or name not in OPTIONS:
        return config.says(name)
    option = OPTIONS[name]
    if config.task not in option.tasks or (option.needs and not option.needs(config.told())):
        return False
    if name == "shrinkage_points" and config.evaluation_zeta:
        return True
    return applies(name, config.weights, config.points)


def in_words(name: str, value: Any) -> str:
    """An option's value as a reader has it: with its unit, and by the name that the form gives it."""
    option = OPTIONS.get(name)
    if value is None or option is None:
        return (option.none_means if option else "") or "not used" if value is None else _plain(value)
    if name in OWN_WORDS:
        return OWN_WORDS[name](value)
    if offered := option.words.get(text_of(value)):
        return offered
    return plural(value, *option.unit.split("|")) if option.unit else _plain(value)


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


def _classes(names: Sequence[str]) -> str:
    if not names:
        return "none"
    rest = len(names) - SHOWN_CLASSES
    return ", ".join(names[:SHOWN_CLASSES]) + (f" and {count(rest)} more" if rest > 0 else "")


OWN_WORDS: dict[str, Callable[[Any], str]] = {
    "fixed_regularizers": added_words,
    "label_names": _classes,
    "seed": str,
}
"""Options whose values need more than a word or a unit."""
