"""``vetro completion``: the script that completes the command in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from vetro.cli.terminal.output import fail


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    For bash: source <(vetro completion bash)
    """
    completer = get_completion_class(shell)
    if completer is None:
        fail(f"No completion for {shell}", exit_code=2)
    click.echo(completer(ctx.find_root().command, {}, "vetro", "_VETRO_COMPLETE").source())
