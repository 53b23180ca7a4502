"""Library calls that are compiled in place for the frequent type of their argument.

Only calls whose meaning a host has not replaced come here. Each template returns None when the
call has another shape; then it goes through its site as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import ast
from .codes import Arguments, Code
from .values import ANY, BOOLEAN, FUNCTION, HOST, INTEGER, LAZY, LIST, SCALAR, STRING

if TYPE_CHECKING:
    from .codegen import ExpressionCodegen

_Function = Callable[["ExpressionCodegen", ast.Call, "Arguments"], "Code | None"]
_Method = Callable[["ExpressionCodegen", "Code", ast.MethodCall, "Arguments"], "Code | None"]


def _code(text: str, kinds: int) -> Code:
    return Code(text, kinds)


def function(gen: ExpressionCodegen, node: ast.Call, arguments: Arguments) -> Code | None:
    """The code in place of a function call, or None."""
    template = _FUNCTIONS.get(node.name)
    if template is None or any(arguments.shape):
        return None
    return template(gen, node, arguments)


def method(
    gen: ExpressionCodegen, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    """The code in place of a method call, or None."""
    template = _METHODS.get(node.name)
    if template is None or any(arguments.shape):
        return None
    return template(gen, target, node, arguments)


def _str(gen: ExpressionCodegen, node: ast.Call, arguments: Arguments) -> Code | None:
    if len(arguments.codes) != 1:
        return None
    argument = arguments.codes[0]
    if argument.kinds == STRING:
        return argument
    slot = gen.slot("function", ("str", ("",)), node)
    read, bind = gen.twice(argument)
    return _code(
        f"(str({read}) if type({bind}) is int and -0xffffffff < {read} < 0xffffffff "
        f"else {slot}({gen.rt}, {read}))",
        STRING,
    )


def _len_of(gen: ExpressionCodegen, node: ast.Call | ast.MethodCall, target: Code) -> Code | None:
    is_method = isinstance(node, ast.MethodCall)
    if target.kinds & ~(LIST | STRING) == 0:
        return _code(f"len({target.text})", INTEGER)
    read, bind = gen.twice(target)
    if is_method:
        slow = f"{gen.slot('method', ('len', (), ()), node)}({gen.rt}, {read}, None)"
    else:
        slow = f"{gen.slot('function', ('len', ('',)), node)}({gen.rt}, {read})"
    return _code(f"(len({read}) if type({bind}) is tuple else {slow})", INTEGER | HOST)


def _len(gen: ExpressionCodegen, node: ast.Call, arguments: Arguments) -> Code | None:
    return _len_of(gen, node, arguments.codes[0]) if len(arguments.codes) == 1 else None


def _len_method(
    gen: ExpressionCodegen, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    return _len_of(gen, node, target) if not arguments.codes else None


def _list(gen: ExpressionCodegen, node: ast.Call, arguments: Arguments) -> Code | None:
    # Lazy sequences are expanded by the function; anything else is just put in.
    if any(code.kinds & (LAZY | FUNCTION) for code in arguments.codes):
        return None
    return gen.list_of(arguments.codes)


def _bool(gen: ExpressionCodegen, node: ast.Call, arguments: Arguments) -> Code | None:
    if len(arguments.codes) != 1 or gen.library.is_legacy:
        return None
    return _code(f"bool({arguments.codes[0].text})", BOOLEAN)


def _get(
    gen: ExpressionCodegen, target: Code, node: ast.MethodCall, arguments: Arguments
) -> Code | None:
    codes = arguments.codes
    if (
        target.literal
        or not 1 <= len(codes) <= 2
        or not all(code.simple or code.literal for code in codes[1:])
    ):
        return None
    key = codes[0]
    mapping, bind_mapping = gen.twice(target)
    read_key, bind_key = gen.twice(key)
    slot = gen.slot("method", ("get", ("",) * len(codes), ()), node)
    default = f", {codes[1].text}" if len(codes) == 2 else ""
    test = f"type({bind_mapping}) {'is y_Frozen' if gen.frozen_data else 'in y_MAPPINGS'}"
    if key.kinds & ~SCALAR or not key.simple:
        # Both operands are bound here, so both must be evaluated whatever the first test says.
        test = f"({test}) & (type({bind_key}) in y_SCALARS)"
    return _code(
        f"({mapping}.get({read_key}{default}) if {test} "
        f"else {slot}({gen.rt}, {mapping}, None, {read_key}{default}))",
        ANY,
    )


_FUNCTIONS: dict[str, _Function] = {"str": _str, "len": _len, "list": _list, "bool": _bool}
_METHODS: dict[str, _Method] = {"len": _len_method, "get": _get}
