"""Lists, mappings and their members to Python expressions."""

from __future__ import annotations

from . import ast
from .codes import Arguments, Code
from .generator import Generator
from .kinds import INTEGER, LIST, NULL, STRING
from .scopes import Scope
from .signatures import Lazy


def index(gen: Generator, node: ast.Index, scope: Scope | None) -> Code:
    """`target[key]`, `target[key, default]`."""
    target = gen.value(node.target, scope)
    items = [item for item in node.arguments if isinstance(item, ast.Expression)]
    if len(items) != len(node.arguments) or not items or len(items) > 2:
        slot = gen.runtime_slot("no_evaluation", node)
        return Code(f"{slot}({gen.rt}, '#indexer')")
    if gen.library.is_overridden("#indexer", False):
        codes = "".join(f", {gen.value(item, scope).text}" for item in items)
        shape = ("",) * (len(items) + 1)
        slot = gen.slot("function", ("#indexer", shape), node)
        return Code(f"{slot}({gen.rt}, {target.text}{codes})")
    if len(items) == 2:
        if gen.library.is_legacy:
            slot = gen.runtime_slot("no_evaluation", node)
            return Code(f"{slot}({gen.rt}, '#indexer')")
        key, default = (gen.value(item, scope).text for item in items)
        slot = gen.runtime_slot("index_or_default", node)
        return Code(f"{slot}({gen.rt}, {target.text}, {key}, {default})")
    if gen.library.is_legacy:
        return _legacy_index(gen, node, target, items[0], scope)
    key_code = gen.value(items[0], scope)
    slot = gen.runtime_slot("index", node)
    if key_code.literal and key_code.kinds == INTEGER and target.kinds & LIST:
        # A target of another kind would make Python warn about the subscript.
        read, test = gen.twice(target)
        # A value that was just computed (by `split`, for example) is often not final.
        lists = "is tuple" if gen.frozen_data and target.simple else "in y_LISTS"
        return Code(
            f"({read}[{key_code.text}] if type({test}) {lists} "
            f"and len({read}) > {key_code.text} "
            f"else {slot}({gen.rt}, {read}, {key_code.text}))"
        )
    if target.literal or key_code.kinds & (INTEGER | STRING) == 0:
        return Code(f"{slot}({gen.rt}, {target.text}, {key_code.text})")
    return _index_in_place(gen, slot, target, key_code)


def _index_in_place(gen: Generator, slot: str, target: Code, key: Code) -> Code:
    """`target[key]` for an integer in a list and a word in a mapping."""
    read, test = gen.twice(target)
    if key.simple:
        name, steps = key.text, ""
    else:
        # The key is evaluated after the target and before any test.
        name = gen.temporary()
        steps = f"{test}, {name} := {key.text}, "
        test = read
    lists, mappings = "in y_LISTS", "in y_MAPPINGS"
    if gen.frozen_data and target.simple:
        lists, mappings = "is tuple", "is y_Frozen"
    in_list = f"type({name}) is int and 0 <= {name} < len({read})"
    in_mapping = f"type({name}) is str and {name} in {read}"
    if key.kinds == INTEGER:
        found = f"type({test}) {lists} and 0 <= {name} < len({read})"
    elif key.kinds == STRING:
        found = f"type({test}) {mappings} and {name} in {read}"
    else:
        found = (
            f"({in_list}) if type({test}) {lists} "
            f"else ({in_mapping}) if type({read}) {mappings} else False"
        )
    choice = f"{read}[{name}] if ({found}) else {slot}({gen.rt}, {read}, {name})"
    return Code(f"({steps}{choice})[-1]" if steps else f"({choice})")


def _legacy_index(
    gen: Generator, node: ast.Index, target: Code, item: ast.Expression, scope: Scope | None
) -> Code:
    each = gen.lambda_argument(item, Lazy(1), scope).text
    slot = gen.runtime_slot("legacy_index", node)
    # Pass a key whose evaluation is cheap and has no effects.
    key = f", {each}" if isinstance(item, (ast.Keyword, ast.Constant, ast.Variable)) else ""
    return Code(f"{slot}({gen.rt}, {target.text}, {gen.outer_dollar(scope)}, {each}{key})")


def list_literal(gen: Generator, node: ast.ListLiteral, scope: Scope | None) -> Code:
    """`[a, b]`; of constants a constant."""
    if any(isinstance(item, ast.Pair) for item in node.items):
        return Code(f"{gen.runtime_slot('no_evaluation', node)}({gen.rt}, '#list')")
    codes = [
        Code("None", NULL, literal=True)
        if isinstance(item, ast.Omitted)
        else gen.value(item, scope)
        for item in node.items
    ]
    if gen.library.is_overridden("#list", False):
        slot = gen.slot("function", ("#list", ("",) * len(codes)), node)
        return Code(f"{slot}({gen.rt}{Arguments(codes).joined()})")
    if all(code.literal for code in codes):
        inner = ", ".join(code.text for code in codes)
        # Constants make a final value, which Python stores as a constant.
        return Code(f"({inner}{',' if len(codes) == 1 else ''})", LIST, literal=True)
    return gen.list_of(codes)


def map_literal(gen: Generator, node: ast.MapLiteral, scope: Scope | None) -> Code:
    """`{a => b}`."""
    if not all(isinstance(item, ast.Pair) for item in node.items):
        return Code(f"{gen.runtime_slot('no_evaluation', node)}({gen.rt}, '#map')")
    made = gen.mapping([item for item in node.items if isinstance(item, ast.Pair)], scope)
    if gen.library.is_overridden("#map", False):
        slot = gen.slot("function", ("#map", ("",)), node)
        return Code(f"{slot}({gen.rt}, {made.text})")
    return made
