"""`select`, `select-all`, `select-single` and `set` (§3, §4, §7)."""

from __future__ import annotations

from typing import cast

from vetro.workflows.content import Arguments, Compile, Compiler, evaluated, text_argument
from vetro.workflows.errors import EvaluationError
from vetro.workflows.functions import integer
from vetro.workflows.paths import Path, base_of, follow, parse_path, write
from vetro.workflows.queries import CompiledQuery, compile_query, join_query
from vetro.workflows.running import Closure, Frame
from vetro.workflows.scopes import Scope
from vetro.workflows.source import Element
from vetro.workflows.values import CONTAINERS, Json, text

RESERVED = {
    "dataSource", "commandDispatcher", "config", "reporter", "metadata_id", "hasSideEffects",
}  # fmt: skip
"""Names in the root scope that belong to the machinery (§5)."""


def select(compiler: Compiler, element: Element) -> Closure:
    """`select`: what stands at a path, ``None`` if nothing does."""
    arguments = compiler.arguments(element)
    fixed = _fixed_path(arguments)
    if fixed is not None and not arguments.parameters and set(arguments.constants) <= {"path"}:
        steps, up = fixed.steps, fixed.up
        if fixed.kind == "model" and up == 0:
            return lambda frame, scope: follow(follow(frame.run.task.model, frame.cursor), steps)
        return lambda frame, scope: read(frame, scope, fixed)

    def call(frame: Frame, scope: Scope) -> Json:
        values = arguments.evaluate(frame, Scope(scope))
        path = fixed or _path(values, "select")
        source = values.get("source")
        if source is None and "source" not in arguments:
            value = read(frame, scope, path)
        else:
            value = _source(source, scope)
            if value is None:
                pass
            elif path.kind != "model":
                raise EvaluationError(f"select: {path.text!r} is not a path inside a variable")
            else:
                value = follow(value, path.steps)
        if not value and "default" in arguments:
            return values["default"]
        return value

    return call


def read(frame: Frame, scope: Scope, path: Path) -> Json:
    """What a path addresses."""
    if path.kind == "variable":
        # The scope of the element around the call; of outer ones with `:` and `/`.
        return scope.above(path.up).get(path.name)
    if path.kind == "setting":
        return frame.run.task.settings.readable(path.name)
    base = base_of(frame.cursor, path.up)
    return follow(follow(frame.run.task.model, base), path.steps)


def select_many(single: bool) -> Compile:
    """`select-all` and `select-single`."""
    name = "select-single" if single else "select-all"

    def compile_select(compiler: Compiler, element: Element) -> Closure:
        arguments = compiler.arguments(element, joined={"path": join_query})
        constant = arguments.constant("path")
        if constant is None and "path" not in arguments:
            constant = ""
        fixed = None if constant is None else compile_query(constant, True)

        def call(frame: Frame, scope: Scope) -> Json:
            values = arguments.evaluate(frame, Scope(scope))
            query = fixed or compile_query(text_argument(values, "path", name), True)
            found = _matches(query, arguments, values, frame, scope)
            limit = 1 if single else integer(values.get("limit") or 0, f"{name}: 'limit'")
            results = [value for _, value in (found[:limit] if limit > 0 else found)]
            if single:
                return results[0] if results else None
            return results

        return call

    return compile_select


def _matches(
    query: CompiledQuery, arguments: Arguments, values: dict[str, Json], frame: Frame, scope: Scope
) -> list[tuple[Json, Json]]:
    if "source" not in arguments:
        return query.select(frame.run.task.model, frame.cursor)
    source = _source(values["source"], scope)
    return [] if source is None else query.select(source, ())


def _source(source: Json, scope: Scope) -> Json:
    """A variable by its name, or an object given by a parameter."""
    if isinstance(source, CONTAINERS):
        return cast("Json", source)
    return None if source is None else scope.get(text(source).removeprefix("#"))


def set_function(compiler: Compiler, element: Element) -> Closure:
    """`set`: write to the model, to a variable, or into an object that a variable holds."""
    arguments = compiler.arguments(element)
    arguments.require("path")
    fixed = _fixed_path(arguments)
    body = compiler.content(element)
    plain = fixed is not None and not arguments.parameters and "target" not in arguments

    def call(frame: Frame, scope: Scope) -> Json:
        own = Scope(scope)
        if plain and fixed is not None:
            return put(frame, scope, fixed, evaluated(body(frame, own)))
        values = arguments.evaluate(frame, own)
        path = fixed or _path(values, "set")
        value = evaluated(body(frame, own))
        if "target" not in arguments:
            return put(frame, scope, path, value)
        name = text_argument(values, "target", "set").removeprefix("#")
        target = scope.get(name)
        if not isinstance(target, CONTAINERS):
            raise EvaluationError(f"set: the variable {name!r} of 'target' holds no object")
        if path.kind != "model":
            raise EvaluationError(f"set: {path.text!r} is not a path inside a variable")
        if isinstance(value, CONTAINERS):
            frame.run.task.admit(value)
        if write(target, path.steps, value, path.text):
            frame.run.task.mark_changed(frame, path, value)

    return call


def put(frame: Frame, scope: Scope, path: Path, value: Json) -> None:
    """Write what a path addresses."""
    task = frame.run.task
    if path.kind == "setting":
        raise EvaluationError(f"set: the setting {path.text!r} can only be read")
    if path.kind == "variable":
        if path.name in RESERVED:
            raise EvaluationError(f"set: the name {path.name!r} is reserved")
        scope.above(path.up).put(path.name, value)
        return
    steps = (*base_of(frame.cursor, path.up), *path.steps)
    if isinstance(value, CONTAINERS):
        task.admit(value)
    if write(task.model, steps, value, path.text):
        task.mark_changed(frame, path, value)


def _fixed_path(arguments: Arguments) -> Path | None:
    """The path of an attribute, or the empty one when none is given."""
    constant = arguments.constant("path")
    if constant is not None:
        return parse_path(constant)
    return None if "path" in arguments else parse_path("")


def _path(values: dict[str, Json], function: str) -> Path:
    return parse_path(text_argument(values, "path", function))


SELECTING: dict[str, Compile] = {
    "select": select,
    "select-all": select_many(False),
    "select-single": select_many(True),
    "set": set_function,
}
