"""All load-time findings of a package at once, and the loader's lint (muranopl.md sections 1, 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.yaql import ast

from . import metadata
from .contractplan import build_contract
from .declarations import ClassDeclaration, Finding
from .errors import MuranoError, Position
from .expressions import ClassScope
from .statements import parse_body
from .traces import CodeUnit
from .types import MuranoPackage, MuranoType
from .yamltree import Node, Scalar, Sequence

if TYPE_CHECKING:
    from .runtime import Runtime


def check_package(runtime: Runtime, package: MuranoPackage) -> list[Finding]:
    """Findings of every class of a package, in order of file and line."""
    findings: list[Finding] = []
    before = len(runtime.findings)
    for name in package.class_files:
        try:
            type_ = runtime.own_type(package, name)
        except MuranoError as error:
            findings.append(_finding(error, package, name))
            continue
        if type_ is not None:
            findings.extend(check_type(type_))
    findings.extend(runtime.findings[before:])
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda item: (item.position.file, item.position.line, item.code))


def check_type(type_: MuranoType) -> list[Finding]:
    """Every error of a class's members, not just the first, and advice."""
    findings: list[Finding] = []
    scope = ClassScope(type_, CodeUnit.create(type_, type_.full_name))

    def guarded(action: object, *args: object) -> None:
        try:
            action(*args)  # type: ignore[operator]
        except MuranoError as error:
            findings.append(_finding(error, type_.package, type_.name))

    for item in type_.properties.values():
        if item.native is None:
            guarded(build_contract, item.contract, scope)
    for method in type_.methods.values():
        if method.native is not None:
            continue
        for argument in method.arguments or []:
            guarded(build_contract, argument.contract, scope)
        guarded(parse_body, method.body, type_.namespaces)
    findings.extend(metadata.check_metas(type_))
    if not findings:
        guarded(lambda: type_.assembly)
    findings.extend(_accidents(type_.declaration))
    return findings


def _finding(error: MuranoError, package: MuranoPackage, name: str) -> Finding:
    place = error.position or Position(
        f"{package.name}/Classes/{package.class_files.get(name, '')}", 1, 1
    )
    text = f"{error.message}; {error.hint}" if error.hint else error.message
    return Finding(f"E-{type(error).__name__}", text, place)


# -- expressions that were meant as text ---------------------------------------------------------


def _accidents(declaration: ClassDeclaration) -> list[Finding]:
    nodes: list[Node] = []
    for item in declaration.properties.values():
        if item.default is not None:
            nodes.append(item.default)
    for method in declaration.methods.values():
        nodes.extend(a.default for a in method.arguments if a.default is not None)
        if method.body is not None:
            nodes.append(method.body)
    findings: list[Finding] = []
    for scalar in _scalars(nodes):
        if scalar.is_expression and scalar.plain and _looks_accidental(scalar.expression):
            findings.append(
                Finding(
                    "W-expression",
                    f"{scalar.value!r} is an expression, not text; quote it if it is meant as text",
                    scalar.position,
                )
            )
    return findings


def _scalars(nodes: list[Node]) -> list[Scalar]:
    found: list[Scalar] = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, Scalar):
            found.append(node)
        elif isinstance(node, Sequence):
            stack.extend(node.items)
        else:
            for key, value in node.pairs:
                stack.extend((key, value))
    return found


def _looks_accidental(tree: ast.Expression) -> bool:
    """True for an operation on bare words: `a-b`, `8080/tcp`."""
    if not isinstance(tree, ast.Binary):
        return False
    words = 0
    for node in ast.walk(tree):
        if isinstance(node, (ast.Variable, ast.Call, ast.MethodCall, ast.TypeLiteral)):
            return False
        if isinstance(node, ast.Keyword):
            words += 1
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return False
    return words > 0
