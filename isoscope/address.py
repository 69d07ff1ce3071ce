"""Address, token and error sentences of a dashboard, for the client and for scripts."""

import os
from http import HTTPStatus
from ipaddress import ip_address
from typing import NamedTuple

import httpx2

from isoscope.core.errors import InvalidError

DEFAULT_URL = "http://127.0.0.1:8000"
URL_ENV, TOKEN_ENV = "ISOSCOPE_URL", "ISOSCOPE_ACCESS_TOKEN"
# Statuses after which the same request may succeed later.
RETRYABLE_STATUSES = {
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT,
}  # fmt: skip


class Address(NamedTuple):
    """URL and credentials of a dashboard."""

    url: str  # Without a password, so that it is safe to print
    token: str | None
    login: tuple[str, str] | None  # User and password of a proxy, from the address


def read_address(url: str | None = None, token: str | None = None) -> Address:
    """Return the given address, else that of the environment, else port 8000 here; raise InvalidError if unusable."""
    requested_url = (url or os.environ.get(URL_ENV) or DEFAULT_URL).strip().rstrip("/")
    token = token or os.environ.get(TOKEN_ENV) or None
    try:
        parsed = httpx2.URL(requested_url)
    except (httpx2.InvalidURL, UnicodeError):
        parsed = httpx2.URL()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidError(
            f"Expected the address of a dashboard such as {DEFAULT_URL}, got {_without_credentials(requested_url)!r}.",
            "url",
        )
    if token is not None and not (token.isascii() and token.isprintable()):
        raise InvalidError(
            f"The token of the dashboard cannot be used: {TOKEN_ENV} takes plain ASCII characters.", "token"
        )
    login = (parsed.username, parsed.password) if parsed.userinfo else None
    return Address(str(parsed.copy_with(username=None, password=None)).rstrip("/"), token, login)


def open_client(address: Address, timeout: float | httpx2.Timeout) -> httpx2.Client:
    """Return an HTTP client; requests to this machine bypass proxies of the environment."""
    host = httpx2.URL(address.url).host
    try:
        ip = ip_address(host)
        is_local = ip.is_loopback or ip.is_unspecified
    except ValueError:
        is_local = host == "localhost" or host.endswith(".localhost")
    return httpx2.Client(
        base_url=address.url,
        headers={"Authorization": f"Bearer {address.token}"} if address.token else {},
        auth=address.login,
        timeout=timeout,
        trust_env=not is_local,
    )


def error_detail(response: httpx2.Response) -> tuple[str, str | None] | None:
    """Return the error message of a response and the field at fault, if any; None if no dashboard sent it."""
    try:
        problem = response.json()
        return str(problem["detail"]), problem["field"]
    except (ValueError, KeyError, TypeError):
        return None


def error_sentence(response: httpx2.Response) -> str:
    """Return the error message of a response, else its status and the target of a redirect."""
    if detail := error_detail(response):
        return detail[0]
    status = f"{response.request.method} {response.request.url} answered {response.status_code}"
    if response.has_redirect_location:
        target = _without_credentials(str(response.url.join(response.headers["location"])))
        return f"{status} and names {target}. Give the address that the dashboard really has."
    return f"{status}."


def is_retryable(response: httpx2.Response) -> bool:
    """Return whether the same request may succeed later, as after a 404 that no dashboard sent."""
    is_unrecognized_404 = response.status_code == HTTPStatus.NOT_FOUND and error_detail(response) is None
    return is_unrecognized_404 or response.status_code in RETRYABLE_STATUSES


def _without_credentials(url: str) -> str:
    scheme, slashes, location = url.rpartition("://")
    return f"{scheme}{slashes}{location.rpartition('@')[2]}"
