"""Advice about the code of one class as it is written: no other class is looked at (section 28).

Errors are the readers' (`statements`, `declarations`); here is what can be read and probably means
something else than its author thinks: text taken for an expression and the reverse, variables that
nothing assigns, comparisons whose result is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import flatten, scalars, values_of
from vetro.muranopl.syntax.declarations import (
    ArgumentDeclaration,
    ClassDeclaration,
    MetaDeclaration,
    MethodDeclaration,
    PropertyDeclaration,
)
from vetro.muranopl.syntax.expressions import parse_expression
from vetro.muranopl.syntax.findings import Finding, Sink, did_you_mean
from vetro.muranopl.syntax.statements import Statement, parse_body
from vetro.muranopl.syntax.targets import parse_target
from vetro.muranopl.syntax.yamltree import Mapping, Node, Scalar, Sequence
from vetro.yaql import YaqlException, ast
from vetro.yaql.linting import is_accident

_COMPARISONS = frozenset(["=", "!=", "<", ">", "<=", ">="])
_OWN_VARIABLES = frozenset(["", "this", "_", *(str(number) for number in range(10))])
_NAMED_GROUP = re.compile(r"\(\?P<(\w+)>")
_MOCKS = frozenset(["inject", "withOriginal"])


def check_code(declaration: ClassDeclaration) -> list[Finding]:
    """Every error in the bodies of a class, and advice about its code."""
    sink = Sink(collects=True)
    _metas(declaration.meta, sink)
    for item in declaration.properties.values():
        _member(item, sink)
    for method in declaration.methods.values():
        errors = len(sink.errors)
        _metas(method.meta, sink)
        for argument in method.arguments:
            _member(argument, sink)
        if method.body is not None:
            _body(method, parse_body(method.body, declaration.namespaces, sink), sink)
        for error in sink.errors[errors:]:
            error.position = error.position or method.position
    found = [Finding.of(error, declaration.position) for error in sink.errors]
    return [*found, *sink.advice]


# -- members -------------------------------------------------------------------------------------


def _metas(metas: list[MetaDeclaration], sink: Sink) -> None:
    _values([item.values for item in metas if item.values is not None], sink)


def _member(item: PropertyDeclaration | ArgumentDeclaration, sink: Sink) -> None:
    """A property or an argument."""
    _contract(item.contract, sink)
    if item.default is not None:
        _values([item.default], sink)
    _metas(item.meta, sink)


def _contract(contract: Node, sink: Sink) -> None:
    for item in scalars([contract]):
        reason = _refusal(item)
        if reason is not None:
            message = f"{item.value!r} is not a contract: {reason}"
            sink.advise("W048", message, item.position)
        elif _is_quoted_expression(item):
            sink.advise(
                "W049",
                f"{item.value!r} in quotes is the one text that is allowed: write it without",
                item.position,
            )


def _body(method: MethodDeclaration, body: list[Statement], sink: Sink) -> None:
    statements = flatten(body)
    for statement in statements:
        values = values_of(statement)
        if isinstance(statement, st.Assign):
            values.remove(statement.target)
            target = parse_target(statement.target)
            if target.is_this and not target.path:
                text = statement.target.value
                sink.advise("E204", f"{text} cannot be assigned", statement.position)
        elif isinstance(statement, st.Evaluate):
            _comparison(statement.expression, sink)
        _values(values, sink)
    assert method.body is not None
    _variables(method.body, [item.name for item in method.arguments], sink)


def _comparison(scalar: Scalar, sink: Sink) -> None:
    tree = scalar.expression
    if isinstance(tree, ast.Binary) and tree.operator in _COMPARISONS:
        name = str(scalar.value).partition(tree.operator)[0].strip()
        message = f"the result is dropped; an assignment is `{name}: …`"
        sink.advise("W205", message, scalar.position)


# -- expressions and text ------------------------------------------------------------------------


def _values(nodes: list[Node], sink: Sink) -> None:
    for scalar in scalars(nodes):
        reason = _refusal(scalar)
        if reason is not None:
            message = f"{scalar.value!r} is not an expression: {reason}"
            sink.advise("W202", message, scalar.position)
        elif scalar.is_expression and not _is_tagged(scalar) and is_accident(scalar.expression):
            sink.advise(
                "W203",
                f"{scalar.value!r} is an expression, not text: quote it if it is meant as text",
                scalar.position,
            )


def _refusal(scalar: Scalar) -> str | None:
    """Why a text that looks like an expression is none; None when it does not look so."""
    text = scalar.value
    if scalar.is_expression or not scalar.plain or not isinstance(text, str) or "$" not in text:
        return None
    if _is_tagged(scalar):
        return None  # an error of its own
    try:
        parse_expression(text)
    except YaqlException as error:
        return str(error.message)
    except RecursionError:
        return "nested too deep"
    return None


def _is_tagged(scalar: Scalar) -> bool:
    """Whether a tag says what the scalar is: `!yaql`."""
    return scalar.source.text.startswith("!", scalar.start)


def _is_quoted_expression(scalar: Scalar) -> bool:
    """Whether a quoted text is wholly an expression of `$`, which the quotes turn into text."""
    text = scalar.value
    if scalar.plain or scalar.is_expression or not isinstance(text, str) or "$" not in text:
        return False
    if _is_tagged(scalar):
        return False
    try:
        tree = parse_expression(text)
    except (YaqlException, RecursionError):
        return False
    while isinstance(tree, (ast.MethodCall, ast.Property)):
        tree = tree.target
    return isinstance(tree, ast.Variable)


# -- variables -----------------------------------------------------------------------------------


def _variables(body: Node, arguments: Iterable[str], sink: Sink) -> None:
    """W204 for each variable of a method that is not an argument and never assigned in it."""
    expressions = [scalar for scalar in scalars([body]) if scalar.is_expression]
    trees = [list(ast.walk(scalar.expression)) for scalar in expressions]
    groups = {name for parts in trees for part in parts for name in _named_groups(part)}
    known = {*_OWN_VARIABLES, *arguments, *_assigned(body), *groups}
    for scalar, parts in zip(expressions, trees, strict=True):
        if any(isinstance(part, ast.Call) and part.name in _MOCKS for part in parts):
            continue  # its variables are those of the mocked method and its caller
        bound = {name for part in parts for name in _bound(part)}
        for name in dict.fromkeys(part.name for part in parts if isinstance(part, ast.Variable)):
            if name not in known and name not in bound:
                hint = did_you_mean(name, known - _OWN_VARIABLES)
                message = f"nothing assigns ${name}: it is null" + (f"; {hint}" if hint else "")
                sink.advise("W204", message, scalar.position)


def _bound(part: ast.Node) -> list[str]:
    """Names that a part of an expression defines for another: `let(x => 1)`, `unpack(a, b)`."""
    if isinstance(part, ast.Pair):
        return [item.name for item in (part.key, part.value) if isinstance(item, ast.Keyword)]
    if isinstance(part, ast.MethodCall) and part.name == "unpack":
        return [item.name for item in part.arguments if isinstance(item, ast.Keyword)]
    return []


def _named_groups(part: ast.Node) -> list[str]:
    """The named groups of a regular expression: its matches define variables of these names.

    The expression may be compiled in one statement and searched for in another.
    """
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return _NAMED_GROUP.findall(part.value)
    return []


def _assigned(body: Node) -> set[str]:
    """Variables that a body assigns, in statements that cannot be read as well."""
    names: set[str] = set()
    stack: list[Node] = [body]
    while stack:
        node = stack.pop()
        if isinstance(node, Sequence):
            stack.extend(node.items)
        if not isinstance(node, Mapping):
            continue
        for name, key, value in node.entries():
            stack.append(value)
            tree = key.expression
            if isinstance(tree, ast.MethodCall):
                tree = tree.target
            while isinstance(tree, (ast.Property, ast.Index)):
                tree = tree.target
            if isinstance(tree, ast.Variable):
                names.add(tree.name)
            elif name in ("For", "As") and isinstance(value, Scalar):
                names.add(str(value.value).removeprefix("$"))
    return names
