"""Commands that work on the files of this machine: their settings, and errors of the start as one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from vetro.cli.terminal.output import fail, meta, remark, remember

if TYPE_CHECKING:
    from vetro.server.settings import Settings


def installation_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options --data-dir and --config, which `local_settings` reads."""
    for option in (
        click.option(
            "--config",
            type=click.Path(path_type=Path),
            expose_value=False,
            callback=remember("config"),
            help="A vetro.toml.",
        ),
        click.option(
            "--data-dir",
            expose_value=False,
            callback=remember("data_dir"),
            help="Where everything is kept.",
        ),
    ):
        command = option(command)
    return command


@contextmanager
def local_settings(flags: Mapping[str, object] | None = None) -> Generator[Settings]:
    """The settings of this machine, with what ``flags`` name; mistakes in them end the command."""
    from vetro.server.errors import StartError
    from vetro.server.settings import SettingsError, load_settings, unused_variables

    named = {"server.data_dir": meta("data_dir"), **(flags or {})}
    try:
        settings = load_settings(named, config_file=meta("config"))
        for variable in unused_variables(os.environ):
            remark(f"{variable} is not a setting: nothing here uses it")
        yield settings
    except (SettingsError, StartError) as error:
        fail(str(error), getattr(error, "hint", None))
    except PermissionError as error:
        fail(f"You may not use {error.filename}", "Run it as the user of the service.")


def run_process(process: Callable[[Settings], int], section: str, **flags: object) -> NoReturn:
    """Run a process until it is stopped; ``flags`` are settings of a section."""
    with local_settings({f"{section}.{name}": value for name, value in flags.items()}) as settings:
        raise SystemExit(process(settings))
