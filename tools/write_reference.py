"""`make docs`: writes the reference of the command line from its help, and the generated pages of docs/."""

from __future__ import annotations

import sys
from pathlib import Path

import api_page
import class_tables
import click
import metrics_page
import rooms_page
import settings_page

from vetro.cli import COMMANDS, cli


def sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """The help of a command and of everything below it, as Markdown."""
    context = click.Context(command, info_name=name, parent=parent)
    parts = [f"## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                parts += sections(found, below, context)
    return parts


def main() -> int:
    """Write the page into the directory given."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    target.mkdir(parents=True, exist_ok=True)
    root = click.Context(cli, info_name="vetro")
    parts = ["# Command line\n\nWritten by `make docs`.\n"]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        if command is not None:
            parts += sections(command, name, root)
    (target / "cli.md").write_text("\n".join(parts), encoding="utf-8")
    docs = Path(__file__).parent.parent / "docs"
    pages = {
        docs / "api.md": api_page.page(),
        docs / "settings.md": settings_page.page(),
        docs / "metrics.md": metrics_page.page(),
        docs / "rooms.md": rooms_page.page(),
        **class_tables.pages(),
    }
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    print(target / "cli.md", *pages, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
