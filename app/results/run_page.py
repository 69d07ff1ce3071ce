"""Parts of a run's page: options in words, figures, and measures by layer."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode

from app.context import Context
from app.db.config import OPTIONS, option_applies
from app.db.models import Pooling, Run
from app.db.options.regularization import describe_weights
from app.db.reported_config import AnyRunConfig
from app.db.run_results import RunResults
from app.figures.figure import Figure
from app.results.captions import join_first
from app.results.figures.layer_curves import run_heat_map
from app.results.figures.profiles import activation_profiles, measure_by_layer
from app.results.figures.sweep_curves import loss_curve, penalty_curve
from app.results.labels import TRAINING_MEASURES, slug_of, title_of
from app.results.run_data import list_activations
from app.results.run_table import RunTable
from app.training.option_form import to_text
from isoscope.core.errors import NotFoundError
from isoscope.core.formatting import count, plural, short

SCRIPT_SECTION = "Of its script"
MAX_LISTED_CLASSES = 12


class RunOption(NamedTuple):
    """An option, its value, and the baseline's value if that differs."""

    label: str
    value: str
    baseline: str | None


def list_options(config: AnyRunConfig, baseline: AnyRunConfig | None) -> dict[str, list[RunOption]]:
    """List the options that affect a run by section, compared with ``baseline`` if there is one.

    For a script's run, list everything that it logged.
    """
    options_by_section: dict[str, list[RunOption]] = {}
    for name in (*OPTIONS, *(name for name in config.dump() if name not in OPTIONS and name != "logged")):
        value = config.value(name)
        # An option that has no effect on the baseline is not compared.
        baseline_value = value if baseline is None or not _has_effect(name, baseline) else baseline.value(name)
        option = OPTIONS.get(name)
        is_unused = value is None and baseline_value is None and not (option and option.none_means)
        if not is_unused and _has_effect(name, config):
            label = option.label if option else name.replace("_", " ")
            baseline_text = None if baseline_value == value else format_option(name, baseline_value)
            section = option.group.section if option else SCRIPT_SECTION
            run_option = RunOption(label, format_option(name, value), baseline_text)
            options_by_section.setdefault(section, []).append(run_option)
    return options_by_section


def _has_effect(name: str, config: AnyRunConfig) -> bool:
    if config.logged or name not in OPTIONS:
        return config.has_value(name)
    option = OPTIONS[name]
    if config.task not in option.tasks or (option.needs and not option.needs(config.dump())):
        return False
    # At ζ > 0, measuring IsoScore★ takes the shrinkage covariance too.
    if name == "shrinkage_points" and config.evaluation_zeta:
        return True
    return option_applies(name, config.penalty_weights, config.points)


def format_option(name: str, value: Any) -> str:
    """Format an option's value with its unit, or as the launch form names it."""
    option = OPTIONS.get(name)
    if value is None:
        return (option.none_means if option else "") or "not used"
    if option is None:
        return _format_value(value)
    if name in CUSTOM_FORMATS:
        return CUSTOM_FORMATS[name](value)
    if option_words := option.words.get(to_text(value)):
        return option_words
    return plural(value, *option.unit.split("|")) if option.unit else _format_value(value)


def _format_value(value: Any) -> str:
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


CUSTOM_FORMATS: dict[str, Callable[[Any], str]] = {
    "fixed_regularizers": describe_weights,
    "label_names": lambda names: join_first(names, MAX_LISTED_CLASSES, ", ") or "none",
    "seed": str,
}
"""How to format options that need more than a word or a unit."""
COUNT_LABELS = {
    "n_questions": "validation questions",
    "n_windows": "windows they are read in",
    "n_train_questions": "questions trained on",
    "n_train_windows": "windows trained on",
    "n_train_left_out": "questions left out of training, their answer not in the text",
    "n_questions_cut": "questions cut, too long for a window",
}
POOLED_POINTS = {Pooling.FIRST: "first tokens", Pooling.LAST: "last tokens", Pooling.MEAN: "means of tokens"}


class MeasureByLayer(NamedTuple):
    """A measure of the trained model's layers."""

    slug: str
    title: str
    scores: list[float | None]
    n: int | None
    """Number of points in each layer; None if unknown."""
    reasons: dict[str, list[int]]
    """Layers without a value, numbered from 1, by reason."""


class IsoScoreProtocol(NamedTuple):
    """IsoScore★ by layer under one protocol. ``points`` names the scored points; ``zeta`` is the shrinkage."""

    points: str
    zeta: float
    n: int | None
    scores: list[float | None]
    reasons: dict[str, list[int]]


class RunFigureKind(NamedTuple):
    """A figure of a run: its title, its section of the page, and how to draw it."""

    slug: str
    title: str
    section: Literal["training", "watched", "layers"]
    draw: Callable[[Context, Run, str], Figure]
    """Draw the figure for a run and the selected measure."""
    uses_measure: bool = False
    loads_later: bool = False
    """Whether the page shows first and then loads the figure by another request."""
    applies_to: Callable[[Run], bool] = lambda run: True

    def query(self, measure: str) -> str:
        return urlencode({"measure": measure}) if self.uses_measure else ""


_FIGURES = (
    RunFigureKind("loss", "Task loss", "training", lambda context, run, _: loss_curve(run)),
    RunFigureKind("penalty", "Penalty", "training", lambda context, run, _: penalty_curve(run),
              applies_to=lambda run: bool(run.config.penalty_weights)),
    RunFigureKind("layers", "Layers over steps", "watched",
              lambda context, run, measure: run_heat_map(
                  run, measure if measure in TRAINING_MEASURES else TRAINING_MEASURES[0]
              ), uses_measure=True),
    RunFigureKind("twonn", "Intrinsic dimension, TwoNN by layer", "layers", lambda context, run, _: _draw_twonn(run)),
    RunFigureKind("activation", "Activation by dimension", "layers",
              lambda context, run, _: _draw_activation(context, run),
              loads_later=True, applies_to=lambda run: not run.config.logged),
)  # fmt: skip
RUN_FIGURES = {kind.slug: kind for kind in _FIGURES}
"""In the order of the page. The page, its files and the API loop over them."""
TAB_OF_SECTION = {"watched": "training", "layers": "training"}
"""The tabs of sections whose tab has another name."""


def read_run_figure(context: Context, run: Run, slug: str, measure: str) -> Figure:
    if slug not in RUN_FIGURES:
        raise NotFoundError(f"There is no figure {slug!r} of this run.")
    return RUN_FIGURES[slug].draw(context, run, measure)


def draw_tab_figures(
    context: Context, run: Run, measure: str, tab: str
) -> dict[str, list[tuple[RunFigureKind, Figure | None]]]:
    """Return the figures of a tab by section, each with its drawing, or None if the page loads that later."""
    figures: dict[str, list[tuple[RunFigureKind, Figure | None]]] = {}
    for kind in RUN_FIGURES.values():
        if TAB_OF_SECTION.get(kind.section, kind.section) == tab and kind.applies_to(run):
            figure = None if kind.loads_later else kind.draw(context, run, measure)
            figures.setdefault(kind.section, []).append((kind, figure))
    return figures


def full_name(run: Run) -> str:
    table = RunTable([run])
    (setting,) = table.settings
    return f"{run.experiment.name}, {table.label(setting)}, seed {run.seed}"


def _draw_twonn(run: Run) -> Figure:
    values = run.results.by_layer.get("twonn") if run.results else None
    n = run.results.by_layer_n.get("twonn") if run.results else None
    return measure_by_layer(RunTable([run]), {run.id: {**values.dump(), "n": n}} if values else {}, "twonn")


def _draw_activation(context: Context, run: Run) -> Figure:
    return activation_profiles(RunTable([run]), list_activations(context, [run.id]))


def list_measures_by_layer(results: RunResults | None) -> list[MeasureByLayer]:
    if results is None:
        return []
    return [
        MeasureByLayer(
            slug_of(measure),
            title_of(measure),
            values.values,
            results.by_layer_n.get(measure, results.tokens),
            _layers_by_reason(values.reasons),
        )
        for measure, values in results.by_layer.items()
    ]


def list_protocols(results: RunResults | None) -> list[IsoScoreProtocol]:
    """Return IsoScore★ of all tokens and of the reference protocol; empty if the latter was not measured."""
    if results is None or (reference := results.reference) is None:
        return []
    star_by_layer = results.by_layer.get("isoscore_star")
    values, reasons = (star_by_layer.values, star_by_layer.reasons) if star_by_layer else ([], [])
    return [
        IsoScoreProtocol("all tokens", results.zeta or 0.0, results.tokens, values, _layers_by_reason(reasons)),
        IsoScoreProtocol(
            POOLED_POINTS[reference.pooling],
            reference.zeta,
            reference.n,
            reference.layers,
            _layers_by_reason(reference.layer_reasons),
        ),
    ]


def list_details(results: RunResults | None) -> list[tuple[str, str | int]]:
    """Return labels and values of details of the evaluation, such as the number of questions."""
    details: list[tuple[str, str | int]] = []
    if results is None:
        return details
    if results.f1_average is not None:
        of_label = "of the second label" if results.f1_positive is None else f"of the label {results.f1_positive}"
        is_binary = results.f1_average == "binary"
        details.append(("F1 is", of_label if is_binary else "the mean over labels, each counted the same"))
    stored_counts = {name: label for name, label in COUNT_LABELS.items() if name in results.model_fields_set}
    return details + [(label, getattr(results, name)) for name, label in stored_counts.items()]


def _layers_by_reason(reasons: Sequence[str | None]) -> dict[str, list[int]]:
    layers: dict[str, list[int]] = {}
    for layer, reason in enumerate(reasons, 1):
        if reason:
            layers.setdefault(reason, []).append(layer)
    return layers
