"""Arithmetic and comparison in place, guarded by exact type checks.

A tree of `+ - * / mod`, sign and comparison over few operands becomes one guard and plain Python:

    ($acc * 31 + $i) mod 1000003
    ((acc * 31 + i) % 1000003 if type(acc) is type(i) is int else s3(rt, s2(rt, …), 1000003))

The chain `type(a) is type(b) is int` evaluates `a` and `b` before it compares anything, so operands
that are not variables are bound there by `:=`; at most two such operands fit, and they come first.
The size of a product of two variables is checked afterwards, which bounds repeated squaring.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import ast
from .codes import Code
from .generator import Generator
from .kinds import ANY, BOOLEAN, HOST, INTEGER, NULL, SCALAR, STRING, Kind
from .operators import RESULT_KINDS
from .scopes import Scope

_PYTHON = {"+": "+", "-": "-", "*": "*", "/": "//", "mod": "%"}
_COMPARISONS = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EQUALITIES = {"=": "==", "!=": "!="}
_OTHERS = frozenset(["in", "=~", "!~"])
_MAX_OPERANDS = 6


def is_arithmetic(gen: Generator, node: ast.Unary | ast.Binary) -> bool:
    """Whether this module compiles the node: a standard operator that no host has replaced."""
    operator = node.operator
    if isinstance(node, ast.Unary):
        return operator in {"-", "+"} and not gen.library.is_overridden(
            f"#unary_operator_{operator}", False
        )
    known = (
        operator in _PYTHON
        or operator in _COMPARISONS
        or operator in _EQUALITIES
        or operator in _OTHERS
    )
    name = "*equal" if operator == "=" else "*not_equal" if operator == "!=" else None
    return (
        known
        and not gen.library.is_overridden(f"#operator_{operator}", False)
        and (name is None or not gen.library.is_overridden(name, False))
    )


def compile_arithmetic(gen: Generator, node: ast.Unary | ast.Binary, scope: Scope | None) -> Code:
    """The code of an operator of this module."""
    if isinstance(node, ast.Binary):
        if node.operator in _OTHERS:
            left, right = gen.value(node.left, scope), gen.value(node.right, scope)
            pattern = right.constant_string
            if node.operator != "in" and pattern is not None:
                slot = gen.slot("match", (node.operator, pattern), node)
                return _new(f"{slot}({gen.rt}, {left.text})", BOOLEAN | HOST)
            return _slow(gen, node, left.text, right.text)
        if node.operator in _EQUALITIES:
            return _equality(gen, node, scope)
        if node.operator == "+":
            text = _concatenation(gen, node, scope)
            if text is not None:
                return text
    return _guarded(gen, node, scope)


def _new(text: str, kinds: Kind = ANY) -> Code:
    return Code(text, kinds)


def _slow(gen: Generator, node: ast.Binary, left: str, right: str) -> Code:
    slot = gen.slot("operator", (node.operator,), node)
    return _new(f"{slot}({gen.rt}, {left}, {right})", RESULT_KINDS.get(node.operator, ANY))


def _equality(gen: Generator, node: ast.Binary, scope: Scope | None) -> Code:
    python = _EQUALITIES[node.operator]
    left, right = gen.value(node.left, scope), gen.value(node.right, scope)
    if left.literal and right.literal:
        if (left.kinds | right.kinds) & ~SCALAR:
            return _slow(gen, node, left.text, right.text)
        # `==` here: Python warns about constants beside `is`.
        return _new(f"({left.text} {python} {right.text})", BOOLEAN)
    for one, other in ((left, right), (right, left)):
        if one.literal and one.kinds == NULL:
            return _new(f"({other.text} is {'not ' if python == '!=' else ''}None)", BOOLEAN)
        if one.literal and not one.kinds & ~SCALAR:
            return _new(f"({left.text} {python} {right.text})", BOOLEAN)
    if not left.kinds & ~SCALAR and not right.kinds & ~SCALAR:
        return _new(f"({left.text} {python} {right.text})", BOOLEAN)
    read_left, bind_left = gen.twice(left)
    read_right, bind_right = gen.twice(right)
    slot = gen.slot("operator", (node.operator,), node)
    return _new(
        f"({read_left} {python} {read_right} "
        f"if type({bind_left}) is type({bind_right}) in y_SCALARS "
        f"else {slot}({gen.rt}, {read_left}, {read_right}))",
        BOOLEAN,
    )


_LONG_ENOUGH_TO_COUNT = 4096


def _concatenation(gen: Generator, node: ast.Binary, scope: Scope | None) -> Code | None:
    """`+` where one operand is known to be a string."""
    if not (_is_text(gen, node.left) or _is_text(gen, node.right)):
        return None
    left, right = gen.value(node.left, scope), gen.value(node.right, scope)
    if left.kinds != STRING and right.kinds != STRING:
        return None
    slot = gen.slot("operator", ("+",), node)
    if left.literal and right.literal:
        return _new(f"{slot}({gen.rt}, {left.text}, {right.text})")
    unknown = left if right.kinds == STRING else right
    if unknown.kinds == STRING:
        result = gen.temporary()
        return _new(
            f"({result} if len({result} := {left.text} + {right.text}) < {_LONG_ENOUGH_TO_COUNT} "
            f"else y_checked_string({gen.rt}, {result}))",
            STRING,
        )
    if not unknown.kinds & STRING:
        return _new(f"{slot}({gen.rt}, {left.text}, {right.text})")
    if not (left.literal or right.literal):
        # The test evaluates both, whatever its result.
        read_left, bind_left = gen.twice(left)
        read_right, bind_right = gen.twice(right)
        result = gen.temporary()
        return _new(
            f"(({result} if len({result} := {read_left} + {read_right}) < {_LONG_ENOUGH_TO_COUNT} "
            f"else y_checked_string({gen.rt}, {result})) "
            f"if type({bind_left}) is type({bind_right}) is str "
            f"else {slot}({gen.rt}, {read_left}, {read_right}))",
            STRING,
        )
    read, bind = gen.twice(unknown)
    result = gen.temporary()
    both = f"{read} + {right.text}" if unknown is left else f"{left.text} + {read}"
    slow_left, slow_right = (read, right.text) if unknown is left else (left.text, read)
    return _new(
        f"(({result} if len({result} := {both}) < {_LONG_ENOUGH_TO_COUNT} "
        f"else y_checked_string({gen.rt}, {result})) if type({bind}) is str "
        f"else {slot}({gen.rt}, {slow_left}, {slow_right}))",
        # Adding anything else to a string fails, unless a host defines it.
        STRING,
    )


def _is_text(gen: Generator, node: ast.Expression, depth: int = 0) -> bool:
    known = gen.compiled(node)
    if known is not None:
        return known.kinds == STRING
    if isinstance(node, ast.Binary):
        # Longer chains are compiled in pieces, the lower ones first.
        return (
            node.operator == "+"
            and depth < 30
            and (_is_text(gen, node.left, depth + 1) or _is_text(gen, node.right, depth + 1))
        )
    return (
        isinstance(node, ast.Keyword)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        or (isinstance(node, ast.Call) and node.name == "str")
    )


@dataclass(slots=True)
class _Operand:
    code: Code
    read: str


class _Tree:
    """Splits a tree into operands and builds its fast and its slow text."""

    def __init__(self, gen: Generator, scope: Scope | None) -> None:
        self.gen = gen
        self.scope = scope
        self.operands: dict[int, _Operand] = {}
        self.bound = 0
        self.variables: dict[str, bool] = {}
        self.square = False
        self.possible = True

    def split(self, node: ast.Expression, top: bool) -> bool:
        """Collect operands; False when there are too many to guard at once."""
        if _is_inner(self.gen, node, top):
            assert isinstance(node, (ast.Unary, ast.Binary))
            if isinstance(node, ast.Unary):
                return self.split(node.operand, False)
            if node.operator == "*" and not (_is_number(node.left) or _is_number(node.right)):
                self.square = True
            return self.split(node.left, False) and self.split(node.right, False)
        code = self.gen.value(node, self.scope)
        read = code.text
        if not code.simple:
            self.bound += 1
            read = self.gen.temporary()
        if not code.kinds & INTEGER:
            self.possible = False
        if not code.literal:
            self.variables[read] = True
        self.operands[id(node)] = _Operand(code, read)
        return self.bound <= 2 and len(self.variables) <= _MAX_OPERANDS

    def fast(self, node: ast.Expression, top: bool) -> str:
        operand = self.operands.get(id(node))
        if operand is not None:
            return operand.read
        if isinstance(node, ast.Unary):
            return f"({node.operator}{self.fast(node.operand, False)})"
        assert isinstance(node, ast.Binary)
        python = _PYTHON.get(node.operator) or _COMPARISONS[node.operator]
        text = f"{self.fast(node.left, False)} {python} {self.fast(node.right, False)}"
        return text if top else f"({text})"

    def slow(self, node: ast.Expression) -> str:
        operand = self.operands.get(id(node))
        if operand is not None:
            return operand.read
        gen = self.gen
        if isinstance(node, ast.Unary):
            inner = self.slow(node.operand)
            return f"{gen.slot('unary', (node.operator,), node)}({gen.rt}, {inner})"
        assert isinstance(node, ast.Binary)
        left, right = self.slow(node.left), self.slow(node.right)
        return f"{gen.slot('operator', (node.operator,), node)}({gen.rt}, {left}, {right})"

    def guard(self) -> str:
        """`type(y1 := …) is type(y2 := …) is type(a) is int`; "" when all kinds are known."""
        tests: list[str] = []
        seen: set[str] = set()
        for operand in self.operands.values():
            if not operand.code.simple:
                tests.append(f"type({operand.read} := {operand.code.text})")
        for operand in self.operands.values():
            if (
                operand.code.simple
                and not operand.code.literal
                and operand.code.kinds != INTEGER
                and operand.read not in seen
            ):
                seen.add(operand.read)
                tests.append(f"type({operand.read})")
        return " is ".join([*tests, "int"]) if tests else ""


def _is_inner(gen: Generator, node: ast.Expression, top: bool) -> bool:
    if isinstance(node, ast.Unary):
        return is_arithmetic(gen, node)
    if not isinstance(node, ast.Binary) or not is_arithmetic(gen, node):
        return False
    return node.operator in _PYTHON or (top and node.operator in _COMPARISONS)


def _is_number(node: ast.Expression) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _guarded(gen: Generator, node: ast.Unary | ast.Binary, scope: Scope | None) -> Code:
    tree = _Tree(gen, scope)
    fused = not _has_many_operators(node) and tree.split(node, True)
    if not fused or not tree.possible:
        # Reuse the code of the attempt: compiling it again at each level would cost 2 ** depth.
        with gen.replacing({key: operand.code for key, operand in tree.operands.items()}):
            tree = _Tree(gen, scope)
            _shallow(tree, node)
    kinds = _result_kinds(node)
    if not tree.possible:
        # The operands are not bound to variables here: pass their texts to the slow form.
        for operand in tree.operands.values():
            operand.read = operand.code.text
        return _new(tree.slow(node), kinds)
    guard = tree.guard()
    fast = tree.fast(node, True)
    if not guard and not any(not operand.code.literal for operand in tree.operands.values()):
        return _new(tree.slow(node), kinds)
    if tree.square:
        result = gen.temporary()
        fast = (
            f"({result} if -0xffffffffffffffff < ({result} := {fast}) < 0xffffffffffffffff "
            f"else y_checked_integer({gen.rt}, {result}))"
        )
    if not guard:
        return _new(f"({fast})", INTEGER if kinds & INTEGER else BOOLEAN)
    return _new(f"({fast} if {guard} else {tree.slow(node)})", kinds)


def _has_many_operators(node: ast.Expression) -> bool:
    # The fast and the slow text both hold the tree: keep it small.
    count = 0
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Binary):
            count += 1
            if count > 8:
                return True
            stack += (current.left, current.right)
        elif isinstance(current, ast.Unary):
            count += 1
            stack.append(current.operand)
    return False


def _shallow(tree: _Tree, node: ast.Unary | ast.Binary) -> None:
    """Only the operator itself; its operands are compiled on their own."""
    children = [node.operand] if isinstance(node, ast.Unary) else [node.left, node.right]
    for child in children:
        code = tree.gen.value(child, tree.scope)
        read = code.text if code.simple else tree.gen.temporary()
        if not code.kinds & INTEGER:
            tree.possible = False
        tree.operands[id(child)] = _Operand(code, read)
    if isinstance(node, ast.Binary) and node.operator == "*":
        tree.square = not (_is_number(node.left) or _is_number(node.right))


def _result_kinds(node: ast.Unary | ast.Binary) -> Kind:
    if isinstance(node, ast.Unary):
        return ANY
    return RESULT_KINDS.get(node.operator, ANY)
