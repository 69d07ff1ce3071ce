"""Static files as data URLs, for a page that is kept as a file and must not ask for anything."""

import re
from base64 import b64encode
from functools import cache
from pathlib import PurePosixPath

from app.static import FOLDER

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# How a style sheet and a module name another file beside them.
REFERENCES = {
    ".css": re.compile(r'(?<=@import url\(")([^":]+)(?="\))'),
    ".js": re.compile(r'(?<=from ")(\./[^"]+)(?=")'),
}


def data_url(media_type: str, text: str) -> str:
    """A text as an address that holds it. Nothing in it needs escaping."""
    return f"data:{media_type};base64,{b64encode(text.encode()).decode()}"


@cache
def inlined(path: str) -> str:
    """A static file as a data URL, the files it names in it likewise."""
    place = PurePosixPath(path)
    text = (FOLDER / path).read_text(encoding="utf-8")
    if place.parent.name != "vendor" and place.suffix in REFERENCES:
        text = REFERENCES[place.suffix].sub(lambda found: inlined(str(place.parent / found[1])), text)
    return data_url(TYPES[place.suffix], text)
