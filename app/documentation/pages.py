"""The documentation under /docs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.documentation.library import HOME, Library
from app.web.responses import render

router = APIRouter(prefix="/docs")


def get_library(request: Request) -> Library:
    if not hasattr(request.app.state, "library"):
        request.app.state.library = Library(request.app.openapi())
    library: Library = request.app.state.library
    return library


LibraryDep = Annotated[Library, Depends(get_library)]


@router.get("")
def show_documentation(request: Request, library: LibraryDep) -> Response:
    return show_document(request, HOME, library)


@router.get("/search")
def search_documentation(request: Request, library: LibraryDep, q: str = "") -> Response:
    return render(request, "documentation/search.html", {"library": library, "q": q, "results": library.search(q)})


@router.get("/contributing/{name}")
def show_contributing(request: Request, name: str, library: LibraryDep) -> Response:
    return show_document(request, f"contributing/{name}", library)


@router.get("/{name}")
def show_document(request: Request, name: str, library: LibraryDep) -> Response:
    return render(request, "documentation/page.html", {"library": library, "page": library.get_page(name), "q": ""})
