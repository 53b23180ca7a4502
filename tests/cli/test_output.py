"""What is printed of one object, for people and for programs."""

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from vetro.cli.terminal.output import emit_object, json_option

OBJECT: dict[str, Any] = {
    "?": {"type": "io.X", "id": "0"},
    "name": "web",
    "on": True,
    "none": None,
    "empty": {},
    "traits": {"ssd": "ja"},
    "tags": ["a", "b"],
    "instance": {"?": {"type": "io.Y/1.0@io", "id": "9"}, "flavor": "m1"},
    "vms": [{"uuid": "u", "nics": [{"ip": "10.0.0.1"}]}],
    "words": {"first": "x" * 40, "second": "y" * 40},
}
SHOWN = """\
name      web
on        yes
none
empty
traits    {"ssd": "ja"}
tags      a, b
instance  io.Y 9
vms
  0
    uuid  u
    nics
      0  {"ip": "10.0.0.1"}
words
  first   xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
  second  yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
"""


@pytest.mark.parametrize("as_json", [False, True])
def test_an_object_is_shown(as_json: bool) -> None:
    """Short values on their line, structures below theirs; as JSON nothing is left out."""

    @click.command()
    @json_option
    def show() -> None:
        emit_object(OBJECT)

    shown = CliRunner().invoke(show, ["--json"] if as_json else []).output
    if as_json:
        assert json.loads(shown) == OBJECT
    else:
        assert shown == SHOWN


def test_chosen_keys_are_shown_in_their_order() -> None:
    """Those of a list of names; what the object lacks is empty."""

    @click.command()
    def show() -> None:
        emit_object(OBJECT, ["tags", "size", "name"])

    assert CliRunner().invoke(show).output == "tags  a, b\nsize\nname  web\n"
