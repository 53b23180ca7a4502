"""What is printed of one object, for people and for programs."""

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from vetro.cli.terminal.output import PrintingCommand, done, emit_object, emit_rows, say

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

    @click.command(cls=PrintingCommand)
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


@click.command(cls=PrintingCommand)
def listing() -> None:
    """A command that prints two rows."""
    say("two are there")
    rows: list[dict[str, Any]] = [
        {"id": "1", "name": "web app", "at": "2026-01-02T03:04:05Z", "on": True, "tags": ["a"]},
        {"id": "2", "name": None, "at": "", "on": False, "tags": []},
    ]
    emit_rows(rows, [("ID", "id"), ("STARTED", "at"), ("NAME", "name")])


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-f", "value"], "1\t2026-01-02T03:04:05Z\tweb app\n2\t\t\n"),
        (["-f", "value", "--column", "name", "--column", "tags"], 'web app\t["a"]\n\t[]\n'),
        (["--format", "value", "--column", "started"], "2026-01-02T03:04:05Z\n\n"),
        (["-f", "json", "--column", "on"], '[{"on": true}, {"on": false}]\n'),
        (["--column", "id"], "two are there\nID\n1\n2\n"),
        (["-f", "table", "--column", "id"], "two are there\nID\n1\n2\n"),
    ],
)
def test_rows_are_printed_in_the_form_that_is_asked_for(arguments: list[str], shown: str) -> None:
    """Values alone with tabs between, JSON, or a table; of chosen columns only."""
    assert CliRunner().invoke(listing, arguments).output == shown


def test_a_column_that_is_not_there_is_named() -> None:
    """The error lists the columns that there are."""
    result = CliRunner().invoke(listing, ["--column", "size"])
    assert result.exit_code == 2
    assert "There is no column 'size'" in result.output
    assert "id, at, name, on, tags" in result.output


def test_the_values_of_an_object_are_a_line_each() -> None:
    """Of what was done, too, in place of the sentence."""

    @click.command(cls=PrintingCommand)
    def show() -> None:
        emit_object({"?": {}, "name": "a\nb", "count": 2})
        done("it is done", id="7")

    assert CliRunner().invoke(show, ["-f", "value"]).output == "a b\n2\n7\n"
