"""Saved views over the API."""

from isoscope.remote.connection import Connection, Known, Row, path_of


class Views(Connection):
    """Pages with all that is chosen there, under short addresses."""

    def views(self, *, limit: int = 100, offset: int = 0) -> list[Row]:
        """Return saved views, newest first."""
        return self.listed("/api/views", limit=limit, offset=offset)[0]

    def view(self, view: Known) -> Row:
        """Return one view: its page and the query of it."""
        answer: Row = self.ask("GET", path_of("views", view))
        return answer

    def save_view(self, name: str, path: str, query: str = "") -> Row:
        """Keep a page with all that is chosen there; ``/v/ID`` on the server then leads to it.

        >>> isoscope.save_view("CoLA below 0", "/compare/runs", "q=task%3Acola+lam<0")["id"]
        """
        answer: Row = self.ask("POST", "/api/views", json={"name": name, "path": path, "query": query})
        return answer

    def delete_view(self, view: Known) -> None:
        """Forget a view; what it shows stays."""
        self.ask("DELETE", path_of("views", view))
