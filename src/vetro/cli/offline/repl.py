"""``vetro repl``: a prompt for expressions, statements and objects."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vetro.cli.offline.options import library_option
from vetro.cli.terminal.output import fail, remark
from vetro.cli.terminal.paths import FILE

if TYPE_CHECKING:
    from vetro.cli.offline.prompt import Prompt


def history_file() -> Path:
    """Where what was typed is kept."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "vetro" / "repl_history"


@contextlib.contextmanager
def _line_editing(prompt: Prompt, keep_history: bool) -> Generator[None]:
    """History and completion, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    matches: list[str] = []

    def complete(_text: str, state: int) -> str | None:
        if state == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            whole = readline.get_line_buffer()[readline.get_begidx() : readline.get_endidx()]
            found = prompt.complete(line)
            # readline replaces what stands after the last delimiter only
            cut = max(len(_last_word(line)) - len(whole), 0)
            matches[:] = [item[cut:] for item in found]
        return matches[state] if state < len(matches) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n()[]{},+-*/<>=!'\"")
    readline.parse_and_bind("tab: complete")
    file = history_file()
    if keep_history:
        with contextlib.suppress(OSError):
            readline.read_history_file(file)
    readline.set_history_length(5000)
    try:
        yield
    finally:
        readline.set_completer(None)
        if keep_history:
            with contextlib.suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                readline.write_history_file(file)
                file.chmod(0o600)


def _last_word(line: str) -> str:
    import re

    if line.startswith((":load ", ":model ")):
        return line.partition(" ")[2]
    found = re.search(r"[\w.:$]*\Z", line)
    return found.group() if found else ""


@contextlib.contextmanager
def _interruptible(prompt: Prompt) -> Generator[None]:
    """Ctrl-C ends what runs, not the prompt."""

    def interrupt(_number: int, _frame: object) -> None:
        prompt.session.cancel("interrupted")

    try:
        before = signal.signal(signal.SIGINT, interrupt)
    except ValueError:  # not the main thread: signals of the keyboard do not arrive there
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_block(read_line: Callable[[str], str]) -> str:
    """One input: a line, or a block that ends with an empty line. Raises EOFError."""
    from vetro.cli.offline.prompt import needs_more

    text = read_line("> ")
    while needs_more(text):
        try:
            text += "\n" + read_line("... ")
        except EOFError:
            break
    return text


def converse(prompt: Prompt, read_line: Callable[[str], str]) -> int:
    """Read, run and print until the end; how many inputs failed."""
    from vetro.cli.offline.prompt import Mistake, Quit
    from vetro.muranopl import MuranoError

    failures = 0
    while True:
        try:
            text = read_block(read_line)
        except EOFError:
            return failures
        except KeyboardInterrupt:
            click.echo()
            continue
        try:
            with _interruptible(prompt):
                answer = prompt.answer(text)
        except Quit:
            return failures
        except MuranoError as error:
            failures += 1
            remark(click.style(prompt.explain(error), fg="red"))
        except (Mistake, click.ClickException) as error:
            failures += 1
            remark(click.style(f"Error: {error}", fg="red"))
        else:
            if answer:
                click.echo(answer)


@click.command("repl")
@click.argument("packages", nargs=-1, type=click.Path(path_type=Path))
@click.option("--model", "model_file", type=FILE, help="A model to load.")
@library_option("the named ones require")
@click.option(
    "--with-library/--without-library",
    "library",
    default=None,
    help="Load the class library [when a package mentions it].",
)
@click.option("--no-history", is_flag=True, help="Neither read nor keep a history.")
def repl(
    packages: tuple[Path, ...],
    model_file: Path | None,
    libraries: tuple[Path, ...],
    library: bool | None,
    no_history: bool,
) -> None:
    """Try expressions and classes of PACKAGES at a prompt; :help says how.

    Reads standard input when it is not a terminal; then exit code 1 means that a line failed.
    """
    from vetro.cli.offline.prompt import Mistake, Prompt
    from vetro.cli.offline.world import open_world_or_fail
    from vetro.muranopl import MuranoError

    world = open_world_or_fail(packages, libraries=libraries, library=library)
    try:
        prompt = Prompt(world)
        if model_file is not None:
            prompt.model(str(model_file))
    except MuranoError as error:
        fail(error.format(), error.hint)
    except Mistake as error:
        fail(str(error))
    try:
        if sys.stdin.isatty():
            click.echo("Vetro. :help says what one can type, :quit leaves.")
            with _line_editing(prompt, not no_history):
                converse(prompt, input)
            return
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
        lines = iter(text.splitlines())

        def read_line(_prompt: str) -> str:
            line = next(lines, None)
            if line is None:
                raise EOFError
            return line

        if converse(prompt, read_line):
            raise SystemExit(1)
    finally:
        prompt.close()
