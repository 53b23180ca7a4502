"""Report code that is valid but rarely intended (yaql.md, "Beyond upstream").

    for finding in lint("$.total / 2 = true", variables={"", "limit"}):
        print(finding.code, finding.position, finding.message)

Nothing is evaluated; findings are based on the text alone.

    integer-division      both operands of `/` are integers: the quotient is rounded down
    boolean-number        a boolean compared with a number: `1 = true` holds
    chained-comparison    `a < b < c` compares a boolean with c
    duplicate-key         a mapping literal names a key twice; the last one wins
    legacy-lookup         `$d[key]` of the legacy flavour filters, it does not look up
    no-meaning            grammatical, but fails for any data
    unknown-function      no such function or method in the library
    undefined-variable    nothing binds the variable: it is null
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from . import ast
from .forms import SPECIAL_FORMS, SPECIAL_METHODS
from .grammar import STANDARD, Grammar
from .library import Library
from .parser import parse
from .scopes import constant_text
from .standard import standard_library

_COMPARISONS = frozenset(["<", "<=", ">", ">=", "=", "!=", "in"])
_INTEGER_FUNCTIONS = frozenset(["int", "len", "sign", "bitwiseAnd", "bitwiseOr", "bitwiseXor"])
_INTEGER_METHODS = frozenset(["len", "count", "indexOf", "lastIndexOf"])
_FORMS = frozenset([*SPECIAL_FORMS, *SPECIAL_METHODS])


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `code` for programs, `message` for people, `position` an offset in the text."""

    code: str
    position: int
    message: str


def lint(
    source: str | ast.Expression,
    *,
    library: Library | None = None,
    grammar: Grammar = STANDARD,
    variables: Collection[str] | None = None,
) -> list[Finding]:
    """The findings of an expression in the order of its text.

    `library`: where names are looked up (default: the current flavour's standard library).
    `variables`: the names without dollar that the host binds ("" for `$`); None: no check.
    Raises `YaqlParsingException` for a text that is not an expression.
    """
    tree = parse(source, grammar) if isinstance(source, str) else source
    found = list(_findings(tree, library if library is not None else standard_library()))
    if variables is not None:
        found += _undefined(tree, frozenset(variables))
    return sorted(found, key=lambda finding: finding.position)


def is_accident(tree: ast.Expression | None) -> bool:
    """Whether an expression is an operation on bare words (`my-app`), which was meant as text."""
    if not isinstance(tree, (ast.Binary, ast.Unary)):
        return False
    words = False
    for node in ast.walk(tree):
        if isinstance(node, (ast.Variable, ast.Call, ast.MethodCall, ast.TypeLiteral)):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return False
        words = words or isinstance(node, ast.Keyword)
    return words


def _findings(tree: ast.Expression, library: Library) -> Iterator[Finding]:
    # A function that `def` makes anywhere in the text counts as known everywhere in it.
    defined = {
        constant_text(node.arguments[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.name == "def" and node.arguments
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Binary):
            yield from _binary(node)
        elif isinstance(node, ast.MapLiteral):
            yield from _duplicates(node.items)
        elif isinstance(node, ast.Dot):
            yield Finding(
                "no-meaning", node.right.start, "a dot must be followed by a name or a call"
            )
        elif isinstance(node, ast.Call):
            if node.name == "dict":
                yield from _duplicates(node.arguments)
            if node.name not in _FORMS and node.name not in defined:
                yield from _unknown(library, node.name, False, node.start)
        elif isinstance(node, ast.MethodCall):
            if node.name not in _FORMS:
                yield from _unknown(library, node.name, True, node.target.end)
        elif isinstance(node, ast.Index) and library.is_legacy and len(node.arguments) == 1:
            key = constant_text(node.arguments[0])
            if key is not None:
                yield Finding(
                    "legacy-lookup",
                    node.arguments[0].start,
                    f"[{key}] keeps every element in this format: write .get({key})",
                )


def _binary(node: ast.Binary) -> Iterator[Finding]:
    if node.operator == "/" and _is_integer(node.left) and _is_integer(node.right):
        yield Finding(
            "integer-division",
            node.at,
            "the quotient of integers is rounded down: write float(…) around one for a fraction",
        )
    if node.operator in {"=", "!="}:
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if _is_boolean(one) and _is_integer(other):
                yield Finding(
                    "boolean-number", node.at, "true equals 1 and false equals 0: write bool(…)"
                )
    if (
        node.operator in _COMPARISONS
        and isinstance(node.left, ast.Binary)
        and node.left.operator in _COMPARISONS - {"=", "!="}
        and node.operator not in {"=", "!="}
    ):
        yield Finding(
            "chained-comparison",
            node.at,
            f"this compares the result of {node.left.operator}: write two comparisons, joined by and",
        )


def _is_integer(node: ast.Node) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Call):
        return node.name in _INTEGER_FUNCTIONS
    if isinstance(node, ast.MethodCall):
        return node.name in _INTEGER_METHODS and not node.safe
    if isinstance(node, ast.Unary):
        return node.operator in {"-", "+"} and _is_integer(node.operand)
    return (
        isinstance(node, ast.Binary)
        and node.operator in {"+", "-", "*", "/", "mod"}
        and _is_integer(node.left)
        and _is_integer(node.right)
    )


def _is_boolean(node: ast.Node) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is bool
    return (isinstance(node, ast.Unary) and node.operator == "not") or (
        isinstance(node, ast.Binary) and node.operator in _COMPARISONS
    )


def _duplicates(items: tuple[ast.Argument, ...]) -> Iterator[Finding]:
    seen: set[object] = set()
    for item in items:
        if not isinstance(item, ast.Pair):
            continue
        if isinstance(item.key, ast.Keyword):
            key: object = item.key.name
        elif isinstance(item.key, ast.Constant):
            key = item.key.value
        else:
            continue
        if key in seen:
            yield Finding("duplicate-key", item.key.start, f"the key {key} is given twice")
        seen.add(key)


def _unknown(library: Library, name: str, method: bool, position: int) -> Iterator[Finding]:
    if library.has(name, method):
        return
    hint = library.suggest(name, method)
    what = "method" if method else "function"
    yield Finding(
        "unknown-function", position, f"unknown {what} {name}{f' ({hint})' if hint else ''}"
    )


def _undefined(tree: ast.Expression, known: frozenset[str]) -> list[Finding]:
    # Numbered variables belong to lambdas; a name bound by let, as or unpack counts everywhere.
    bound = set(known)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.MethodCall)):
            for item in node.arguments:
                if isinstance(item, ast.Pair):
                    for part in (item.key, item.value):
                        bound.update(filter(None, [constant_text(part)]))
                elif isinstance(node, ast.MethodCall) and node.name == "unpack":
                    bound.update(filter(None, [constant_text(item)]))
    return [
        Finding(
            "undefined-variable", node.start, f"${node.name} is not defined here: its value is null"
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Variable)
        and node.name
        and not node.name.isdecimal()
        and node.name not in bound
    ]
