import re

from app.core.evidence import MIN_SEEDS
from app.db.config import RunConfig
from app.db.encoding import EncodingConfig
from app.db.options.option import Help, collect_options
from app.db.study import Search
from app.training.sweeps import SweepRequest
from app.web.templating import FRONTEND, UPLOAD_HELP, templates
from isotropy.catalog import MEASURES, REGULARIZERS, Regularizer

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
