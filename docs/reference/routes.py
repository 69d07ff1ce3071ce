"""A directive that lists the routes of the API, from the application itself."""

from collections import defaultdict
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from fastapi import FastAPI
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from app.routes import api_router


class Routes(SphinxDirective):
    """``.. routes::``: method, path, parameters and purpose of each route, by the noun that its path starts with."""

    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return a section for each noun."""
        lines = []
        for noun, routes in sorted(self.by_noun().items()):
            lines += [f"## {noun}", "", *(line for route in routes for line in (*route, "")), ""]
        return self.parse_text_to_nodes(StringList(lines, source="routes"), allow_section_headings=True)

    @staticmethod
    def by_noun() -> dict[str, list[list[str]]]:
        """Return the lines of each route, by noun."""
        application = FastAPI()
        application.include_router(api_router)
        found = defaultdict(list)
        for path, methods in application.openapi()["paths"].items():
            for method, route in methods.items():
                found[path.split("/")[2]].append(described(method, path, route))
        return found


def described(method: str, path: str, route: dict[str, Any]) -> list[str]:
    """Return the lines that say what a route does and takes."""
    said = (route.get("description") or route["summary"]).splitlines()[0]
    query = [f"`{one['name']}`" for one in route.get("parameters", []) if one["in"] == "query"]
    lines = [f"**{method.upper()}** `{path}`\\", said]
    if query:
        lines += [f"Query: {', '.join(query)}."]
    if "requestBody" in route:
        lines += [f"Body: {', '.join(route['requestBody']['content'])}."]
    return lines


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("routes", Routes)
    return {"parallel_read_safe": True}
