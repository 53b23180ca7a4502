"""``vetro run`` and ``vetro eval``: the languages without any service."""

from __future__ import annotations

import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from vetro.cli.offline.options import library_option
from vetro.cli.terminal.documents import NotADocument, named_values, read_json, read_yaml, text_of
from vetro.cli.terminal.output import PrintingCommand, emit_json, fail
from vetro.cli.terminal.paths import TEXT

if TYPE_CHECKING:
    from vetro.cli.offline.world import World
    from vetro.muranopl import MuranoObject, Session


def parse_arguments(pairs: tuple[str, ...], option: str = "--arg") -> dict[str, object]:
    """``name=JSON`` pairs; text that is not JSON is taken as text."""
    return named_values(pairs, option, "NAME=JSON", "n=5")


@click.command("run", cls=PrintingCommand)
@click.argument("packages", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--class", "class_name", required=True, metavar="FQN", help="The class.")
@click.option("--method", required=True, metavar="NAME", help="The method to call.")
@click.option("--arg", "arguments", multiple=True, metavar="NAME=JSON", help="An argument.")
@click.option(
    "--model",
    "model_file",
    type=TEXT,
    help="An object model to load first.",
)
@library_option("the named ones require")
def run(
    packages: tuple[Path, ...],
    class_name: str,
    method: str,
    arguments: tuple[str, ...],
    model_file: TextIO | None,
    libraries: tuple[Path, ...],
) -> None:
    """Run one method of a class of PACKAGES (directories or zips), in this process.

    Prints one JSON document: the result, the seconds that loading took, and those of the run.

    With a model the method is that of its root, or of the one object in it that is of the class;
    a static method needs neither. System classes work on a cloud in memory.

    \b
    Example:
      vetro run ./Web --class org.acme.Web --method greet --arg 'who="Ann"'
    """
    from vetro.cli.offline.world import open_world_or_fail
    from vetro.muranopl import MuranoError

    started = time.perf_counter()
    values = parse_arguments(arguments)
    model = None if model_file is None else read_model(text_of(model_file), model_file.name)
    world = open_world_or_fail(packages, libraries=libraries)
    try:
        world.compile()
        is_static = method_is_static(world, class_name, method)
    except MuranoError as error:
        fail(error.format(), error.hint)
    loaded = time.perf_counter()
    try:
        with world.session() as session:
            target: Any = class_name
            if model is not None:
                root = session.load(model)
                if not is_static:
                    target = target_in(session, root, class_name)
            elif not is_static:
                target = bare_object(session, class_name)
            result = session.serialize(session.call(target, method, **values))
    except MuranoError as error:
        fail(error.format(), error.hint)
    finished = time.perf_counter()
    emit_json(
        {
            "result": result,
            "load_seconds": round(loaded - started, 6),
            "seconds": round(finished - loaded, 6),
        }
    )


def method_is_static(world: World, class_name: str, method: str) -> bool:
    """Whether the method needs no object. A class or method that is not there ends the command."""
    from vetro.muranopl import NoClassFound

    try:
        type_ = world.runtime.type(class_name)
    except NoClassFound as error:
        known = sorted(name for package in world.packages for name in package.class_files)
        fail(error.message, error.hint or f"Classes: {', '.join(known) or 'none'}.")
    found = type_.find_method(method)
    if found is None:
        names = sorted(name for name in type_.method_names() if not name.startswith("."))
        near = get_close_matches(method, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"Methods: {', '.join(names) or 'none'}."
        fail(f"class {class_name} has no method '{method}'", hint)
    return found.is_static


def bare_object(session: Session, class_name: str) -> MuranoObject | None:
    """An object without any property given."""
    from vetro.muranopl import ContractViolationException

    type_ = session.runtime.type(class_name)
    try:
        return session.load({"Objects": {"?": {"type": type_.full_name, "id": "root"}}})
    except ContractViolationException as error:
        fail(error.format(), error.hint or "Give its properties in a model: --model FILE.")


def read_model(text: str, name: str) -> dict[str, object]:
    """A model from JSON or YAML: the whole of it, or its root object alone."""
    try:
        value = read_yaml(text)
    except NotADocument as error:
        fail(f"{name}: {error}", "A model is a map with Objects.", 2)
    if not isinstance(value, dict):
        fail(f"{name}: a model is a map", "{Objects: {'?': {type: …, id: …}, …}}", 2)
    model = cast("dict[str, Any]", value)
    return {"Objects": model} if "?" in model else model


def target_in(session: Session, root: MuranoObject | None, class_name: str) -> MuranoObject:
    """The object of a model that a method of the class is called on."""
    if root is None:
        fail("The model has no root object", "Its 'Objects' must be an object.")
    if root.is_a(class_name):
        return root
    found = [item for item in session.objects() if item.is_a(class_name)]
    if len(found) != 1:
        fail(
            f"The model has {len(found)} objects of {class_name}",
            "--class names the class of its root, or of one object in it.",
        )
    return found[0]


@click.command("eval", cls=PrintingCommand)
@click.argument("expression")
@click.option("--data", help="JSON that $ stands for; '-' reads standard input.")
@click.option("--var", "variables", multiple=True, metavar="NAME=JSON", help="A variable: $NAME.")
@click.option("--legacy", is_flag=True, help="The flavour of packages in format 1.0 and 1.1.")
def eval_(expression: str, data: str | None, variables: tuple[str, ...], legacy: bool) -> None:
    """Evaluate a YAQL EXPRESSION and print the result as JSON.

    \b
    Example:
      vetro eval '$.where($ > 1)' --data '[1, 2, 3]'
    """
    from vetro.yaql import YaqlException
    from vetro.yaql import compile as compile_expression

    if data == "-":
        data = text_of(sys.stdin)
    try:
        value = read_json(data) if data is not None else None
    except NotADocument as error:
        fail(f"--data is {error}", "Text needs double quotes: '\"text\"'.", 2)
    given = parse_arguments(variables, "--var")
    try:
        compiled = compile_expression(expression, flavour="legacy" if legacy else "current")
        emit_json(compiled.evaluate(value, given))
    except (YaqlException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        hint = error.hint if isinstance(error, YaqlException) else None
        fail(str(error), None if hint and hint in str(error) else hint)
