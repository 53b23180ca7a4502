"""Special forms: calls whose arguments are not ordinary values (yaql.md sections 6 and 8).

Each form compiles a call to Python or returns None, which leaves the call to the library. The
arguments of forms are `condition => value` rules, names to bind, or values evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from . import ast
from .codes import Code
from .generator import Generator
from .kinds import CONTEXT, HOST, INTEGER, LAZY, NULL
from .scopes import DefinitionScope, LambdaScope, RichScope, Scope, constant_text, positional_name

Form = Callable[[Generator, ast.Call, Scope | None], Code | None]
MethodForm = Callable[[Generator, Code, ast.MethodCall, Scope | None], Code | None]


def _code(text: str, kinds: int | None = None) -> Code:
    return Code(text) if kinds is None else Code(text, kinds)


def _plain(arguments: tuple[ast.Argument, ...]) -> list[ast.Expression] | None:
    found = [item for item in arguments if isinstance(item, ast.Expression)]
    return found if len(found) == len(arguments) else None


def _pairs(arguments: tuple[ast.Argument, ...]) -> list[ast.Pair] | None:
    found = [item for item in arguments if isinstance(item, ast.Pair)]
    return found if len(found) == len(arguments) else None


def _in_order(
    arguments: tuple[ast.Argument, ...], names: tuple[str, ...]
) -> tuple[ast.Argument, ...]:
    """The arguments in the order of the parameters, those given by name included."""
    places: dict[str, ast.Argument] = {}
    for index, item in enumerate(arguments):
        name = (
            item.key.name
            if isinstance(item, ast.Pair) and isinstance(item.key, ast.Keyword)
            else ""
        )
        place = name or (names[index] if index < len(names) else "")
        if place not in names or place in places:
            return arguments
        places[place] = item.value if isinstance(item, ast.Pair) else item
    return tuple(places[name] for name in names if name in places)


def _let(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
    parts: list[str] = []
    for index, item in enumerate(node.arguments):
        if isinstance(item, ast.Pair):
            name = item.key.name if isinstance(item.key, ast.Keyword) else None
            if name is None or node.name == "with":
                return None
            parts.append(f"{name!r}: {gen.value(item.value, scope).text}")
        elif isinstance(item, ast.Expression):
            parts.append(f"{positional_name(index)!r}: {gen.value(item, scope).text}")
    return _code(f"y_let({{{', '.join(parts)}}})", CONTEXT)


def _def(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
    arguments = _plain(_in_order(node.arguments, ("name", "func")))
    if arguments is None or len(arguments) != 2:
        return None
    context, args, kwargs = gen.temporary(), gen.temporary(), gen.temporary()
    name = constant_text(arguments[0])
    name_text = gen.value(arguments[0], scope).text
    inner: Scope | None = DefinitionScope(scope, context, name) if name is not None else scope
    body = gen.value(arguments[1], RichScope(inner, args, kwargs))
    return _code(
        f"y_define({gen.rt}, {context} := y_Context(), {name_text}, "
        f"lambda *{args}, **{kwargs}: {body.text})",
        CONTEXT,
    )


_LONG_TABLE = 100
"""With more rules a function tries them one after the other: Python's parser limits nesting."""


def _rules(gen: Generator, pairs: list[ast.Pair], scope: Scope | None) -> str:
    if len(pairs) > _LONG_TABLE:
        rules = ", ".join(
            f"(lambda: {gen.value(pair.key, scope).text}, lambda: {gen.value(pair.value, scope).text})"
            for pair in pairs
        )
        return f"y_rules({rules})"
    pieces: list[str] = []
    for pair in pairs:
        condition = gen.value(pair.key, scope).text
        pieces.append(f"{gen.value(pair.value, scope).text} if {condition} else ")
    return f"({''.join(pieces)}None)"


def _switch(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
    if gen.library.is_legacy:
        if not node.arguments or not isinstance(node.arguments[0], ast.Expression):
            return None
        target = gen.value(node.arguments[0], scope)
        return _legacy_switch(gen, target, node.arguments[1:], scope)
    pairs = _pairs(node.arguments)
    return None if pairs is None else _code(_rules(gen, pairs, scope))


def _legacy_switch(
    gen: Generator, target: Code, arguments: tuple[ast.Argument, ...], scope: Scope | None
) -> Code | None:
    pairs = _pairs(arguments)
    if pairs is None:
        return None
    name = gen.temporary()
    body = _rules(gen, pairs, LambdaScope(scope, [name]))
    return _code(f"({name} := {target.text}, {body})[-1]")


def _legacy_switch_method(
    gen: Generator, target: Code, node: ast.MethodCall, scope: Scope | None
) -> Code | None:
    if not gen.library.is_legacy:
        return None
    return _legacy_switch(gen, target, node.arguments, scope)


def _thunks(gen: Generator, arguments: tuple[ast.Argument, ...], scope: Scope | None) -> str | None:
    plain = _plain(arguments)
    if plain is None:
        return None
    return ", ".join(f"lambda: {gen.value(item, scope).text}" for item in plain)


def _cases(function: str, kinds: int) -> Form:
    def form(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
        thunks = _thunks(gen, node.arguments, scope)
        return None if thunks is None else _code(f"{function}({thunks})", kinds)

    return form


def _switch_case(
    gen: Generator, target: Code, node: ast.MethodCall, scope: Scope | None
) -> Code | None:
    if target.kinds & HOST and target.kinds & INTEGER == 0:
        return None
    thunks = _thunks(gen, node.arguments, scope)
    if thunks is None:
        return None
    return _code(f"y_case({target.text}{', ' if thunks else ''}{thunks})")


def _coalesce(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
    plain = _plain(node.arguments)
    if plain is None:
        return None
    if not plain:
        return _code("None")
    if len(plain) > _LONG_TABLE:
        thunks = ", ".join(f"lambda: {gen.value(item, scope).text}" for item in plain)
        return _code(f"y_coalesce({thunks})")
    pieces: list[str] = []
    for item in plain[:-1]:
        code = gen.value(item, scope)
        if code.literal:
            if code.kinds == NULL:
                continue
            return _code(f"({''.join(pieces)}{code.text})")
        read, test = gen.twice(code)
        pieces.append(f"{read} if ({test}) is not None else ")
    return _code(f"({''.join(pieces)}{gen.value(plain[-1], scope).text})")


def _dict(gen: Generator, node: ast.Call, scope: Scope | None) -> Code | None:
    pairs = _pairs(node.arguments)
    return None if not pairs else gen.mapping(pairs, scope)


def _set_pairs(
    gen: Generator, target: Code, node: ast.MethodCall, scope: Scope | None
) -> Code | None:
    pairs = _pairs(node.arguments)
    if not pairs:
        return None
    slot = gen.slot("method", ("set", ("",), ()), node)
    return _code(f"{slot}({gen.rt}, {target.text}, None, {gen.mapping(pairs, scope).text})")


def _as(gen: Generator, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code | None:
    pairs = _pairs(node.arguments)
    if pairs is None or not gen.library.is_legacy:
        return None
    name = gen.temporary()
    inner = LambdaScope(scope, [name])
    parts = [f"'0': {name}"]
    for pair in pairs:
        key = constant_text(pair.value)
        if key is None:
            return None
        parts.append(f"{key!r}: {gen.value(pair.key, inner).text}")
    return _code(f"({name} := {target.text}, y_let({{{', '.join(parts)}}}))[-1]", CONTEXT)


SPECIAL_FORMS: dict[str, Form] = {
    "let": _let,
    "with": _let,
    "def": _def,
    "switch": _switch,
    "selectCase": _cases("y_first_case", INTEGER),
    "selectAllCases": _cases("y_cases", LAZY),
    "examine": _cases("y_examine", LAZY),
    "coalesce": _coalesce,
    "dict": _dict,
}
SPECIAL_METHODS: dict[str, MethodForm] = {
    "switchCase": _switch_case,
    "set": _set_pairs,
    "switch": _legacy_switch_method,
    "as": _as,
}
