"""The documented table of settings is the settings class."""

import re
from pathlib import Path

from pydantic_core import PydanticUndefined

from app.core.settings import Settings

SETTINGS = Path(__file__).parents[2] / "docs/settings.md"


def rows() -> list[str]:
    table = ["| Setting | Default | Meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, "", PydanticUndefined, []) else f"`{field.default}`"
        table.append(f"| `ISOSCOPE_{name.upper()}` | {default} | {field.description} |")
    return table


def test_every_setting_stands_in_the_docs_with_its_default_and_meaning():
    written = re.search(r"<!-- settings -->\n(.*?)\n<!-- /settings -->", SETTINGS.read_text(), re.DOTALL)
    assert written is not None
    assert written[1].splitlines() == rows()
