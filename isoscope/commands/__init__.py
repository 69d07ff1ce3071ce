"""The commands that speak to a dashboard: thin shells over ``isoscope.client``, each in a module of its own."""

from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable
from types import ModuleType

from isoscope.client import Isoscope
from isoscope.commands import encode, export, import_, predictions, runs, sweep, upload

COMMANDS: dict[str, ModuleType] = {
    "upload": upload,
    "encode": encode,
    "sweep": sweep,
    "runs": runs,
    "predictions": predictions,
    "export": export,
    "import": import_,
}
"""Each has HELP, a function that adds its arguments, and one that runs it and returns the exit code."""


def add_commands(commands: "_SubParsersAction[ArgumentParser]") -> None:
    """Add the commands, each with the options that all of them have."""
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.__doc__)
        module.add_arguments(command)
        command.add_argument("--url", metavar="URL", help="of the dashboard, if not in ISOSCOPE_URL")
        command.add_argument("--json", action="store_true", help="print what the server answered, as one JSON document")
        command.set_defaults(run=_over(module.run))


def _over(run: Callable[[Isoscope, Namespace], int]) -> Callable[[Namespace], int]:
    def connected(given: Namespace) -> int:
        with Isoscope(given.url) as isoscope:
            return run(isoscope, given)

    return connected
