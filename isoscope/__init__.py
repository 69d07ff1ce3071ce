"""The command line, the Python client, readers of files, and logging of runs of your own training loop."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isoscope.callback import IsoscopeCallback
    from isoscope.track import LoggedRun, log_run

__all__ = ["IsoscopeCallback", "LoggedRun", "log_run"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the callback needs torch and transformers."""
    if name == "IsoscopeCallback":
        from isoscope.callback import IsoscopeCallback  # noqa: PLC0415

        return IsoscopeCallback
    if name in __all__:
        from isoscope import track  # noqa: PLC0415

        return getattr(track, name)
    raise AttributeError(f"module 'isoscope' has no attribute {name!r}")
