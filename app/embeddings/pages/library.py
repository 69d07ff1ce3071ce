"""Pages of the library and the trash: search, upload, trash, restore, delete permanently."""

from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, File, Form, Query, Request, Response, UploadFile

from app.context import Context, aria_sort, next_sort, read_page
from app.db.models import Embedding, EmbeddingOrigin, EmbeddingStatus
from app.descriptions.service import collect_tags
from app.embeddings import library
from app.embeddings.service import create_embedding, describe_lost_tasks, get_embedding
from app.embeddings.trash import (
    TRASHED,
    empty_trash,
    get_trashed,
    list_trash,
    purge_embedding,
    restore_embedding,
    trash_embedding,
)
from app.training.relaunch import Server
from app.web.dependencies import ContextDep, PageNumber
from app.web.responses import redirect_to, render
from app.web.templating import confirm_deletion
from app.web.uploads import chosen_file
from isoscope.core.errors import InvalidError, IsoscopeError, NotFoundError
from isoscope.core.formatting import plural, size
from isoscope.files.upload_formats import Role, suffixes, titles

router = APIRouter(prefix="/embeddings")

ORIGINS = {
    EmbeddingOrigin.UPLOAD: "uploaded",
    EmbeddingOrigin.POSTPROCESSED: "post-processed here",
    EmbeddingOrigin.SELECTED: "selected here",
    EmbeddingOrigin.ENCODED: "encoded here",
}
# The sortable columns, and whether the first click sorts descending.
DESCENDS_FIRST = {"name": False, "isoscore_unbiased": True, "mean_cosine": True, "n": True, "d": True, "created": True}


class LibraryPage(NamedTuple):
    """A page of a search of the library."""

    search: library.EmbeddingSearch
    embeddings: library.EmbeddingList
    page: int
    pages: int

    @property
    def is_filtered(self) -> bool:
        return bool(self.search.q or self.search.tag or self.search.origin or self.search.status)

    def url(self, page: int = 1, **changed: Any) -> str:
        """Return the URL of a page of the search with some fields changed. Leave out default values."""
        search, default = asdict(replace(self.search, **changed)), asdict(library.EmbeddingSearch())
        parameters = {name: value for name, value in search.items() if value != default[name]}
        parameters |= {"page": page} if page > 1 else {}
        parameters |= {"layers": "true"} if "layers" in parameters else {}
        return f"/embeddings?{urlencode(parameters)}" if parameters else "/embeddings"

    @property
    def query(self) -> str:
        return self.url(self.page).partition("?")[2]

    def aria_sort(self, column: str) -> str:
        return aria_sort(self.search.sort, column)

    def sort_url(self, column: str) -> str:
        return self.url(sort=next_sort(column, self.aria_sort(column), descending_first=DESCENDS_FIRST[column]))


def _read_search(
    q: Annotated[str, Query(max_length=library.MAX_QUERY_CHARACTERS)] = "",
    tag: Annotated[str, Query(max_length=library.MAX_QUERY_CHARACTERS)] = "",
    origin: EmbeddingOrigin | Literal[""] = "",
    status: EmbeddingStatus | Literal[""] = "",
    layers: bool = False,
    sort: library.Sort = "-created",
) -> library.EmbeddingSearch:
    return library.EmbeddingSearch(
        q=q.strip(), tag=tag.strip(), origin=origin or None, status=status or None, layers=layers, sort=sort
    )


SearchDep = Annotated[library.EmbeddingSearch, Depends(_read_search)]


@router.get("")
def list_all(
    request: Request, context: ContextDep, search: SearchDep, page: PageNumber = 1, moved: str = ""
) -> Response:
    """Show the library and the upload form. ``moved`` is the id of an embedding just moved to the trash, or empty."""
    trashed = None
    with suppress(NotFoundError):
        trashed = get_embedding(context, moved) if moved else None
    trashed = trashed if trashed and trashed.trashed_at else None
    return _render_list(request, context, _read_page(context, search, page), moved=trashed)


@router.post("")
def upload_embedding(
    request: Request,
    context: ContextDep,
    file: Annotated[list[UploadFile | str] | None, File()] = None,
    annotations: Annotated[UploadFile | str | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    try:
        vectors = [*filter(None, map(chosen_file, file or []))]
        if not vectors:
            raise InvalidError("Expected a file of embeddings: choose one.", "file")
        embedding = create_embedding(context, vectors, chosen_file(annotations), name or None)
    except IsoscopeError as error:
        error.field = error.field or "file"
        return _render_list(request, context, _read_page(context, library.EmbeddingSearch(), 1), error, name=name)
    return redirect_to(f"/embeddings/{embedding.id}")


def _read_page(context: Context, search: library.EmbeddingSearch, page: int) -> LibraryPage:
    return LibraryPage(search, *read_page(lambda offset: library.find_embeddings(context, search, offset=offset), page))


def _render_list(
    request: Request,
    context: Context,
    listing: LibraryPage,
    problem: IsoscopeError | None = None,
    name: str = "",
    moved: Embedding | None = None,
) -> Response:
    server = Server.from_request(request, context.settings)
    curl = server.curl("/embeddings?commit=auto", "-F file=@embeddings.npy")
    page = {
        "listing": listing,
        "origins": ORIGINS,
        "statuses": list(EmbeddingStatus),
        "row_list": library.EMBEDDINGS,
        "known_tags": collect_tags(context, Embedding),
        "moved": moved,
        "max_bytes": context.settings.max_upload_bytes,
        "suffixes": {"file": suffixes(Role.VECTORS), "annotations": suffixes(Role.ANNOTATIONS)},
        "titles": {"file": titles(Role.VECTORS), "tables": titles(Role.ROWS)},
        "name": name,
        "snippets": server.snippets(curl, "upload", "embeddings.npy", "embedding = isoscope.upload('embeddings.npy')"),
    }
    return render(request, "embeddings/embeddings.html", page, problem)


trash_router = APIRouter()


@trash_router.post("/embeddings/{embedding_id}/trash")
def put_into_trash(context: ContextDep, embedding_id: str) -> Response:
    return redirect_to(f"/embeddings?{urlencode({'moved': trash_embedding(context, embedding_id).id})}")


@trash_router.post("/embeddings/{embedding_id}/restore")
def restore(context: ContextDep, embedding_id: str, back: Annotated[str, Form()] = "") -> Response:
    embedding = restore_embedding(context, embedding_id)
    return redirect_to("/trash" if back == "trash" else f"/embeddings/{embedding.id}")


@trash_router.get("/trash")
def show_trash(request: Request, context: ContextDep, page: PageNumber = 1) -> Response:
    trash, page, pages = read_page(lambda offset: list_trash(context, offset=offset), page)
    return render(request, "embeddings/trash.html", {"trash": trash, "page": page, "pages": pages})


@trash_router.get("/trash/purge")
def confirm_emptying(request: Request, context: ContextDep) -> Response:
    trash = list_trash(context, limit=0)
    if not trash.total:
        raise NotFoundError("The trash is empty. There is nothing to delete.")
    name = plural(trash.total, "embedding")
    return _render_confirmation(request, name, trash.frees_bytes, describe_lost_tasks(context, TRASHED))


@trash_router.post("/trash/purge")
def purge_all(context: ContextDep) -> Response:
    empty_trash(context)
    return redirect_to("/trash")


@trash_router.get("/trash/{embedding_id}/purge")
def confirm_purge(request: Request, context: ContextDep, embedding_id: str) -> Response:
    row = get_trashed(context, embedding_id)
    return _render_confirmation(
        request, row.embedding.name, row.frees_bytes, describe_lost_tasks(context, Embedding.id == embedding_id)
    )


@trash_router.post("/trash/{embedding_id}/purge")
def purge(context: ContextDep, embedding_id: str) -> Response:
    purge_embedding(context, embedding_id)
    return redirect_to("/trash")


def _render_confirmation(request: Request, name: str, frees_bytes: int, tasks: str) -> Response:
    freed_note = "no bytes of the storage are freed, because others need the same files"
    if frees_bytes:
        freed_note = f"{size(frees_bytes)} of the storage are freed"
    loss = f"Measurements, curves, figures, tags and notes are deleted, and {freed_note}."
    return confirm_deletion(request, "data", name, loss, "/trash", more_losses=tasks)
