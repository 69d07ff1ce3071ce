"""The templates' environment: what a template can call besides what its route gives it."""

import re
from datetime import datetime
from functools import cache
from hashlib import blake2b

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.templating import Jinja2Templates

from app.db.divergence import diverged
from app.db.trivial import learned_nothing
from app.db.types import utcnow
from app.figures.palette import of_lambda
from app.help.uploads import UPLOADS
from app.installation import FILES
from app.regularizers import added_words, coordinates
from app.results.column_labels import heading
from app.services.names import file_name
from app.services.positions import described
from app.services.script_runs import is_silent
from isoscope.core import formatting
from isotropy.catalog import MEASURES, METHODS

# A symbol has a subscript, S_X or CC_i; a name such as answer_start has none.
SUBSCRIPT = re.compile(r"(?<![a-z0-9]{2})(?<!_)_(?:\{([^{}]*)\}|([a-zA-Z]+|\w))")
SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]*)\}|\(([^()]*)\))")
FRONTEND = FILES / "frontend"


@cache
def static(path: str) -> str:
    """URL of a static file, which changes with its content so that browsers may keep it for good."""
    digest = blake2b((FRONTEND / "static" / path).read_bytes(), digest_size=6).hexdigest()
    return f"/static/{path}?v={digest}"


def ago(moment: datetime) -> str:
    """How long ago something was."""
    return formatting.ago(moment, utcnow())


def subscripted(text: str) -> Markup:
    """A formula in plain text, with S_X, Σ_{i ≤ D} and Λ^(−1/2) or x^{3/2} set as subscripts and superscripts."""
    lowered = SUBSCRIPT.sub(r"<sub>\1\2</sub>", str(escape(text)))
    return Markup(SUPERSCRIPT.sub(r"<sup>\1\2</sup>", lowered))  # noqa: S704 - escaped just before


def create_environment() -> Environment:
    """Templates that escape by default and fail at a name nobody gave them."""
    environment = Environment(
        loader=FileSystemLoader(FRONTEND / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "heading": heading,
        "number": formatting.number,
        "short": formatting.short,
        "with_error": formatting.with_error,
        "tick": formatting.tick,
        "count": formatting.count,
        "plural": formatting.plural,
        "size": formatting.size,
        "limit": formatting.limit,
        "duration": formatting.duration,
        "durations": formatting.durations,
        "ago": ago,
        "filename": file_name,
        "subscripted": subscripted,
        "starred": formatting.starred,
        "added": added_words,
    }
    environment.globals |= {
        "static": static,
        "coordinates": coordinates,
        "described": described,
        "lambda_colour": of_lambda,
        "measures": MEASURES,
        "methods": METHODS,
        "silent": is_silent,
        "diverged": diverged,
        "learned_nothing": learned_nothing,
        "upload_help": UPLOADS,
    }
    return environment


templates = Jinja2Templates(env=create_environment())
