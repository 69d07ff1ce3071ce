"""The training options as a page of Markdown.

Run: python -m docs.options > docs/options.md
"""

import json
import sys
from itertools import groupby

from app.db.config import TRAINING_OPTIONS, TrainingOptions

HEADING = """# Training options

Made of the records in `app/db/options` by `python -m docs.options > docs/options.md`. The name in a request, a YAML
file and a search stands first, then the label in forms, tables and on pages.
"""


def document() -> str:
    """Return the page: a section for each heading of the launch form, a row for each option."""
    described = TrainingOptions.model_json_schema()["properties"]
    parts = [HEADING]
    for section, options in groupby(TRAINING_OPTIONS.items(), key=lambda item: item[1].group.section):
        rows = (
            f"| `{name}` | {option.label} | {_shown(described[name].get('default', ''))} | {option.text} |\n"
            for name, option in options
        )
        parts.append(f"## {section}\n\n| Name | Label | Default | What it does |\n|---|---|---|---|\n{''.join(rows)}")
    return "\n".join(parts)


def _shown(default: object) -> str:
    return "" if default == "" else f"`{json.dumps(default)}`".replace('"', "")


if __name__ == "__main__":
    sys.stdout.write(document())
