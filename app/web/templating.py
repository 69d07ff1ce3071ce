"""The Jinja environment, static files, and help texts of upload forms."""

import gzip
import mimetypes
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from stat import S_ISREG

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import Scope

from app.context import offset_of
from app.core.names import describe_method, to_file_name
from app.core.process import FILES
from app.db.learning import divergence_note, no_learning_note
from app.db.models import Experiment
from app.db.options.option import Help
from app.db.options.regularization import describe_regularizer, describe_weights
from app.db.types import utcnow
from app.db.work import is_silent
from app.figures.labels import heading
from app.figures.palette import lambda_color
from isoscope.core import formatting
from isoscope.files.upload_formats import row_suffixes
from isotropy.catalog import MEASURES, METHODS, NEAR_COLUMNS, SIMILARITIES, format_signed

mimetypes.add_type("font/woff2", ".woff2")  # unknown on some machines
COMPRESSIBLE = (".js", ".mjs", ".css", ".svg", ".json")
FRONTEND = FILES / "frontend"
STATIC = FRONTEND / "static"


class InMemoryFiles(StaticFiles):
    """Static files cached in memory, so that serving needs no thread."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        try:
            file_path, status = self.lookup_path(path)
        except (OSError, ValueError):  # a name that is too long or contains NUL
            raise HTTPException(404) from None
        if status is None or not S_ISREG(status.st_mode):
            raise HTTPException(404)
        headers, request_headers = FileResponse(file_path, stat_result=status).headers, Headers(scope=scope)
        headers["cache-control"] = "public"
        if self.is_not_modified(headers, request_headers):
            return NotModifiedResponse(headers)
        compressed = "gzip" in request_headers.get("accept-encoding", "") and file_path.endswith(COMPRESSIBLE)
        content = _read_cached(file_path, status.st_mtime_ns, compressed)
        headers.update({"content-length": str(len(content)), "vary": "Accept-Encoding"})
        if compressed:  # cached, because the middleware would compress megabytes for each request
            headers["content-encoding"] = "gzip"
        del headers["accept-ranges"]
        return Response(content, headers=headers)


@lru_cache(maxsize=400)
def _read_cached(path: str, _modified_ns: int, compressed: bool) -> bytes:
    content = Path(path).read_bytes()
    return gzip.compress(content, 6, mtime=0) if compressed else content


TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# References to other files in style sheets and in modules.
REFERENCES = {
    ".css": re.compile(r'(?<=@import url\(")([^":]+)(?="\))'),
    ".js": re.compile(r'(?<=from ")(\./[^"]+)(?=")'),
}


def data_url(media_type: str, text: str) -> str:
    return f"data:{media_type};base64,{b64encode(text.encode()).decode()}"


@cache
def inline_file(path: str) -> str:
    """Return a static file as a data URL, in which the files that it imports are inlined, too."""
    relative = PurePosixPath(path)
    text = (STATIC / path).read_text(encoding="utf-8")
    if relative.parent.name != "vendor" and relative.suffix in REFERENCES:
        text = REFERENCES[relative.suffix].sub(lambda match: inline_file(str(relative.parent / match[1])), text)
    return data_url(TYPES[relative.suffix], text)


UPLOAD_HELP = {
    "train": Help(
        f"Training rows: {row_suffixes()}",
        details="A header line, then one row per line: one or two text columns, and one column of classes, scores or "
        "answers.",
    ),
    "validation": Help(
        "Rows to validate on, never trained on: a file with the same columns",
        details="Its labels must occur in the train file. Texts that occur in both files inflate every score; the data "
        "set page counts them.",
    ),
    "test": Help(
        "Rows for the final score: a file with the same columns, labels included",
        details="Every run is scored on these rows. Scores stay sealed until you freeze your choice and open them.",
    ),
    "validation_fraction": Help(
        "Fraction of the train rows to hold out for validation, such as 0.2. Then choose no validation file.",
        details="Rows that share a text stay together, so no text is on both sides.",
    ),
    "test_fraction": Help(
        "Fraction of the train rows to hold out for testing, at most 0.5. Empty: none.",
        details="Rows that share a text stay together. Rows that share a text with the validation file are not held "
        "out.",
    ),
    "split_seed": Help("Seed of the held-out rows."),
    "split_column": Help("The column that names the split of each row. Then upload only the train file."),
    "split_train": Help("Separate several with commas."),
    "split_validation": Help("For example: validation, dev."),
    "split_test": Help("Empty: rows marked test, if any."),
    "quoting": Help(
        "How to read quotes in .tsv files.",
        details="Detect: quotes enclose cells if every quoted cell is well formed and at least one needs its quotes, "
        "as pandas and spreadsheets write them. Otherwise quotes are part of the text, as in GLUE.",
    ),
    "dataset_name": Help("Empty: the name of the train file, unless that is only train."),
    "hub_name": Help(
        "A worker downloads it from the Hugging Face Hub.",
        details="GLUE tasks and SQuAD, each at a fixed revision.",
        source="Wang, Singh, Michael, Hill, Levy & Bowman (2019). GLUE. ICLR 2019.",
    ),
    "texts": Help(details="A .txt file has one text per line. For a table, you choose the columns next."),
    "vectors": Help(
        details="A matrix of n rows and d columns. You see a preview before anything is measured.",
        measures=("isoscore",),
    ),
    "annotations": Help(details="Names identify rows. Labels group them.", measures=("silhouette",)),
    "file_name": Help("Empty: the name of the file."),
    "split": Help("Which file of the data set to encode."),
}


# Matches the subscript of a symbol such as S_X or CC_i, but not names such as answer_start.
SUBSCRIPT = re.compile(r"(?<![a-z0-9]{2})(?<!_)_(?:\{([^{}]*)\}|([a-zA-Z]+|\w))")
SUPERSCRIPT = re.compile(r"\^(?:\{([^{}]*)\}|\(([^()]*)\))")


@cache
def static_url(path: str) -> str:
    digest = blake2b((STATIC / path).read_bytes(), digest_size=6).hexdigest()
    return f"/static/{path}?v={digest}"


def subscripted(text: str) -> Markup:
    """Set S_X, Σ_{i ≤ D}, Λ^(−1/2) and x^{3/2} as subscripts and superscripts."""
    with_subscripts = SUBSCRIPT.sub(r"<sub>\1\2</sub>", str(escape(text)))
    return Markup(SUPERSCRIPT.sub(r"<sup>\1\2</sup>", with_subscripts))  # noqa: S704 - escaped just before


def create_environment() -> Environment:
    """Return the Jinja environment. It escapes HTML and raises at undefined names."""
    environment = Environment(
        loader=FileSystemLoader(FRONTEND / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats = (
        formatting.number, formatting.significant, formatting.short, formatting.with_error, formatting.with_se,
        formatting.tick, formatting.count, formatting.plural, formatting.size, formatting.limit, formatting.about,
        formatting.duration, formatting.durations, formatting.starred, format_signed, heading, subscripted,
    )  # fmt: skip
    environment.filters |= {
        **{function.__name__: function for function in formats},
        "ago": lambda moment: formatting.ago(moment, utcnow()),
        "filename": to_file_name,
        "added": describe_weights,
    }
    environment.globals |= {
        "static": static_url,
        "offset_of": offset_of,
        "describe_regularizer": describe_regularizer,
        "describe_method": describe_method,
        "lambda_color": lambda_color,
        "measures": MEASURES,
        "methods": METHODS,
        "similarities": SIMILARITIES,
        "near_columns": NEAR_COLUMNS,
        "silent": is_silent,
        "divergence_note": divergence_note,
        "no_learning_note": no_learning_note,
        "upload_help": UPLOAD_HELP,
        "row_suffixes": row_suffixes,
    }
    return environment


templates = Jinja2Templates(env=create_environment())


def confirm_deletion(
    request: Request,
    section: str,
    name: str,
    loss: str,
    back: str,
    *,
    more_losses: str = "",
    used_by: Sequence[Experiment] = (),
) -> Response:
    """Render the page that asks before a deletion. ``loss`` says what is lost; ``back`` is the path to go back to."""
    warning = " ".join(filter(None, (loss, more_losses)))
    values = {"section": section, "name": name, "loss": warning, "back": back, "used_by": used_by}
    return templates.TemplateResponse(request, "web/confirm_delete.html", values)
