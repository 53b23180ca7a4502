"""All findings of a package at once (muranopl.md sections 1, 28).

Its class files are read by the readers that load them, with a sink that collects; then the compiler
looks at each class, and `codecheck` and `namecheck` give advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from vetro.muranopl.classes.types import Method, MuranoPackage, MuranoType
from vetro.muranopl.compiler.classscope import ClassScope
from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS, build_contract
from vetro.muranopl.runtime import extensions, inline_caches, metadata
from vetro.muranopl.runtime.inline_caches import named_type
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import flatten, scalars, values_of
from vetro.muranopl.syntax.declarations import ClassDeclaration
from vetro.muranopl.syntax.findings import Finding, Sink, did_you_mean
from vetro.muranopl.syntax.statements import Statement, parse_body
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.values.errors import MuranoError, Position
from vetro.yaql import ast
from vetro.yaql.forms import SPECIAL_METHODS

from .codecheck import check_code
from .guardcheck import check_guards
from .known_classes import classes_of_arguments
from .namecheck import (
    Surroundings,
    Values,
    misspelt_handlers,
    own_exceptions,
    thrown_names,
    unknown_names,
)

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType
    from vetro.muranopl.host.runtime import Runtime


_NAMES = frozenset(("E311", "E312", "E313", "W206", "W208", "W209", "W211"))
"""Findings about single names in a statement."""


def check_package(runtime: Runtime, package: MuranoPackage) -> list[Finding]:
    """Findings of every class of a package, in order of file and place."""
    findings: list[Finding] = []
    before = len(runtime.classes.findings)
    errors = runtime.classes.collected = []
    types: list[MuranoType] = []
    refused: list[Finding] = []
    try:
        for name in package.class_files:
            try:
                type_ = runtime.classes.own_type(package, name)
            except MuranoError as error:
                refused.append(_finding(error, package, name))
                continue
            if type_ is not None:
                types.append(type_)
    finally:
        runtime.classes.collected = None
    own = [error for error in errors if _is_in(error.position, package)]
    findings.extend(_finding(error, package, "") for error in own)
    broken = {error.position.file for error in errors if error.position is not None}
    # The class that a file lacks may be the one that cannot be read.
    findings += [item for item in refused if not _is_lack(item) or item.position.file not in broken]
    for declaration in list(package.declared.values()):
        findings.extend(check_code(declaration))
        findings.extend(check_guards(declaration))
    for type_ in types:
        findings.extend(check_type(type_))
        findings.extend(unknown_functions(type_))
    findings.extend(_names(types))
    findings.extend(runtime.classes.findings[before:])
    _forget(package, broken)
    return _sorted([item for item in findings if _is_in(item.position, package)])


def _is_in(place: Position | None, package: MuranoPackage) -> bool:
    """Whether a place is in a package; its requirements are read, too, when they are needed."""
    return place is None or place.file.startswith(f"{package.name}/") or place.file == package.name


def _is_lack(item: Finding) -> bool:
    return item.code == "E051"


def _sorted(findings: list[Finding]) -> list[Finding]:
    """Each finding once, without those that an error at the same place explains."""
    unique: dict[tuple[str, Position], Finding] = {}
    for finding in findings:
        unique.setdefault((finding.message, finding.position), finding)
    # Errors of the readers: what is in such a line may not be what its author means.
    errors = {_line(one) for one in unique.values() if one.level == "error" and one.code < "E3"}
    comparisons = {_line(one) for one in unique.values() if one.code == "W205"}
    return sorted(
        (
            one
            for one in unique.values()
            if one.code not in _NAMES
            or not (_line(one) in errors or (one.code == "W208" and _line(one) in comparisons))
        ),
        key=lambda one: (one.position.file, one.position.line, one.position.column, one.code),
    )


def _line(item: Finding) -> tuple[str, int]:
    return item.position.file, item.position.line


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
        groups = _groups(type_)
        findings.extend(unknown_names(type_, groups, assigned, around))
        findings.extend(misspelt_handlers(type_, groups))
        findings.extend(own_exceptions(type_, body, around))
    return findings


def _statements(type_: MuranoType) -> list[Statement]:
    return [item for method in type_.methods.values() for item in _body(type_, method)]


def _body(type_: MuranoType, method: Method) -> list[Statement]:
    """The statements of a method that can be read; the others' errors are findings already."""
    if method.native is not None:
        return []
    return flatten(parse_body(method.body, type_.namespaces, Sink(collects=True)))


def _groups(type_: MuranoType) -> list[Values]:
    """The expressions of a class, grouped by the meaning of `$` in them."""
    contracts: list[Node] = []
    groups: list[Values] = []
    for item in type_.properties.values():
        if item.native is None:
            contracts.append(item.contract)
            if item.default is not None:
                groups.append(Values(scalars([item.default]), True, item.is_static))
    for method in type_.methods.values():
        contracts.extend(argument.contract for argument in method.arguments or [])
        nodes: list[Node] = [item.default for item in method.arguments or [] if item.default]
        for statement in _body(type_, method):
            nodes.extend(values_of(statement))
        arguments = classes_of_arguments(method, _body(type_, method))
        groups.append(Values(scalars(nodes), True, method.is_static, arguments))
    return [Values(scalars(contracts), False), *groups]


def check_type(type_: MuranoType) -> list[Finding]:
    """Every error that the compiler finds in a class's members, not just the first."""
    findings: list[Finding] = []
    scope = ClassScope(type_, CodeUnit.create(type_, type_.full_name))

    def guarded(action: Callable[..., object], *given: object) -> None:
        try:
            action(*given)
        except MuranoError as error:
            findings.append(_finding(error, type_.package, type_.name))

    for item in type_.properties.values():
        if item.native is None:
            guarded(build_contract, item.contract, scope)
    for method in type_.methods.values():
        if method.native is None:
            for argument in method.arguments or []:
                guarded(build_contract, argument.contract, scope)
    findings.extend(unknown_classes(type_))
    findings.extend(metadata.check_metas(type_))
    if not findings:
        guarded(lambda: type_.assembly)
    findings.extend(_refused(type_, findings))
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
            findings.append(Finding(error.lint_code, error.message, place))
    for scalar in scalars(_evaluated(type_)):
        if not scalar.is_expression:
            continue
        for text in _class_names(scalar.expression):
            if text not in known:
                known[text] = _refusal(type_, text)
            error = known[text]
            if error is not None:
                hint = f"; {error.hint}" if error.hint else ""
                message = f"{error.message}{hint}"
                findings.append(Finding(error.lint_code, message, scalar.position))
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
        for statement in _body(type_, method):
            nodes.extend(values_of(statement))
    return nodes


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


_OBJECTS = frozenset(("class", "template"))


def unknown_functions(type_: MuranoType) -> Iterator[Finding]:
    """Functions in contracts of properties and arguments that nothing has (section 28): `$.itn()`.

    A contract may use every method of a value, and is read when a value is set: so nothing else finds
    them before somebody deploys.
    """
    contracts = [item.contract for item in type_.properties.values() if item.native is None]
    for method in type_.methods.values():
        if method.native is None:
            contracts += [item.contract for item in method.arguments or []]
    for scalar in scalars(contracts):
        if scalar.is_expression:
            yield from _in_chain(type_, scalar)


def _in_chain(type_: MuranoType, scalar: Scalar) -> Iterator[Finding]:
    calls: list[ast.MethodCall] = []
    node: ast.Node = scalar.expression
    while isinstance(node, ast.MethodCall):
        calls.append(node)
        node = node.target
    # Objects have methods of their own.
    if not isinstance(node, ast.Variable) or node.name or {one.name for one in calls} & _OBJECTS:
        return
    library = type_.runtime.library_for(type_.package)
    for call in reversed(calls):
        name = call.name
        if (
            name in CONTRACT_FUNCTIONS
            or name in SPECIAL_METHODS
            or name in inline_caches.SCOPED_METHODS
            or library.has(name, True)
            or extensions.has_extension(type_, name)
        ):
            continue
        hint = did_you_mean(name, CONTRACT_FUNCTIONS) or library.suggest(name, True)
        said = f"; {hint}" if hint else ""
        message = f"{scalar.value!r} is not a contract: there is no function {name}{said}"
        yield Finding("W048", message, scalar.position_of(call.start))
        return
