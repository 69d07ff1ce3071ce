"""Look at the settings, where the web process listens, and who gets in."""

import errno
import json
import os
import platform
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address

from pydantic import ValidationError
from pydantic_settings import SettingsError

from app.core.settings import Settings, is_loopback
from app.operations.checks import Finding, ok, problem, warning

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
        yield problem("settings", sentence, "See docs/settings.md for what each setting takes.")


def accepted(_: Settings) -> Iterator[Finding]:
    """The interpreter, and variables that look like settings and are none."""
    yield ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}.")
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields}
    # As pydantic reads them: in any case.
    given = {name for name in os.environ if name.upper().startswith(PREFIX)}
    for name in sorted(name for name in given if name.upper() not in known):
        yield warning("settings", f"{name} is set, and is no setting.", "See docs/settings.md for their names.")
    used = sorted(name.upper() for name in given if name.upper() in known)
    yield ok("settings", f"Valid; from the environment: {', '.join(used) or 'none, so all are at their defaults'}.")


FEWEST_CHARACTERS = 8
ANSWER_SECONDS = 5


def access(settings: Settings) -> Iterator[Finding]:
    """Who can reach the dashboard, and what they must show."""
    where = f"{settings.host}:{settings.port}"
    if settings.access_token is None:
        yield ok("access", f"{where} is reached from this machine alone, without an access token.")
    elif len(set(settings.access_token.get_secret_value())) < FEWEST_CHARACTERS:
        found = f"The access token of {where} repeats the same few characters, so it could be guessed."
        yield warning("access", found, "Make one with: openssl rand -hex 16")
    else:
        reach = "this machine alone" if is_loopback(settings.host) else "other machines"
        yield ok("access", f"{where} is reached from {reach}, with the access token.")
    for name in settings.allowed_hosts:
        if "/" in name or name.count(":") == 1:
            found = f"ISOSCOPE_ALLOWED_HOSTS has {name!r}, which no request's name can equal."
            yield warning("access", found, "Name the host alone, without https:// and without a port.")


def port(settings: Settings) -> Iterator[Finding]:
    """Whether the port is free, or who listens there."""
    where = f"{settings.host}:{settings.port}"
    try:
        listen(settings)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            advice = "Set ISOSCOPE_HOST to an address of this machine, and ISOSCOPE_PORT to one above 1023."
            yield problem("port", f"Nobody can listen at {where} here: {error.strerror}.", advice)
        elif is_isoscope(settings):
            yield ok("port", f"An Isoscope answers at {where}.")
        else:
            advice = "Stop it, or choose another port: ISOSCOPE_PORT=8001"
            yield problem("port", f"Something that is no Isoscope listens at {where}.", advice)
    else:
        yield ok("port", f"{where} is free; no Isoscope runs there.")


def listen(settings: Settings) -> None:
    """Take the address and let go of it again. Raises OSError where that cannot be."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((settings.host, settings.port))


def is_isoscope(settings: Settings) -> bool:
    """Whether what listens answers as an Isoscope does."""
    connection = HTTPConnection(_reachable(settings.host), settings.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/api/health")
        health = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(health, dict) and "workers_alive" in health


def _reachable(host: str) -> str:
    """The host, or loopback where it means all addresses of this machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(address), host)  # noqa: S104 - compared, not listened on
