"""The command line for the page of reference."""

from argparse import ArgumentParser

from isoscope.cli import COMMANDS, parser_of


def parser() -> ArgumentParser:
    """Return the parser with the arguments of every command."""
    return parser_of(list(COMMANDS))
