"""Commands that pages show, read by the command line itself without running anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from vetro.cli import cli

_FENCED = re.compile(r"^( *)```(?:sh)?\n(.*?)^\1```$", re.M | re.S)
_INDENTED = re.compile(r"^ {4,}(vetro .*)$", re.M)


def shown(page: str) -> Iterator[list[str]]:
    """The words of each `vetro` command in the blocks of a page, without `vetro`."""
    blocks = [text for _, text in _FENCED.findall(page)] + _INDENTED.findall(page)
    for line in "\n".join(blocks).splitlines():
        if line.strip().startswith("vetro "):
            yield shlex.split(line, comments=True)[1:]


def understood(words: list[str]) -> click.Context:
    """A command with its arguments, as it would be run. Errors: click's, and AssertionError."""
    found: click.Command | None = cli
    context = click.Context(cli, info_name="vetro")
    rest = list(words)
    while isinstance(found, click.Group):
        found = found.get_command(context, rest.pop(0))
    assert found is not None, words
    return found.make_context(found.name, rest, parent=context)
