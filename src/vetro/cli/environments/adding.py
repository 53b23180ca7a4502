"""What `vetro env add` and `vetro template add` share: options, the object of `--file`, the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO, TypeVar, cast

import click

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.name_completion import PACKAGE
from vetro.cli.environments.applications import application_row, emit_applications
from vetro.cli.environments.setting_completion import FORM_FIELD
from vetro.cli.terminal.documents import json_in
from vetro.cli.terminal.output import emit_json, fail, shown, wants_json
from vetro.cli.terminal.paths import TEXT

F = TypeVar("F", bound=Callable[..., Any])


def adding_options(command: F) -> F:
    """The arguments `package`, `name`, `settings` and `file`."""
    for option in (
        click.option(
            "--file",
            "file",
            type=TEXT,
            help="A JSON object (or list) to add as it is; of one that was listed, its inputs.",
        ),
        click.option(
            "--set",
            "settings",
            type=FORM_FIELD,
            multiple=True,
            metavar="FIELD=VALUE",
            help="A form field.",
        ),
        click.option("--name", help="Name of the application."),
        click.argument("package", required=False, type=PACKAGE),
    ):
        command = option(command)
    return command


def model_of(file: TextIO | None) -> object:
    """The JSON of `--file`; the command fails when there is neither a file nor a package."""
    if file is None:
        fail("There is nothing to add", "Name a PACKAGE, or give the object with --file.", 2)
    return json_in(file, "It holds one object, or a list of them.")


def show_added(stored: object) -> None:
    """What was added, as JSON or as a table."""
    rows = cast("list[JsonObject]", stored if isinstance(stored, list) else [stored])
    if wants_json():
        emit_json(shown(cast("Any", stored)))
    else:
        emit_applications([application_row(item) for item in rows])
