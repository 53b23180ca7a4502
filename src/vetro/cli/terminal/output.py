"""What commands print: tables for people, JSON or bare values for programs, one-line errors with a hint."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, NoReturn, TypeVar, cast

import click

from vetro.cli.terminal.tables import print_table
from vetro.cli.terminal.times import moment, spoken
from vetro.cli.terminal.typed import covered, without

#: An object as it is printed: JSON values by their names.
Row = dict[str, object]
Value = TypeVar("Value")
FORMATS = ("table", "json", "value")


class CommandError(click.ClickException):
    """A command failed: one line that says what and where, and a hint what to do."""

    guesses = False
    """Whether what only may be a secret is hidden, too."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(covered(message, guesses=self.guesses))
        self.hint = None if hint is None else covered(hint, guesses=self.guesses)

    def show(self, file: IO[str] | None = None) -> None:
        """Print ``Error: …`` and the hint on standard error."""
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {self.message}", err=True)
        if self.hint:
            click.echo(f"{click.style('Hint:', fg='yellow')} {self.hint}", err=True)


class UsageMistake(CommandError):
    """The command was given wrongly: exit code 2."""

    exit_code = 2
    guesses = True


def remark(message: str, *, guesses: bool = False) -> None:
    """A line for people on standard error, whatever standard output is for.

    ``guesses``: without what only may be a secret, too.
    """
    click.echo(covered(message, guesses=guesses), err=True)


def remarks_to_stderr() -> None:
    """Parts of the services that run in this process remark on standard error: what is on standard
    output is the command's answer alone, so that a program can read it."""
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(30),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def meta(name: str) -> Any:
    """What the program was given for an option of all commands, or `remember` has kept."""
    context = click.get_current_context(silent=True)
    return context.find_root().meta.get(f"vetro.{name}") if context else None


def wants_json() -> bool:
    """Whether the running command was given ``--json`` or ``--format json``."""
    return bool(meta("json"))


def _wants_values() -> bool:
    return bool(meta("values"))


def for_people() -> bool:
    """Whether the running command prints for people, not values or JSON for programs."""
    return not (wants_json() or _wants_values())


def chose_columns() -> bool:
    """Whether ``--column`` was given: it names properties of what is shown, so no table comes below that."""
    return bool(meta("columns"))


def _chosen(
    columns: Sequence[tuple[str, str]], others: Iterable[str] = ()
) -> Sequence[tuple[str, str]]:
    """The (title, key) that ``--column`` names, of ``columns`` and of ``others``; without it, ``columns``."""
    asked = cast("tuple[str, ...]", meta("columns") or ())
    if not asked:
        return columns
    known = [*columns, *((key.upper(), key) for key in dict.fromkeys(others))]
    found: list[tuple[str, str]] = []
    for name in asked:
        for title, key in known:
            if name.casefold() in (title.casefold(), key.casefold()):
                found.append((title, key))
                break
        else:
            there = ", ".join(dict.fromkeys(key for _, key in known))
            fail(f"There is no column '{name}'", f"There are: {there}.", 2)
    return found


def emit_json(value: object) -> None:
    """Print a JSON document, indented for a terminal and on one line for a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def cell(value: object) -> str:
    """A value as table text: empty for nothing, JSON for structures, times with zone and age."""
    when = moment(value)
    if when is not None:
        return spoken(when)
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def emit_rows(rows: Iterable[Mapping[str, object]], columns: Sequence[tuple[str, str]]) -> None:
    """Print rows without secrets: as JSON with all their keys, or as a table of ``columns`` (title, key)."""
    listed = [shown(dict(row)) for row in rows]
    if wants_json():
        emit_json([_part(row, columns) for row in listed])
        return
    columns = _chosen(columns, (key for row in listed for key in row))
    if _wants_values():
        for row in listed:
            click.echo("\t".join(_plain(row.get(key)) for _, key in columns))
        return
    cells = [[cell(row.get(key)) for _, key in columns] for row in listed]
    print_table([title for title, _ in columns], cells)


def emit_object(
    value: Mapping[str, object], keys: Sequence[str] | None = None, *, secrets: bool = False
) -> None:
    """Print one object: as JSON, or its properties a line each, those of structures indented below.

    ``secrets``: with them, as they are what was asked for.
    """
    value = value if secrets else shown(dict(value))
    if wants_json():
        emit_json(_part(value))
        return
    names = list(keys) if keys is not None else [name for name in value if name != "?"]
    names = [key for _, key in _chosen([(name, name) for name in names], value)]
    if _wants_values():
        for name in names:
            click.echo(_plain(value.get(name)))
        return
    for line in _lines({name: value.get(name) for name in names}):
        click.echo(line)


def _part(value: Mapping[str, object], columns: Sequence[tuple[str, str]] = ()) -> Row:
    """Of an object as JSON, what ``--column`` names; all of it without."""
    if not meta("columns"):
        return dict(value)
    return {key: value.get(key) for _, key in _chosen(columns, value)}


def _plain(value: object) -> str:
    """A value for programs, as the service said it: on one line, structures as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return " ".join(value.splitlines())
    return json.dumps(value, ensure_ascii=False, default=str)


def _lines(value: Mapping[str, object]) -> Iterable[str]:
    width = max((len(str(name)) for name in value), default=0)
    for name, one in value.items():
        label = click.style(str(name), bold=True) + " " * (width - len(str(name)))
        short = _short(one)
        if short is not None:
            yield f"{label}  {short}".rstrip()
            continue
        yield label.rstrip()
        yield from (f"  {line}" for line in _lines(_parts(one)))


def _parts(value: object) -> Row:
    """What a structure holds, the elements of a list under their numbers."""
    if isinstance(value, dict):
        return cast("Row", value)
    return {str(number): part for number, part in enumerate(cast("list[object]", value))}


def _short(value: object) -> str | None:
    """A value on one line; ``None`` for one that needs several."""
    if not isinstance(value, (dict, list)):
        return cell(value)
    parts = _parts(cast("object", value))
    header = parts.get("?")
    if isinstance(header, dict):
        # An object of a model: its class and id say more than all it holds.
        words = cast("Row", header)
        return f"{str(words.get('type')).partition('/')[0]} {words.get('id')}"
    if any(isinstance(part, (dict, list)) for part in parts.values()):
        return None
    # Few and plain: a list of words, or a small object as JSON.
    of_list = isinstance(value, list)
    text = ", ".join(cell(part) for part in parts.values()) if of_list else cell(parts)
    return (text if len(text) <= 60 else None) if parts else ""


def emit_json_line(value: object) -> None:
    """Print a JSON document on one line: one of several."""
    click.echo(json.dumps(value, ensure_ascii=False, default=str))
    sys.stdout.flush()


def say(message: str) -> None:
    """A line for people on the way; silent for programs, which read standard output."""
    if for_people():
        click.echo(covered(message))


def done(message: str, **facts: object) -> None:
    """What was done: a line for people, the facts for programs."""
    if for_people():
        click.echo(covered(message))
    else:
        emit_object(facts)


def word(name: str) -> str:
    """A name in a command that a hint shows: in double quotes where a shell would break it."""
    quoted = shlex.quote(name)
    if quoted == name or any(letter in name for letter in '"$`\\!'):
        return quoted
    return f'"{name}"'


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fail(message: str, hint: str | None = None, exit_code: int = 1) -> NoReturn:
    """End the command with an error."""
    raise (UsageMistake if exit_code == 2 else CommandError)(message, hint)


def remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """The callback of an option whose value, when it is given, the whole program may ask for."""

    def keep(context: click.Context, _parameter: click.Parameter, value: object) -> None:
        if value:
            context.find_root().meta[f"vetro.{name}"] = value

    return keep


def _remember_format(
    context: click.Context, _parameter: click.Parameter, value: str | None
) -> None:
    if value is not None:
        given = context.find_root().meta
        given["vetro.json"], given["vetro.values"] = value == "json", value == "value"


secrets_option = click.option(
    "--show-secrets",
    is_flag=True,
    expose_value=False,
    callback=remember("secrets"),
    help="Print passwords and other secrets instead of ***.",
)


def shown(value: Value) -> Value:
    """``value`` as a command shows it: without secrets, unless they were asked for."""
    from vetro.secrecy import masked

    return value if meta("secrets") else without(masked(value))


json_flag = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=remember("json"),
    help="The same as --format json.",
)
"""For a command with forms of its own."""

_columns = click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    expose_value=False,
    callback=remember("columns"),
    help="Print this column or property only; several times for several.",
)


class PrintingCommand(click.Command):
    """A command that prints rows or an object, with options for their form and for what of them.

    ``form``: the names of the option for the form, where ``--format`` has another meaning.
    """

    def __init__(self, *args: Any, form: Sequence[str] = ("--format", "-f"), **rest: Any) -> None:
        super().__init__(*args, **rest)
        format_option = click.option(
            *form,
            "output_format",
            type=click.Choice(FORMATS),
            expose_value=False,
            callback=_remember_format,
            help="A table, JSON, or values alone: a line for each row, with tabs between.",
        )
        for option in (json_flag, format_option, _columns):
            option(self)


class PrintingGroup(click.Group):
    """A group whose commands, and those of groups in it, are printing ones."""

    command_class = PrintingCommand
    group_class = type
