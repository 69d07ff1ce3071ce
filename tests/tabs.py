import html
import re
from types import SimpleNamespace

from fastapi.testclient import TestClient

LINK = re.compile(r'href="([^"?]*\?tab=[^"]*)"')


def words(answer: SimpleNamespace) -> str:
    """Return the text of a page in which one space separates words."""
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(answer.text).split())


def every_tab(client: TestClient, path: str) -> SimpleNamespace:
    first = client.get(path)
    tabs = first.text.partition('aria-label="Parts of this page"')[2].partition("</nav>")[0]
    pages = [client.get(link.replace("&amp;", "&")) for link in LINK.findall(tabs)]
    assert all(page.status_code == 200 for page in pages)
    return SimpleNamespace(text="\n".join(page.text for page in pages or [first]), status_code=first.status_code)
