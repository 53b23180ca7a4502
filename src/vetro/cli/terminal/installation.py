"""Commands that work on the files of this machine: their settings, and errors of the start as one line."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vetro.cli.terminal.output import fail

if TYPE_CHECKING:
    from vetro.server.settings import Settings


def installation_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command the options --data-dir and --config."""
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="A vetro.toml."),
        click.option("--data-dir", help="Where everything is kept."),
    ):
        command = option(command)
    return command


@contextmanager
def local_settings(
    data_dir: str | None, config: Path | None, flags: Mapping[str, object] | None = None
) -> Generator[Settings]:
    """The settings of this machine, with what ``flags`` name; mistakes in them end the command."""
    from vetro.server.errors import StartError
    from vetro.server.settings import SettingsError, load_settings

    given = data_dir or click.get_current_context().find_root().meta.get("vetro.data_dir")
    try:
        yield load_settings({"server.data_dir": given, **(flags or {})}, config_file=config)
    except (SettingsError, StartError) as error:
        fail(str(error), getattr(error, "hint", None))
    except PermissionError as error:
        fail(f"You may not use {error.filename}", "Run it as the user of the service.")
