"""Data files of packages, YAML and JSON, within limits (core-library.md section 4.1).

A document that nests without bound would end the process that reads it: the parser of YAML recurses
in C. So the depth, and the number of nodes that aliases stand for, are looked at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import yaml

from vetro.packages.errors import DataError

MAX_DEPTH = 100
MAX_NODES = 1_000_000


class _Loader(yaml.CSafeLoader):
    """Safe YAML whose unquoted timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def text_of(content: bytes, file: str) -> str:
    """UTF-8 text with ``\\n`` between lines. Errors: ``DataError``."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8 text", file=file) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_yaml(content: bytes, file: str) -> Any:
    """The value of a YAML file's one document; dates stay text.

    Errors: ``DataError``, also for a file nested deeper than 100 or of more than a million nodes.
    """
    text = text_of(content, file)
    try:
        _check_size(text, file)
        return cast("Any", yaml).load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise DataError(
            f"not YAML: {getattr(error, 'problem', None) or error}",
            file=file,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from error
    except DataError:
        raise
    except (ValueError, OverflowError) as error:  # 2026-13-45, a number without end
        raise DataError(f"not YAML: {error}", file=file) from error


def _check_size(text: str, file: str) -> None:
    """Refuse what is too deep, or becomes too much when its aliases are expanded."""
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = []
    total = 0
    for event in cast("Iterable[Any]", cast("Any", yaml).parse(text, Loader=yaml.CSafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(str(cast("Any", event).anchor), 1)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(stack) >= MAX_DEPTH:
                mark = cast("Any", event).start_mark
                raise DataError(
                    f"nested deeper than {MAX_DEPTH}",
                    file=file,
                    line=mark.line + 1,
                    column=mark.column + 1,
                )
            total += 1
            stack.append((cast("Any", event).anchor, total))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            anchor, before = stack.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if total > MAX_NODES:
            raise DataError(f"more than {MAX_NODES} nodes", file=file)


def read_json(content: bytes, file: str) -> Any:
    """The value of a JSON file. Errors: ``DataError``."""
    text = text_of(content, file)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DataError("nested too deep", file=file) from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"not JSON: {error.msg}", file=file, line=error.lineno, column=error.colno
        ) from error
    except ValueError as error:  # a number with thousands of digits
        raise DataError(f"not JSON: {error}", file=file) from error
