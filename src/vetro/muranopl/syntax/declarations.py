"""Node trees to class declarations (muranopl.md sections 1.2, 2, 6, 8).

After this phase every keyword has an allowed value, names are resolved through the namespaces of
their document, and argument lists are in order; only contracts, defaults, bodies and metadata
remain nodes, for the compilers. Nothing is looked up outside the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from vetro.muranopl.values.errors import (
    AmbiguousClassDocument,
    DslSyntaxError,
    MuranoError,
    Position,
)
from vetro.muranopl.values.records import made, record

from .names import Namespaces
from .yamltree import Mapping, Mistakes, Node, Scalar, Sequence

T = TypeVar("T")
PROPERTY_USAGES = ("In", "Out", "InOut", "Const", "Runtime", "Static", "Config")
METHOD_USAGES = ("Runtime", "Static", "Extension", "Action")
ARGUMENT_USAGES = ("Standard", "VarArgs", "KwArgs")
SCOPES = ("Session", "Public")
META_TARGETS = ("Package", "Type", "Method", "Property", "Argument", "All")
OBJECT = "io.murano.Object"

_CLASS_KEYS = frozenset(
    [
        "Name",
        "Namespaces",
        "Extends",
        "Usage",
        "Properties",
        "Methods",
        "Workflow",
        "Import",
        "Meta",
        "Cardinality",
        "Applies",
        "Inherited",
    ]
)
_SPECIAL_METHODS = {"initialize": ".init", "destroy": ".destroy"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A linter's message about a source."""

    code: str
    message: str
    position: Position

    @classmethod
    def of(cls, error: MuranoError, place: Position) -> Finding:
        """A finding for an error; `place` is used when the error has no position."""
        text = f"{error.message}; {error.hint}" if error.hint else error.message
        return cls(f"E-{type(error).__name__}", text, error.position or place)


@record
class MetaDeclaration:
    """One item of a `Meta` list: a meta-class and the values of its properties."""

    type_name: str
    values: Mapping | None
    position: Position


@record
class PropertyDeclaration:
    name: str
    contract: Node
    usage: str
    default: Node | None
    meta: list[MetaDeclaration]
    position: Position


@record
class ArgumentDeclaration:
    name: str
    contract: Node
    usage: str
    default: Node | None
    meta: list[MetaDeclaration]
    position: Position


@record
class MethodDeclaration:
    name: str
    usage: str
    scope: str
    arguments: list[ArgumentDeclaration]
    body: Node | None
    meta: list[MetaDeclaration]
    position: Position
    error: DslSyntaxError | None = None
    """The method's error, raised when it is called. The class is usable nevertheless."""


@record
class ClassDeclaration:
    """A class as its source states it; all type names are fully qualified."""

    name: str | None
    namespaces: Namespaces
    extends: list[str]
    usage: str
    properties: dict[str, PropertyDeclaration]
    methods: dict[str, MethodDeclaration]
    imports: list[str]
    meta: list[MetaDeclaration]
    cardinality: str
    applies: frozenset[str]
    inherited: bool
    position: Position
    findings: list[Finding] = made(factory=list[Finding])
    places: dict[str, Position] = made(factory=dict[str, Position])
    """The places that name the classes in `extends` and `imports`."""

    def place_of(self, name: str) -> Position:
        """The place that names a class that this one extends or imports."""
        return self.places.get(name, self.position)


def declare(
    documents: list[Node],
    requested: str,
    errors: list[DslSyntaxError] | None = None,
    mistakes: Mistakes | None = None,
) -> list[ClassDeclaration]:
    """The classes of a file. A document without `Name` is the requested class.

    A mistake inside a method is stored with the method (`MethodDeclaration.error`). With `errors`,
    mistakes in members are added to it and the rest of the class is read; without, the first
    mistake outside methods is raised. `mistakes`: errors in single nodes, found by the file's
    reader.
    """
    mistakes = dict(mistakes or {})
    declarations: list[ClassDeclaration] = []
    namespaces = Namespaces()
    unnamed: ClassDeclaration | None = None
    for document in documents:
        if not isinstance(document, Mapping):
            raise DslSyntaxError("a class document is a map", position=document.position)
        given = document.get("Namespaces")
        if given is not None:
            namespaces = _namespaces(given)
            if len(document.pairs) == 1:
                continue
        declaration = _Reader(namespaces, errors, mistakes).declaration(document)
        if declaration.name is None:
            if unnamed is not None:
                raise AmbiguousClassDocument(
                    f"two classes of this file have no Name: "
                    f"at {unnamed.position} and at {declaration.position}",
                    position=declaration.position,
                    hint="give each class a Name",
                )
            unnamed = declaration
            declaration.name = requested
        declarations.append(declaration)
    for _, error in mistakes.values():
        raise error
    return declarations


def read_metas(node: Node | None, namespaces: Namespaces) -> list[MetaDeclaration]:
    """The items of a `Meta` value outside of a class (a manifest's)."""
    return _Reader(namespaces).metas(node)


def name_text(node: Node) -> str | None:
    """The text of a scalar at a place for a name: `ns:Cls` counts as text too."""
    if isinstance(node, Scalar) and node.value is not None:
        return str(node.value)
    return None


def _namespaces(node: Node) -> Namespaces:
    if isinstance(node, Scalar) and node.value is None:
        return Namespaces()
    if not isinstance(node, Mapping):
        raise DslSyntaxError("Namespaces is a map of prefixes", position=node.position)
    prefixes: dict[str, str | None] = {}
    for prefix, _, value in node.entries():
        if not isinstance(value, Scalar):
            raise DslSyntaxError("a namespace is a dotted name", position=value.position)
        prefixes[prefix] = None if value.value is None else str(value.value)
    return Namespaces(prefixes, node.position)


class _Reader:
    """Reads one document."""

    def __init__(
        self,
        namespaces: Namespaces,
        errors: list[DslSyntaxError] | None = None,
        mistakes: Mistakes | None = None,
    ) -> None:
        self.namespaces = namespaces
        self.findings: list[Finding] = []
        self._errors = errors
        self._mistakes = {} if mistakes is None else mistakes
        """Nodes that could not be read; those of methods are taken out."""

    def _fail(self, error: DslSyntaxError) -> None:
        if self._errors is None:
            raise error
        self._errors.append(error)

    def declaration(self, document: Mapping) -> ClassDeclaration:
        usage = self._choice(document, "Usage", ("Class", "Meta"), "Class", "Invalid type Usage")
        name_node = document.get("Name")
        name = None if name_node is None else self._type_name(name_node)
        extends = self._names(document.get("Extends"))
        imports = self._names(document.get("Import"))
        methods = document.get("Methods")
        if _is_empty(methods):
            methods = document.get("Workflow")
        cardinality = self._choice(document, "Cardinality", ("One", "Many"), "One")
        self._unknown_keys(document, _CLASS_KEYS, "a class")
        return ClassDeclaration(
            name=name,
            namespaces=self.namespaces,
            extends=[item for item, _ in extends] or ([] if name == OBJECT else [OBJECT]),
            usage=usage,
            properties=dict(self._properties(document.get("Properties"))),
            methods=dict(self._methods(methods)),
            imports=[item for item, _ in imports],
            meta=self.metas(document.get("Meta")),
            cardinality=cardinality,
            applies=self._applies(document.get("Applies")),
            inherited=self._flag(document, "Inherited"),
            position=document.position,
            findings=self.findings,
            places=dict([*imports, *extends]),
        )

    # -- members -------------------------------------------------------------------------------

    def _properties(self, node: Node | None) -> Iterator[tuple[str, PropertyDeclaration]]:
        for name, key, value in self._entries(node, "Properties"):
            # A member that cannot be read is left out when mistakes are collected.
            try:
                item = self._property(name, key, value)
            except DslSyntaxError as error:
                self._fail(error)
            else:
                yield name, item

    def _property(self, name: str, key: Scalar, value: Node) -> PropertyDeclaration:
        if not isinstance(value, Mapping):
            raise DslSyntaxError(
                f"property {name} is a map with a Contract", position=value.position
            )
        self._unknown_keys(
            value, frozenset(("Contract", "Usage", "Default", "Meta")), f"property {name}"
        )
        contract = value.get("Contract")
        if contract is None:
            raise DslSyntaxError(
                f"property {name} has no Contract",
                position=key.position,
                hint="write `Contract: $` to take anything",
            )
        return PropertyDeclaration(
            name,
            contract,
            self._choice(value, "Usage", PROPERTY_USAGES, "In"),
            value.get("Default"),
            self.metas(value.get("Meta")),
            key.position,
        )

    def _methods(self, node: Node | None) -> Iterator[tuple[str, MethodDeclaration]]:
        seen: dict[str, Position] = {}
        for written, key, value in self._entries(node, "Methods"):
            name = _SPECIAL_METHODS.get(written, written)
            errors: list[DslSyntaxError] = self._taken_mistakes(value)
            if name in seen:
                twice = f"at {seen[name]} and at {key.position}"
                errors.append(
                    DslSyntaxError(
                        f"method {written} is declared twice, {twice}", position=key.position
                    )
                )
            seen.setdefault(name, key.position)
            # A mistake inside a method makes only the method unusable, not the class.
            outer, self._errors = self._errors, errors
            try:
                item = self._method(name, written, key, value)
            finally:
                self._errors = outer
            if errors:
                item.error = errors[0]
                if outer is None:
                    self.findings.extend(Finding.of(error, key.position) for error in errors)
                else:
                    outer.extend(errors)
            yield name, item

    def _taken_mistakes(self, value: Node) -> list[DslSyntaxError]:
        """Take out and return the mistakes in nodes inside a method."""
        found: list[DslSyntaxError] = []
        stack = [value] if self._mistakes else []
        while stack:
            node = stack.pop()
            known = self._mistakes.pop(id(node), None)
            if known is not None:
                found.append(known[1])
            if isinstance(node, Sequence):
                stack.extend(reversed(node.items))
            elif isinstance(node, Mapping):
                stack.extend(part for pair in reversed(node.pairs) for part in reversed(pair))
        return found

    def _attempt(self, read: Callable[[], T], otherwise: T) -> T:
        """The result of `read`, or `otherwise` after an error (when mistakes are collected)."""
        try:
            return read()
        except DslSyntaxError as error:
            self._fail(error)
            return otherwise

    def _method(self, name: str, written: str, key: Scalar, value: Node) -> MethodDeclaration:
        if isinstance(value, Scalar) and value.value is None:
            return MethodDeclaration(name, "Runtime", "Session", [], None, [], key.position)
        if not isinstance(value, Mapping):
            self._fail(
                DslSyntaxError(
                    f"method {written} is a map with Arguments and Body", position=value.position
                )
            )
            return MethodDeclaration(name, "Runtime", "Session", [], None, [], key.position)
        known = frozenset(("Arguments", "Body", "Usage", "Scope", "Meta"))
        self._unknown_keys(value, known, f"method {name}")
        usage = self._choice(value, "Usage", METHOD_USAGES, "Runtime")
        scope = self._choice(value, "Scope", SCOPES, "Session")
        if usage == "Action":
            if value.get("Scope") is not None and scope == "Session":
                self._fail(
                    DslSyntaxError(
                        f"method {name} is an Action, which is Public, and has Scope Session",
                        position=key.position,
                    )
                )
            usage, scope = "Runtime", "Public"
            self.findings.append(
                Finding("W-action", f"{name}: write `Scope: Public` instead", key.position)
            )
        arguments: list[ArgumentDeclaration] = []
        self._attempt(lambda: self._arguments(name, value.get("Arguments"), arguments), None)
        if usage == "Extension" and not arguments:
            self._fail(
                DslSyntaxError(
                    f"extension method {name} needs an argument, which says what it extends",
                    position=key.position,
                )
            )
        body = value.get("Body")
        if isinstance(body, Scalar) and body.value is None:
            body = None
        metas = self._attempt(lambda: self.metas(value.get("Meta")), [])
        return MethodDeclaration(name, usage, scope, arguments, body, metas, key.position)

    def _arguments(
        self, method: str, node: Node | None, arguments: list[ArgumentDeclaration]
    ) -> None:
        """Read the arguments of a method into `arguments`; faulty ones are left out."""
        pairs: list[tuple[str, Scalar, Node]] = []
        if isinstance(node, Sequence):
            for item in node.items:
                if not isinstance(item, Mapping) or len(item.pairs) != 1:
                    self._fail(
                        DslSyntaxError(
                            f"an argument of {method} is a map of one name", position=item.position
                        )
                    )
                    continue
                pairs.extend(item.entries())
        elif node is not None:
            pairs.extend(self._entries(node, f"Arguments of {method}"))
        for name, key, value in pairs:
            self._attempt(partial(self._argument, method, name, key, value, arguments), None)

    def _argument(
        self,
        method: str,
        name: str,
        key: Scalar,
        value: Node,
        arguments: list[ArgumentDeclaration],
    ) -> None:
        # Only identifiers may become parameter names of generated code.
        if not name.isidentifier():
            raise DslSyntaxError(
                f"{name!r} is not the name of an argument of {method}",
                position=key.position,
                hint="a name is letters, digits and _, and does not begin with a digit",
            )
        if not isinstance(value, Mapping):
            raise DslSyntaxError(
                f"argument {name} of {method} is a map with a Contract",
                position=value.position,
            )
        contract = value.get("Contract")
        if contract is None:
            raise DslSyntaxError(
                f"argument {name} of {method} has no Contract",
                position=key.position,
                hint="write `Contract: $` to take anything",
            )
        usage = self._choice(value, "Usage", ARGUMENT_USAGES, "Standard")
        here = ARGUMENT_USAGES.index(usage)
        rank = ARGUMENT_USAGES.index(arguments[-1].usage) if arguments else 0
        taken = any(item.name == name for item in arguments)
        if here < rank or (here == rank and here > 0) or taken:
            raise DslSyntaxError(
                f"argument {name} of {method} is out of order or given twice",
                position=key.position,
                hint="the order is: Standard, then one VarArgs, then one KwArgs",
            )
        known = frozenset(("Contract", "Usage", "Default", "Meta"))
        self._unknown_keys(value, known, f"argument {name}")
        arguments.append(
            ArgumentDeclaration(
                name,
                contract,
                usage,
                value.get("Default"),
                self.metas(value.get("Meta")),
                key.position,
            )
        )

    # -- names and choices ---------------------------------------------------------------------

    def metas(self, node: Node | None) -> list[MetaDeclaration]:
        """The items of a `Meta` value."""
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return []
        items = node.items if isinstance(node, Sequence) else [node]
        found: list[MetaDeclaration] = []
        for item in items:
            if isinstance(item, Scalar):
                found.append(MetaDeclaration(self._type_name(item), None, item.position))
                continue
            if isinstance(item, Mapping) and len(item.pairs) == 1:
                key, value = item.pairs[0]
                if isinstance(value, Scalar) and value.value is None:
                    value = None
                if value is None or isinstance(value, Mapping):
                    found.append(MetaDeclaration(self._type_name(key), value, item.position))
                    continue
            raise DslSyntaxError(
                "a Meta item is a type name, or a map of one type name to its properties",
                position=item.position,
            )
        return found

    def _type_name(self, node: Node) -> str:
        text = name_text(node)
        if text is None:
            raise DslSyntaxError("a type name is text", position=node.position)
        try:
            return self.namespaces.resolve(text)
        except KeyError as error:
            raise DslSyntaxError(
                str(error.args[0]),
                names=(*DslSyntaxError._class_names(), "KeyError"),  # pyright: ignore[reportPrivateUsage]
                position=node.position,
                hint="declare the prefix in Namespaces",
            ) from error
        except ValueError as error:
            raise DslSyntaxError(str(error), position=node.position) from error

    def _names(self, node: Node | None) -> list[tuple[str, Position]]:
        """Class names with their places; faulty ones are left out when mistakes are collected."""
        found: list[tuple[str, Position]] = []
        for item in _items(node):
            try:
                found.append((self._type_name(item), item.position))
            except DslSyntaxError as error:
                self._fail(error)
        return found

    def _applies(self, node: Node | None) -> frozenset[str]:
        if node is None:
            return frozenset(META_TARGETS)
        items = node.items if isinstance(node, Sequence) else [node]
        targets = [name_text(item) or "" for item in items]
        for target, item in zip(targets, items, strict=True):
            if target not in META_TARGETS:
                raise DslSyntaxError(
                    f"Applies: {target!r} is none of {', '.join(META_TARGETS)}",
                    position=item.position,
                )
        return frozenset(META_TARGETS if "All" in targets else targets)

    def _flag(self, document: Mapping, key: str) -> bool:
        node = document.get(key)
        if node is None:
            return False
        value: Any = node.value if isinstance(node, Scalar) else node
        if not isinstance(value, bool):
            raise DslSyntaxError(f"{key} is true or false", position=node.position)
        return value

    def _choice(
        self,
        holder: Mapping,
        key: str,
        allowed: tuple[str, ...],
        default: str,
        prefix: str | None = None,
    ) -> str:
        node = holder.get(key)
        if node is None:
            return default
        text = name_text(node)
        if text not in allowed:
            self._fail(
                DslSyntaxError(
                    f"{prefix or 'Unknown ' + key} {text!r}; allowed: {', '.join(allowed)}",
                    position=node.position,
                )
            )
            return default
        return text

    def _entries(self, node: Node | None, what: str) -> Iterator[tuple[str, Scalar, Node]]:
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return
        if not isinstance(node, Mapping):
            raise DslSyntaxError(f"{what} is a map", position=node.position)
        yield from node.entries()

    def _unknown_keys(self, node: Mapping, known: frozenset[str], what: str) -> None:
        for name, key, _ in node.entries():
            if name not in known:
                self.findings.append(
                    Finding("W-unknown-key", f"{what} has no key {name}", key.position)
                )


def _is_empty(node: Node | None) -> bool:
    if node is None:
        return True
    if isinstance(node, Scalar):
        return node.value is None
    return isinstance(node, Mapping) and not node.pairs


def _items(node: Node | None) -> list[Node]:
    """The items of a node that is one name or a list of names."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return []
    return list(node.items) if isinstance(node, Sequence) else [node]
