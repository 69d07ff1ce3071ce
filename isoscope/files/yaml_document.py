"""Read and write YAML: one mapping of plain JSON values, without anchors, tags or repeated keys."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from isoscope.core.errors import InvalidError

MAX_CHARACTERS = 65_536
MAX_DEPTH = 10
MAX_VALUES = 2500
MAX_DIGITS = 20
# JSON parsers that read numbers as floats, such as JavaScript, round larger integers.
MAX_INTEGER = 2**53
FIELD = "yaml"
TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _PlainLoader(yaml.SafeLoader):
    """The safe loader, which leaves dates as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML defines scalar types by this attribute
        letter: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class _FlowListDumper(yaml.SafeDumper):
    """The safe dumper, which writes each list on one line."""

    def represent_sequence(
        self, tag: str, sequence: Iterable[Any], flow_style: bool | None = True
    ) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style)


def read_yaml(text: str) -> dict[str, Any]:
    """Parse a document of plain values.

    Raises InvalidError with the line at fault, also for anchors, aliases and tags: they can expand a short text to a
    huge document.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidError(f"Expected at most {MAX_CHARACTERS:,} characters of YAML, got {len(text):,}.", FIELD)
    try:
        # Check the events before building objects from them.
        depth = values = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
                raise InvalidError(f"Expected plain values in YAML, got an anchor, alias or tag in line {line}.", FIELD)
            values += isinstance(event, yaml.NodeEvent)
            if values > MAX_VALUES:
                raise InvalidError(f"Expected at most {MAX_VALUES:,} values in YAML, got more in line {line}.", FIELD)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InvalidError(f"Expected YAML at most {MAX_DEPTH} levels deep, got more in line {line}.", FIELD)
        loader = _PlainLoader(text)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InvalidError("Expected YAML with one setting per line, such as lambdas: [-1, 1].", FIELD)
        _require_unique_keys(node)
        _require_short_numbers(node)
        document: dict[str, Any] = loader.construct_document(node)
        _require_storable(document)
    except yaml.MarkedYAMLError as error:
        location = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidError(f"This is not YAML{location}: {error.problem}.", FIELD) from error
    except (yaml.YAMLError, ValueError) as error:  # an unreadable character or number
        raise InvalidError(f"This is not YAML: {str(error).splitlines()[0]}.", FIELD) from error
    return document


def _require_unique_keys(node: yaml.Node) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _require_unique_keys(item)
    if isinstance(node, yaml.MappingNode):
        names: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise InvalidError(f"Expected the name of a setting in line {line}, got another kind of key.", FIELD)
            if key.value in names:
                raise InvalidError(f"Expected each setting once, got {key.value} again in line {line}.", FIELD)
            names.add(key.value)
            _require_unique_keys(value)


def _require_short_numbers(node: yaml.Node) -> None:
    """Raise InvalidError for numbers too long to parse in time."""
    if isinstance(node, yaml.ScalarNode):
        line = node.start_mark.line + 1
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS:
            raise InvalidError(f"Expected integers of up to {MAX_DIGITS} digits, got more in line {line}.", FIELD)
        if node.tag == "tag:yaml.org,2002:float" and len(node.value) > MAX_CHARACTERS // 64:
            raise InvalidError(f"Expected a number in line {line}, got one of {len(node.value):,} characters.", FIELD)
    elif isinstance(node, yaml.CollectionNode):
        for item in node.value:
            for child in item if isinstance(item, tuple) else (item,):
                _require_short_numbers(child)


def _require_storable(value: Any) -> None:
    """Raise InvalidError for values that JSON or a database would not return unchanged."""
    if isinstance(value, dict):
        for name, item in value.items():
            _require_storable(name)
            _require_storable(item)
    elif isinstance(value, list):
        for item in value:
            _require_storable(item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(f"Expected finite numbers, got {value}.", FIELD)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise InvalidError(f"Expected integers of at most {MAX_INTEGER:,}, got {value:,}.", FIELD)
    elif isinstance(value, str) and any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidError("The YAML contains NUL or half of a surrogate pair, which are not text.", FIELD)


def write_yaml(document: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Return a document as YAML, with a comment above each entry, and lists of plain values on one line."""
    text = ""
    for name, value in document.items():
        line: str = yaml.dump(
            {name: value},
            Dumper=_FlowListDumper,
            allow_unicode=True,
            default_flow_style=False,
            sort_keys=False,
            width=100,
        )
        text += f"# {comments[name]}\n{line}" if comments.get(name) else line
    return text
