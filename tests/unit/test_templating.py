import re
from base64 import b64decode

import pytest

from app.core.evidence import MIN_SEEDS
from app.db.config import RunConfig
from app.db.encoding import EncodingConfig
from app.db.options.option import Help, collect_options
from app.db.study import Search
from app.training.sweeps import SweepRequest
from app.web.templating import FRONTEND, STATIC, UPLOAD_HELP, data_url, inline_file, subscripted, templates
from isotropy.catalog import MEASURES, REGULARIZERS, Regularizer


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("S_X x_i λ_1²", "S<sub>X</sub> x<sub>i</sub> λ<sub>1</sub>²"),
        ("Σ_{i ≤ D} (u_i · y)", "Σ<sub>i ≤ D</sub> (u<sub>i</sub> · y)"),
        ("U Λ^(−1/2) Uᵀ", "U Λ<sup>−1/2</sup> Uᵀ"),
        ("E[x²]^{3/2}, N_k", "E[x²]<sup>3/2</sup>, N<sub>k</sub>"),
        ("ℓ_uniform", "ℓ<sub>uniform</sub>"),
        ("max CC_i, EV_k", "max CC<sub>i</sub>, EV<sub>k</sub>"),
        ("answer_start, max_steps, all_but_the_top", "answer_start, max_steps, all_but_the_top"),
        ("Σ_{i < D} <b>", "Σ<sub>i &lt; D</sub> &lt;b&gt;"),
    ],
)
def test_subscripts_and_superscripts_become_escaped_markup(text, markup):
    assert subscripted(text) == markup


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


FOLDER = FRONTEND / "templates"
TEMPLATES = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*.html")}
SWEEP, SEARCH, ENCODING = collect_options(SweepRequest), collect_options(Search), collect_options(EncodingConfig)
ALL = {f"{form}.{name}": option for form, options in {"sweep": SWEEP, "search": SEARCH, "encoding": ENCODING,
       "upload": UPLOAD_HELP, "method": REGULARIZERS}.items() for name, option in options.items()}  # fmt: skip


def test_every_setting_has_help_text():
    assert set(SWEEP) == set(SweepRequest.model_fields)
    assert set(SEARCH) == set(Search.model_fields) - {"paused", "over", "why"}
    assert set(ENCODING) == set(EncodingConfig.model_fields)
    assert set(collect_options(RunConfig)) == set(RunConfig.model_fields)
    assert set(REGULARIZERS) == set(Regularizer) - {Regularizer.NONE}
    help_texts = {
        name: help_text for name, help_text in ALL.items() if name not in {f"upload.{kind}" for kind in UPLOAD_KINDS}
    }
    assert [name for name, help_text in help_texts.items() if len(help_text.text) <= 15] == []
    assert [name for name, help_text in help_texts.items() if not set(help_text.measures) <= set(MEASURES)] == []
    described = SweepRequest.model_json_schema()["properties"]
    assert all(described[name]["description"] == option.text for name, option in SWEEP.items())
    assert all(described[name].get("title", option.label) == option.label for name, option in SWEEP.items())
    assert "a verdict on a λ three" in SWEEP["seeds"].details
    assert MIN_SEEDS == 3


UPLOAD_KINDS = "texts", "vectors", "annotations"


def test_help_of_loss_settings_has_formula_and_paper():
    for name in ("lambdas", "zetas", "shrinkage_points", "entropy_bars", "metric"):
        assert SWEEP[name].formula
        assert re.search(r"\((19|20)\d\d\)", SWEEP[name].source), name
    for name in set(Regularizer) - {Regularizer.NONE}:
        assert REGULARIZERS[name].formula.startswith("loss ")
    assert "loss + λ (1 − IsoScore★)" in SWEEP["lambdas"].formula
    assert "(1 − ζ) S_X + ζ S_S" in SWEEP["zetas"].formula


def test_every_template_field_has_help():
    calls = [(name, call) for name, text in TEMPLATES.items() for call in re.findall(r"field\(([^\n]*)\) %}", text)]
    assert len(calls) > 20
    without = re.compile(r'[^,]+, [^,]+(, "")?(,|$)(?! *\S)')
    assert [call for name, call in calls if name != "web/_field.html" and without.match(call)] == []
    assert [call for name, call in calls if ', "",' in call] == []


def test_help_details_are_folded_and_link_to_catalog():
    macros = templates.env.get_template("web/_field.html").module
    html = macros.explained("zetas", SWEEP["zetas"], "ζ values")
    assert f'<small id="zetas-help">{SWEEP["zetas"].text}</small>' in html
    assert '<span class="sr"> More on ζ values</span>' in html
    assert "S<sub>X</sub>" in html
    assert 'href="/measures#isoscore_star"' in html
    assert macros.explained("name", Help("Only this."), "Name").strip() == '<small id="name-help">Only this.</small>'
