import re
from typing import NamedTuple

from fastapi.testclient import TestClient

LINK = re.compile(r'href="([^"?]*\?tab=[^"]*)"')


class Shown(NamedTuple):
    text: str
    status_code: int


def every_tab(client: TestClient, path: str) -> Shown:
    first = client.get(path)
    tabs = first.text.partition('aria-label="Parts of this page"')[2].partition("</nav>")[0]
    pages = [client.get(link.replace("&amp;", "&")) for link in LINK.findall(tabs)]
    assert all(page.status_code == 200 for page in pages)
    return Shown("\n".join(page.text for page in pages or [first]), first.status_code)
