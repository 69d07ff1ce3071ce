"""The command line: start a dashboard, send requests to one, or measure files without one.

``isoscope --help`` lists all commands; only the module of the requested command is imported.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import NamedTuple

from isoscope.core.errors import IsoscopeError, UnavailableError

# Entry point group of the server's commands: each adds its arguments and its function to a parser.
SERVER_ENTRY_POINTS = "isoscope.commands"


class Command(NamedTuple):
    """A command's summary, and the function that runs it."""

    help: str
    # Module in ``isoscope.cli`` that holds ``function``; both are empty for commands of the server.
    module: str = ""
    function: str = ""


COMMANDS = {
    "serve": Command("start the dashboard and a worker on this machine"),
    "migrate": Command("create or upgrade both databases and exit"),
    "doctor": Command("check the installation; exit 1 on a problem"),
    "backup": Command("copy databases, files and checkpoints into a folder, while it runs"),
    "restore": Command("verify a backup and restore it"),
    "tokens": Command("list, create and revoke the access tokens of the dashboard on this machine"),
    "upload": Command("upload embeddings to a dashboard and measure them there", "embeddings", "upload"),
    "upload-dataset": Command("upload train, validation and test rows to a dashboard", "training", "upload_dataset"),
    "encode": Command("encode texts with a model and measure every layer", "embeddings", "encode"),
    "sweep": Command("launch a sweep from a YAML file", "training", "sweep"),
    "resume": Command("resume the paused or held runs of an experiment", "training", "resume"),
    "add-seeds": Command("add seeds to the undecided settings of an experiment", "training", "add_seeds"),
    "runs": Command("search the runs of all experiments", "runs", "runs"),
    "predictions": Command("write the predictions of a run", "runs", "predictions"),
    "open-test": Command("freeze a choice and open an experiment's test scores", "training", "open_test"),
    "export": Command("write an experiment as a zip file", "runs", "export"),
    "import": Command("import an experiment from a zip file", "runs", "import_experiment"),
    "score": Command("measure the vectors of files, without a server", "local", "score"),
    "decide": Command("choose post-processing, dimensions and storage by your task", "local", "decide"),
    "upgrade": Command("stay with a model, bridge to a new one or re-embed", "local", "upgrade"),
    "calibrate": Command("find the similarity from which on a pair is a match", "local", "calibrate"),
    "check": Command("find what is wrong with the vectors of files, without a server", "local", "check"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command, by default that of the process's arguments, and return its exit code."""
    command_line = sys.argv[1:] if words is None else list(words)
    try:
        arguments = make_parser(command_line[:1]).parse_args(command_line)
        run: Callable[..., int] = arguments.run
        if not getattr(arguments, "needs_dashboard", False):
            return run(arguments)
        from isoscope.client import Isoscope  # noqa: PLC0415

        with Isoscope(arguments.url) as isoscope:
            return run(isoscope, arguments)
    except IsoscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130  # the shell's exit code for a command that SIGINT ended


def make_parser(command_names: Sequence[str]) -> ArgumentParser:
    """Return a parser that lists all commands, but knows only the arguments of the named ones."""
    parser = ArgumentParser(
        prog="isoscope",
        description="Measure isotropy, and train for it. score, check, decide, upgrade and calibrate read files and "
        "need no server. serve starts a dashboard; upload, encode, sweep, runs and the like speak to one.",
    )
    parser.add_argument("--version", action="version", version=f"isoscope {version('isoscope')}")
    commands = parser.add_subparsers(required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help)
        if name not in command_names:
            continue
        if not command.module:
            entry_point = next(iter(entry_points(group=SERVER_ENTRY_POINTS, name=name)), None)
            if entry_point is None:
                raise UnavailableError(
                    f"isoscope {name} needs the server, which is not installed: pip install isoscope-server"
                )
            entry_point.load()(subparser)
            continue
        module = import_module(f"isoscope.cli.{command.module}")
        function = getattr(module, command.function)
        subparser.description = function.__doc__
        getattr(module, f"{command.function}_arguments")(subparser)
        needs_dashboard = command.module != "local"
        if needs_dashboard:
            subparser.add_argument("--url", metavar="URL", help="address of the dashboard (default: ISOSCOPE_URL)")
            subparser.add_argument("--json", action="store_true", help="print the response as one JSON document")
        subparser.set_defaults(run=function, needs_dashboard=needs_dashboard)
    return parser
