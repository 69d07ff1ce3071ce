"""Long lists a page at a time: how many pages there are, and where one begins."""

from app.services.library import MAX_PAGE, PAGE_ROWS


def offset_of(page: int) -> int:
    """How many rows lie before a page, counted from 1."""
    return (min(page, MAX_PAGE) - 1) * PAGE_ROWS


def pages_of(total: int) -> int:
    """How many pages so many rows take, one at least."""
    return max(-(-total // PAGE_ROWS), 1)
