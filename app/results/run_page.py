"""A run as its page shows it: its configuration in words, its figures, its measures by layer."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Query

from app.context import Context
from app.db.config import OPTIONS, applies
from app.db.models import Pooling, Run
from app.db.options.regularization import added_words
from app.db.reported_config import AnyRunConfig
from app.db.run_results import RunResults
from app.figures.figure import Figure
from app.results.figures import run_curves
from app.results.figures.layer_curves import run_heat_map
from app.results.figures.profiles import activation_profiles, measure_by_layer
from app.results.labels import WATCHED, slug_of, title_of
from app.results.run_data import ACTIVATION, find_run_figure
from app.results.run_table import RunTable
from app.training.option_form import text_of
from isoscope.core.errors import NotFoundError
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
    for name in (*OPTIONS, *(name for name in config.dump() if name not in OPTIONS and name != "logged")):
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
        return config.states(name)
    option = OPTIONS[name]
    if config.task not in option.tasks or (option.needs and not option.needs(config.dump())):
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


COUNTS = {
    "n_questions": "validation questions",
    "n_windows": "windows they are read in",
    "n_train_questions": "questions trained on",
    "n_train_windows": "windows trained on",
    "n_train_left_out": "questions left out of training, their answer not in the text",
    "n_questions_cut": "questions cut, too long for a window",
}
POINTS = {Pooling.FIRST: "first tokens", Pooling.LAST: "last tokens", Pooling.MEAN: "means of tokens"}


class ByLayer(NamedTuple):
    """A measure of the trained model's layers, as the page's table has it."""

    slug: str
    title: str
    scores: list[float | None]
    n: int | None
    reasons: dict[str, list[int]]
    """Why it has no value, with the layers it has none in."""


class Protocol(NamedTuple):
    """IsoScore★ by layer of some points of the trained model."""

    points: str
    zeta: float
    n: int | None
    """Points of a layer."""
    scores: list[float | None]
    reasons: dict[str, list[int]]


class RunFigure(NamedTuple):
    """A figure of a run: what it is called, where the run's page shows it, how to draw it."""

    slug: str
    title: str
    section: Literal["training", "watched", "layers"]
    draw: Callable[[Context, Run, str], Figure]
    """Of the run and the measure that is watched."""
    reads: bool = False
    """Whether the measure that the address names changes it."""
    late: bool = False
    """Whether the page leaves it to the figure's own page, which fills its place."""
    applies_to: Callable[[Run], bool] = lambda run: True
    """Whether the page of a run has a place for it."""

    def asked(self, measure: str) -> str:
        """The part of the query string that it reads."""
        return urlencode({"measure": measure}) if self.reads else ""


_ALL = (
    RunFigure("loss", "Task loss", "training", lambda context, run, _: run_curves.loss_curve(run)),
    RunFigure("penalty", "Penalty", "training", lambda context, run, _: run_curves.penalty_curve(run),
              applies_to=lambda run: bool(run.config.weights)),
    RunFigure("layers", "Layers over steps", "watched",
              lambda context, run, measure: run_heat_map(run, measure if measure in WATCHED else WATCHED[0]),
              reads=True),
    RunFigure("twonn", "Intrinsic dimension, TwoNN by layer", "layers", lambda context, run, _: _twonn(run)),
    RunFigure("activation", "Activation by dimension", "layers", lambda context, run, _: _activation(context, run),
              late=True, applies_to=lambda run: not run.config.logged),
)  # fmt: skip
RUN_FIGURES = {one.slug: one for one in _ALL}
"""In the order of the page. One more is a record more: the page, its files and the API loop over them."""
TAB_OF_SECTION = {"watched": "training"}
"""The tab of a section that is not called like it."""


def read_run_figure(context: Context, run: Run, slug: str, measure: str) -> Figure:
    """One figure of a run; the measure is that of its layers."""
    if slug not in RUN_FIGURES:
        raise NotFoundError(f"There is no figure {slug!r} of this run.")
    return RUN_FIGURES[slug].draw(context, run, measure)


def run_figures(context: Context, run: Run, measure: str, tab: str) -> dict[str, list[tuple[RunFigure, Figure | None]]]:
    """The figures of a tab of the run's page by section; None for one that comes when it is reached."""
    found: dict[str, list[tuple[RunFigure, Figure | None]]] = {}
    for one in RUN_FIGURES.values():
        if TAB_OF_SECTION.get(one.section, one.section) == tab and one.applies_to(run):
            figure = None if one.late else one.draw(context, run, measure)
            found.setdefault(one.section, []).append((one, figure))
    return found


def _alone(run: Run) -> RunTable:
    return RunTable([run], {})


def whole_name(run: Run) -> str:
    """What its files are called by."""
    return f"{run.experiment.name}, {_name(run)}"


def _name(run: Run) -> str:
    (setting,) = _alone(run).settings
    return f"{_alone(run).label(setting)}, seed {run.seed}"


def _twonn(run: Run) -> Figure:
    found = run.results.by_layer.get("twonn") if run.results else None
    n = run.results.by_layer_n.get("twonn") if run.results else None
    return measure_by_layer(_alone(run), {run.id: {**found.dump(), "n": n}} if found else {}, "twonn")


def _activation(context: Context, run: Run) -> Figure:
    found = find_run_figure(context, run.id, ACTIVATION)
    return activation_profiles(_alone(run), {run.id: found} if found else {})


def layer_table(results: RunResults | None) -> list[ByLayer]:
    """All measures by layer: those of sentence vectors have an n of their own, the others that of the tokens."""
    if results is None:
        return []
    return [
        ByLayer(
            slug_of(measure),
            title_of(measure),
            found.values,
            results.by_layer_n.get(measure, results.tokens),
            _by_reason(found.reasons),
        )
        for measure, found in results.by_layer.items()
    ]


def protocols_of(results: RunResults | None) -> list[Protocol]:
    """Return IsoScore★ by layer of all tokens and under the reference's protocol."""
    if results is None or (reference := results.reference) is None:
        return []
    tokens = results.by_layer.get("isoscore_star")
    values, reasons = (tokens.values, tokens.reasons) if tokens else ([], [])
    return [
        Protocol("all tokens", results.zeta or 0.0, results.tokens, values, _by_reason(reasons)),
        Protocol(
            POINTS[reference.pooling],
            reference.zeta,
            reference.n,
            reference.layers,
            _by_reason(reference.layer_reasons),
        ),
    ]


def details_of(results: RunResults | None) -> list[tuple[str, str | int]]:
    """What a kind of task says beside its metrics, in words."""
    details: list[tuple[str, str | int]] = []
    if results is None:
        return details
    if results.f1_average is not None:
        of_one = "of the second label" if results.f1_positive is None else f"of the label {results.f1_positive}"
        average = of_one if results.f1_average == "binary" else "the mean over labels, each counted the same"
        details.append(("F1 is", average))
    said = results.model_fields_set
    return details + [(words, getattr(results, name)) for name, words in COUNTS.items() if name in said]


def _by_reason(reasons: Sequence[str | None]) -> dict[str, list[int]]:
    """Each reason once, with the numbers of its layers."""
    layers: dict[str, list[int]] = {}
    for layer, reason in enumerate(reasons, 1):
        if reason:
            layers.setdefault(reason, []).append(layer)
    return layers


MeasureQuery = Annotated[str, Query()]
