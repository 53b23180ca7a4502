"""All load-time findings of a package at once, and the loader's lint (muranopl.md sections 1, 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.muranopl.classes.types import Method, MuranoPackage, MuranoType
from vetro.muranopl.compiler.classscope import ClassScope
from vetro.muranopl.contracts.plan import build_contract
from vetro.muranopl.runtime import metadata
from vetro.muranopl.runtime.inline_caches import named_type
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import flatten
from vetro.muranopl.syntax.declarations import ClassDeclaration, Finding
from vetro.muranopl.syntax.statements import Statement, Switch, parse_body
from vetro.muranopl.syntax.yamltree import Mapping, Node, Scalar, Sequence
from vetro.muranopl.values.errors import MuranoError, Position
from vetro.muranopl.values.records import field_names
from vetro.yaql import ast

from .known_classes import classes_of_arguments
from .namecheck import Surroundings, Values, own_exceptions, thrown_names, unknown_names

if TYPE_CHECKING:
    from vetro.muranopl.host.runtime import Runtime


def check_package(runtime: Runtime, package: MuranoPackage) -> list[Finding]:
    """Findings of every class of a package, in order of file and line."""
    findings: list[Finding] = []
    before = len(runtime.findings)
    broken = runtime.load_errors = []
    types: list[MuranoType] = []
    try:
        for name in package.class_files:
            try:
                type_ = runtime.own_type(package, name)
            except MuranoError as error:
                findings.append(_finding(error, package, name))
                continue
            if type_ is not None:
                types.append(type_)
                findings.extend(check_type(type_))
    finally:
        runtime.load_errors = None
    findings.extend(_names(types))
    findings.extend(runtime.findings[before:])
    for error in broken:
        finding = _finding(error, package, "")
        findings.append(Finding("E-member", finding.message, finding.position))
    _forget(package, {error.position.file for error in broken if error.position is not None})
    unique: dict[tuple[str, Position], Finding] = {}
    for finding in findings:
        unique.setdefault((finding.message, finding.position), finding)
    return sorted(
        unique.values(), key=lambda item: (item.position.file, item.position.line, item.code)
    )


def _forget(package: MuranoPackage, files: set[str]) -> None:
    """Remove the readable parts of classes with mistakes, so that they are not used."""
    for known in (package.declared, package.types):
        for name in [name for name, one in known.items() if _file_of(one) in files]:
            del known[name]
    if files:
        package.found.clear()


def _file_of(item: ClassDeclaration | MuranoType) -> str:
    declaration = item if isinstance(item, ClassDeclaration) else item.declaration
    return declaration.position.file


def _names(types: list[MuranoType]) -> list[Finding]:
    """Undefined names, in classes whose ancestors are all known."""
    findings: list[Finding] = []
    thrown = frozenset(name for type_ in types for name in thrown_names(_statements(type_)))
    for type_ in types:
        descendants = [item for item in types if item is not type_ and item.is_compatible(type_)]
        around = Surroundings(descendants, types, thrown)
        body = _statements(type_)
        assigned = frozenset(
            node.name
            for item in body
            if isinstance(item, st.Assign) and item.target.is_expression
            for node in ast.walk(item.target.expression)
            if isinstance(node, ast.Property)
        )
        findings.extend(unknown_names(type_, _groups(type_), assigned, around))
        findings.extend(own_exceptions(type_, body, around))
    return findings


def _statements(type_: MuranoType) -> list[Statement]:
    return [item for method in type_.methods.values() for item in _body(type_, method)]


def _body(type_: MuranoType, method: Method) -> list[Statement]:
    if method.native is not None:
        return []
    try:
        return flatten(parse_body(method.body, type_.namespaces))
    except MuranoError:
        return []  # its error is already a finding


def _groups(type_: MuranoType) -> list[Values]:
    """The expressions of a class, grouped by the meaning of `$` in them."""
    contracts: list[Node] = []
    groups: list[Values] = []
    for item in type_.properties.values():
        if item.native is None:
            contracts.append(item.contract)
            if item.default is not None:
                groups.append(Values(_scalars([item.default]), True, item.is_static))
    for method in type_.methods.values():
        contracts.extend(argument.contract for argument in method.arguments or [])
        nodes: list[Node] = [item.default for item in method.arguments or [] if item.default]
        for statement in _body(type_, method):
            nodes.extend(_values_of(statement))
        arguments = classes_of_arguments(method, _body(type_, method))
        groups.append(Values(_scalars(nodes), True, method.is_static, arguments))
    return [Values(_scalars(contracts), False), *groups]


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
    findings.extend(unknown_classes(type_))
    findings.extend(metadata.check_metas(type_))
    if not findings:
        guarded(lambda: type_.assembly)
    findings.extend(_refused(type_, findings))
    findings.extend(_accidents(type_.declaration))
    return findings


def _refused(type_: MuranoType, known: list[Finding]) -> list[Finding]:
    """Errors of single methods; the class exists nevertheless."""
    try:
        type_.own_code()
    except MuranoError:
        return []  # the error of the class is already a finding
    said = {(item.message, item.position) for item in known}
    found: list[Finding] = []
    for method in type_.methods.values():
        if method.error is None or method.error is type_.declaration.methods[method.name].error:
            continue  # the latter are collected where the file is read
        finding = Finding.of(method.error, method.position)
        if (finding.message, finding.position) not in said:
            found.append(finding)
    return found


def _finding(error: MuranoError, package: MuranoPackage, name: str) -> Finding:
    place = error.position or Position(
        f"{package.name}/Classes/{package.class_files.get(name, '')}", 1, 1
    )
    return Finding.of(error, place)


# -- classes named in expressions ----------------------------------------------------------------

_NAMING_METHODS = frozenset(["class", "template"])


def unknown_classes(type_: MuranoType) -> list[Finding]:
    """Names in contracts, defaults and statements that should name a class but do not."""
    findings: list[Finding] = []
    known: dict[str, MuranoError | None] = {}
    for name in type_.declaration.imports:
        error = _refusal(type_, name if "." in name else f":{name}")
        if error is not None:
            place = type_.declaration.place_of(name)
            findings.append(Finding(f"E-{type(error).__name__}", error.message, place))
    for scalar in _scalars(_evaluated(type_)):
        if not scalar.is_expression:
            continue
        for text in _class_names(scalar.expression):
            if text not in known:
                known[text] = _refusal(type_, text)
            error = known[text]
            if error is not None:
                hint = f"; {error.hint}" if error.hint else ""
                findings.append(
                    Finding(f"E-{type(error).__name__}", f"{error.message}{hint}", scalar.position)
                )
    return findings


def _evaluated(type_: MuranoType) -> list[Node]:
    """Every node of a class that is evaluated as a value."""
    nodes: list[Node] = []
    for item in type_.properties.values():
        if item.native is None:
            nodes.append(item.contract)
            if item.default is not None:
                nodes.append(item.default)
    for method in type_.methods.values():
        if method.native is not None:
            continue
        for argument in method.arguments or []:
            nodes.append(argument.contract)
            if argument.default is not None:
                nodes.append(argument.default)
        try:
            body = parse_body(method.body, type_.namespaces)
        except MuranoError:
            continue  # reported by the caller
        for statement in flatten(body):
            nodes.extend(_values_of(statement))
    return nodes


def _values_of(statement: Statement) -> list[Node]:
    if isinstance(statement, Switch):
        return [key for key, _ in statement.cases]
    values = [getattr(statement, name) for name in field_names(statement)]
    return [value for value in values if isinstance(value, (Scalar, Sequence, Mapping))]


def _class_names(tree: ast.Expression) -> list[str]:
    """Names at places that only accept a class."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.TypeLiteral):
            found.append(f"{node.prefix or ''}:{node.name}")
        elif isinstance(node, ast.Binary) and node.operator == "is":
            found.extend(_name_of(node.right))
        elif isinstance(node, ast.Call) and node.name == "new" and node.arguments:
            found.extend(_name_of(node.arguments[0]))
        elif isinstance(node, ast.MethodCall) and node.name in _NAMING_METHODS:
            for argument in node.arguments[:2]:
                found.extend(_name_of(argument))
    return found


def _name_of(node: ast.Node) -> list[str]:
    if isinstance(node, ast.Keyword):
        return [node.name]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return []


def _refusal(type_: MuranoType, text: str) -> MuranoError | None:
    try:
        named_type(type_, text)()
    except MuranoError as error:
        return error
    except (KeyError, ValueError) as error:
        return MuranoError(str(error.args[0]) if error.args else str(error))
    return None


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
