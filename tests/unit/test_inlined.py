import re
from base64 import b64decode

from app.web.templating import STATIC, data_url, inline_file


def decoded(url: str) -> str:
    return b64decode(url.partition(";base64,")[2]).decode()


def test_data_urls_hold_files_unchanged():
    url = data_url("text/csv", "</script>,\u00fc\n")
    assert re.fullmatch(r"data:text/csv;base64,[A-Za-z0-9+/=]+", url)
    assert decoded(url) == "</script>,\u00fc\n"
    (imported,) = re.findall(r'@import url\("([^"]+)"\) layer\(pico\)', decoded(inline_file("app.css")))
    assert decoded(imported) == (STATIC / "vendor/pico.min.css").read_text(encoding="utf-8")
    plotly = inline_file("vendor/plotly-strict.min.js")
    assert decoded(plotly) == (STATIC / "vendor/plotly-strict.min.js").read_text(encoding="utf-8")


def test_inlined_module_holds_its_imports():
    imports = re.findall(r'from "([^"]+)"', decoded(inline_file("js/figures.js")))
    assert len(imports) >= 2
    assert all(url.startswith("data:text/javascript;base64,") for url in imports)
    webgl = (STATIC / "js/webgl.js").read_text(encoding="utf-8")
    assert webgl in map(decoded, imports)
    # A module that two others import has the same URL in both.
    assert inline_file("js/plotly.js") in decoded(inline_file("js/export.js"))
