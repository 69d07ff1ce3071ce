"""Generated pages of the documentation: findings, post-processing, options, settings, commands, the API."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from pydantic_core import PydanticUndefined

from app.core.settings import Settings
from app.db.config import TRAINING_OPTIONS, TrainingOptions
from isoscope.cli import COMMANDS, make_parser
from isotropy import catalog


def describe_findings() -> str:
    parts = [
        "# Findings\n\nWhat can be wrong with a cloud of vectors. `isoscope check FILE` prints the findings of a file, "
        "a report shows them below its headline, and `GET /api/embeddings/{id}/findings` returns them.\n\n"
        "A finding is a **warning** where its statistic is beyond what healthy clouds reach and mending it changes a "
        "score, or the 10 nearest neighbors, by more than 0.05 and its error. Otherwise it is a **note**. An **error** "
        "means that nothing can be measured before it is mended. Each effect is measured: the same number without the "
        "rows, the dimensions or the mean. `python -m benchmarks.finding_limits` makes the limits.\n"
    ]
    for finding in catalog.FINDINGS.values():
        facts = {
            "Name": f"`{finding.slug}`",
            "Statistic": _escape(finding.statistic),
            "Limit": _escape(finding.limit),
            "Effect": _escape(finding.effect),
            "What to do": _escape(finding.advice),
            "Where parts match labels": _escape(finding.advice_by_label),
            "Caveat": _escape(finding.pitfall),
            "Source": _escape(finding.citation),
        }
        parts.append(_format_entry(finding, facts))
    return "\n".join(parts)


def describe_postprocessing() -> str:
    parts = [
        "# Post-processing\n\nMaps that make points more isotropic, fitted on some rows and applied to any. x is a "
        "point; μ and U Λ Uᵀ are mean and covariance of the fitted points. `isotropy.postprocess.held_out` evaluates "
        "each on rows it was not fitted on.\n"
    ]
    for method in catalog.METHODS.values():
        facts = {
            "Name": f"`{method.slug}`",
            "Formula": f"`{method.formula}`",
            **{
                f"Parameter `{parameter.name}`": _escape(
                    f"{parameter.meaning} {parameter.range}"
                    f"{'' if parameter.default is None else f', by default {parameter.default}'}."
                )
                for parameter in method.parameters
            },
            "Caveats": _escape(method.pitfall),
            "Source": _escape(method.citation),
        }
        parts.append(_format_entry(method, facts))
    return "\n".join(parts)


def describe_options() -> str:
    properties = TrainingOptions.model_json_schema()["properties"]
    parts = ["# Training options\n\nThe name in a request, a YAML file and a search stands first, then the label.\n"]
    for section, options in groupby(TRAINING_OPTIONS.items(), key=lambda item: item[1].group.section):
        parts.append(f"## {section}\n\n| Name | Label | Default | What it does |\n|---|---|---|---|")
        for name, option in options:
            default = properties[name].get("default", "")
            default_cell = "" if default == "" else f"`{json.dumps(default)}`".replace('"', "")
            parts.append(f"| `{name}` | {option.label} | {default_cell} | {option.text} |")
        parts.append("")
    return "\n".join(parts)


def describe_settings() -> str:
    parts = [
        "# Settings\n\nIsoscope reads its settings from environment variables with the prefix `ISOSCOPE_`. An invalid "
        "value stops the start with a sentence that names the variable. `isoscope doctor` checks all of them.\n",
        "| Setting | Default | Meaning |\n|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, "", PydanticUndefined, []) else f"`{field.default}`"
        parts.append(f"| `ISOSCOPE_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(parts)


def describe_commands() -> str:
    parts = ["# Command line\n\n`isoscope COMMAND --help` prints the same.\n"]
    # argparse keeps the parsers of all commands in the choices of one action.
    choices = next(action.choices for action in make_parser(list(COMMANDS))._actions if action.choices)
    for name, parser in dict(choices).items():
        parts.append(f"## isoscope {name}\n\n```\n{parser.format_help().strip()}\n```\n")
    return "\n".join(parts)


def describe_api(openapi: Mapping[str, Any]) -> str:
    """Return a page with each route's method, path, purpose and parameters, grouped by the word after ``/api/``."""
    routes_by_noun = defaultdict(list)
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            purpose = (route.get("description") or route["summary"]).splitlines()[0]
            queries = [
                f"`{parameter['name']}`" for parameter in route.get("parameters", []) if parameter["in"] == "query"
            ]
            lines = [f"**{method.upper()}** `{path}`\\", purpose]
            if queries:
                lines.append(f"Query: {', '.join(queries)}.")
            if "requestBody" in route:
                lines.append(f"Body: {', '.join(route['requestBody']['content'])}.")
            routes_by_noun[path.split("/")[2]].append("\n".join(lines))
    parts = [
        "# HTTP API\n\nEvery route of the API. [Clients](clients.md) shows how to use it, and `/api/openapi.json` "
        "describes each body and answer in full.\n"
    ]
    for noun, routes in sorted(routes_by_noun.items()):
        parts.append(f"## {noun}\n\n" + "\n\n".join(routes) + "\n")
    return "\n".join(parts)


def _format_entry(entry: catalog.FindingEntry | catalog.MethodEntry, facts: Mapping[str, str]) -> str:
    lines = "".join(f"- {name}: {text}\n" for name, text in facts.items() if text)
    return f'## <a id="{entry.slug}"></a>{entry.name}\n\n{_escape(entry.meaning)}\n\n{lines}'


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_<\[\]])", r"\\\1", text)
