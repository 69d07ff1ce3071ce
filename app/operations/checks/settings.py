"""The settings: which are wrong, and which are not settings at all."""

import os
import platform
from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.operations.finding import Finding, ok, problem, warning
from app.settings import Settings

PREFIX = str(Settings.model_config["env_prefix"])


def sentences(error: ValidationError | SettingsError) -> list[str]:
    """What is wrong with each setting. The value itself is left out: it may be a secret."""
    if isinstance(error, SettingsError):
        return [f"Expected JSON where a setting is a list: {error}."]
    return [
        "".join(f"{PREFIX}{str(part).upper()}: " for part in one["loc"][:1])
        + str(one["msg"]).removeprefix("Value error, ")
        for one in error.errors()
    ]


def refused(error: ValidationError | SettingsError) -> Iterator[Finding]:
    """One problem for each wrong setting."""
    for sentence in sentences(error):
        yield problem("settings", sentence, "The README's table says what each setting takes.")


def accepted(_: Settings) -> Iterator[Finding]:
    """The interpreter, and variables that look like settings and are none."""
    yield ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}.")
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    # As pydantic reads them: in any case.
    given = {name for name in os.environ if name.upper().startswith(PREFIX)}
    for name in sorted(name for name in given if name.upper() not in known):
        yield warning("settings", f"{name} is set, and is no setting.", "The README's table has their names.")
    used = sorted(name.upper() for name in given if name.upper() in known)
    yield ok("settings", f"Valid; from the environment: {', '.join(used) or 'none, so all are at their defaults'}.")
