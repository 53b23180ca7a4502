"""Node trees to class declarations (muranopl.md sections 1.2, 2, 6, 8).

After this phase every keyword has an allowed value, names are resolved through the namespaces of
their document, and argument lists are in order; only contracts, defaults, bodies and metadata
remain nodes, for the compilers. Nothing is looked up outside the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vetro.muranopl.values.errors import (
    AmbiguousClassDocument,
    DslSyntaxError,
    Position,
)

from .declarations import (
    ArgumentDeclaration,
    ClassDeclaration,
    MetaDeclaration,
    MethodDeclaration,
    PropertyDeclaration,
)
from .findings import Finding, Sink, did_you_mean
from .names import Namespaces, read_namespaces
from .yamltree import Mapping, Mistakes, Node, Scalar, Sequence

PROPERTY_USAGES = ("In", "Out", "InOut", "Const", "Runtime", "Static", "Config")
METHOD_USAGES = ("Runtime", "Static", "Extension", "Action")
ARGUMENT_USAGES = ("Standard", "VarArgs", "KwArgs")
SCOPES = ("Session", "Public")
META_TARGETS = ("Package", "Type", "Method", "Property", "Argument", "All")
_ANYTHING = frozenset(META_TARGETS)
OBJECT = "io.murano.Object"

_CLASS_KEYS = (
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
)
_PROPERTY_KEYS = ("Contract", "Usage", "Default", "Meta")
_METHOD_KEYS = ("Arguments", "Body", "Usage", "Scope", "Meta")
_MEMBER = re.compile(r"[^\W\d]\w*\Z")
_NEWEST = (1, 5)
_KEY_ERROR = (*DslSyntaxError.own_names, "KeyError")
_SPECIAL_METHODS = {"initialize": ".init", "destroy": ".destroy"}


def declare(
    documents: list[Node],
    requested: str,
    sink: Sink | None = None,
    mistakes: Mistakes | None = None,
    format_: tuple[int, int] = _NEWEST,
) -> list[ClassDeclaration]:
    """The classes of a file. A document without `Name` is the requested class.

    `mistakes`: errors in single nodes, found by the file's reader. `format_`: that of the package,
    for advice. An error inside a method is stored with the method (`MethodDeclaration.error`) and is
    a finding; the first error outside of methods is raised. If the sink collects, it gets all errors,
    and what can be read is returned.
    """
    sink = sink or Sink()
    mistakes = dict(mistakes or {})
    declarations: list[ClassDeclaration] = []
    namespaces = Namespaces()
    unnamed: ClassDeclaration | None = None
    for document in documents:
        if not isinstance(document, Mapping):
            sink.fail("E004", "a class document must be a map", document.position)
            continue
        given = document.get("Namespaces")
        if given is not None:
            namespaces = read_namespaces(given, sink)
            if len(document.pairs) == 1:
                continue
        declaration = _Reader(namespaces, sink, mistakes, format_).declaration(document)
        if declaration.name is None:
            if unnamed is not None:
                sink.fail(
                    "E051",
                    f"two classes of this file have no Name: "
                    f"at {unnamed.position} and at {declaration.position}",
                    declaration.position,
                    "give each class a Name",
                    kind=AmbiguousClassDocument,
                )
                continue
            unnamed = declaration
            declaration.name = requested
        declarations.append(declaration)
    sink.errors.extend(error for _, errors in mistakes.values() for error in errors)
    sink.end()
    return declarations


def read_metas(node: Node | None, namespaces: Namespaces) -> list[MetaDeclaration]:
    """The items of a `Meta` value outside of a class (a manifest's)."""
    sink = Sink()
    found = _Reader(namespaces, sink).metas(node)
    sink.end()
    return found


def name_text(node: Node) -> str | None:
    """The text of a scalar at a place for a name: `ns:Cls` counts as text too."""
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


class _Reader:
    """Reads one document."""

    def __init__(
        self,
        namespaces: Namespaces,
        sink: Sink,
        mistakes: Mistakes | None = None,
        format_: tuple[int, int] = _NEWEST,
    ) -> None:
        self.namespaces = namespaces
        self.sink = sink
        self.format = format_
        self._mistakes = {} if mistakes is None else mistakes
        """Nodes that could not be read; those of methods are taken out."""

    def declaration(self, document: Mapping) -> ClassDeclaration:
        usage = self._choice(
            document, "Usage", ("Class", "Meta"), "Class", "E043", "Invalid type Usage"
        )
        name = self._class_name(document.get("Name"))
        extends = self._names(document.get("Extends"))
        imports = self._names(document.get("Import"))
        methods = document.get("Methods")
        if _is_empty(methods):
            methods = document.get("Workflow")
        cardinality = self._choice(document, "Cardinality", ("One", "Many"), "One", "E027")
        self._unknown_keys(document, _CLASS_KEYS, "a class", "W010")
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
            places=dict([*imports, *extends]),
        )

    # -- members -------------------------------------------------------------------------------

    def _properties(self, node: Node | None) -> Iterator[tuple[str, PropertyDeclaration]]:
        for name, key, value in self._entries(node, "E026", "Properties"):
            if not _MEMBER.match(name):
                self.sink.advise("E054", f"{name!r} is not the name of a property", key.position)
            item = self._property(name, key, value)
            if item is not None:
                yield name, item

    def _property(self, name: str, key: Scalar, value: Node) -> PropertyDeclaration | None:
        contract = self._contract("E047", f"property {name}", key, value)
        if not isinstance(value, Mapping):
            return None
        self._unknown_keys(value, _PROPERTY_KEYS, f"property {name}")
        usage = self._choice(value, "Usage", PROPERTY_USAGES, "In", "E042")
        metas = self.metas(value.get("Meta"))
        if contract is None:
            return None
        return PropertyDeclaration(name, contract, usage, value.get("Default"), metas, key.position)

    def _contract(self, code: str, what: str, key: Scalar, value: Node) -> Node | None:
        contract = value.get("Contract") if isinstance(value, Mapping) else None
        if contract is None:
            hint = "write `Contract: $` to accept any value"
            self.sink.fail(code, f"{what} has no Contract", key.position, hint)
        return contract

    def _methods(self, node: Node | None) -> Iterator[tuple[str, MethodDeclaration]]:
        seen: dict[str, tuple[str, Position]] = {}
        for written, key, value in self._entries(node, "E046", "Methods"):
            name = _SPECIAL_METHODS.get(written, written)
            # An error inside a method makes only the method unusable, not the class.
            outer = self.sink
            self.sink = inner = Sink(advice=outer.advice)
            self._take_mistakes(value)
            if name in seen and seen[name][0] != written:  # otherwise the key stands twice
                twice = f"at {seen[name][1]} and at {key.position}"
                inner.fail("E305", f"method {written} is declared twice, {twice}", key.position)
            seen.setdefault(name, (written, key.position))
            item = self._method(name, written, key, value)
            self.sink = outer
            if inner.errors:
                item.error = inner.first
                if outer.collects:
                    outer.dormant.extend(inner.errors)
                else:
                    outer.advice.extend(Finding.of(error, key.position) for error in inner.errors)
            yield name, item

    def _take_mistakes(self, value: Node) -> None:
        """Take out the mistakes in nodes inside a method: they are the method's errors."""
        stack = [value] if self._mistakes else []
        while stack:
            node = stack.pop()
            known = self._mistakes.pop(id(node), None)
            if known is not None:
                self.sink.errors.extend(known[1])
            if isinstance(node, Sequence):
                stack.extend(reversed(node.items))
            elif isinstance(node, Mapping):
                stack.extend(part for pair in reversed(node.pairs) for part in reversed(pair))

    def _method(self, name: str, written: str, key: Scalar, value: Node) -> MethodDeclaration:
        if not (name in _SPECIAL_METHODS.values() or _MEMBER.match(name)):
            self.sink.advise("E054", f"{name!r} is not the name of a method", key.position)
        if not isinstance(value, Mapping):
            if not _is_null(value):
                self.sink.fail(
                    "E046",
                    f"method {written} must be a map with Arguments and Body",
                    value.position,
                )
            return MethodDeclaration(name, "Runtime", "Session", [], None, [], key.position)
        self._unknown_keys(value, _METHOD_KEYS, f"method {name}")
        usage, scope = self._usage(name, key, value)
        arguments: list[ArgumentDeclaration] = []
        self._arguments(name, value.get("Arguments"), arguments)
        if usage == "Extension" and not arguments:
            self.sink.fail(
                "E305",
                f"extension method {name} needs a first argument: the object that it extends",
                key.position,
            )
        body = value.get("Body")
        if isinstance(body, Scalar) and not body.is_expression and not isinstance(body.value, str):
            if body.value is not None:
                message = f"the Body of {name} is a statement or a list of them"
                self.sink.fail("E045", message, body.position)
            body = None
        metas = self.metas(value.get("Meta"))
        return MethodDeclaration(name, usage, scope, arguments, body, metas, key.position)

    def _usage(self, name: str, key: Scalar, value: Mapping) -> tuple[str, str]:
        """`Usage` and `Scope` of a method."""
        usage = self._choice(value, "Usage", METHOD_USAGES, "Runtime", "E305")
        scope = self._choice(value, "Scope", SCOPES, "Session", "E044")
        given_usage, given_scope = value.get("Usage"), value.get("Scope")
        advise = self.sink.advise
        if given_scope is not None and self.format < (1, 4) and name_text(given_scope) in SCOPES:
            message = f"{name}: Scope belongs to format 1.4"
            advise("E044", message, given_scope.position, is_advice=True)
        if given_usage is not None and name_text(given_usage) not in METHOD_USAGES:
            message = f"the Usage of {name} is one of {', '.join(METHOD_USAGES)}"
            advise("W045", message, given_usage.position)
        if given_usage is not None and usage in ("Static", "Extension") and self.format < (1, 3):
            message = f"{name}: Usage {usage} is newer than the package's format"
            advise("W045", message, given_usage.position)
        if usage != "Action":
            return usage, scope
        if given_scope is not None and scope == "Session":
            self.sink.fail(
                "E305",
                f"method {name} has `Usage: Action`, which makes it Public, and `Scope: Session`",
                key.position,
            )
        if given_usage is not None and self.format >= (1, 4):
            message = f"{name}: write `Scope: Public` instead of `Usage: Action`"
            advise("W045", message, given_usage.position)
        return "Runtime", "Public"

    def _arguments(
        self, method: str, node: Node | None, arguments: list[ArgumentDeclaration]
    ) -> None:
        """Read the arguments of a method into `arguments`; faulty ones are left out."""
        pairs: list[tuple[str, Scalar, Node]] = []
        if isinstance(node, Sequence):
            for item in node.items:
                if not isinstance(item, Mapping) or not item.pairs:
                    message = f"an argument of {method} must be a map with one key, its name"
                    self.sink.fail("E046", message, item.position)
                    continue
                if len(item.pairs) > 1:
                    message = (
                        f"list the arguments of {method}, each after a dash: their order counts"
                    )
                    self.sink.fail("E048", message, item.position)
                pairs.extend(item.entries())
        elif node is not None:
            pairs.extend(self._entries(node, "E046", f"Arguments of {method}"))
            if len(pairs) > 1:
                message = f"list the arguments of {method}, each after a dash: their order counts"
                self.sink.advise("E048", message, node.position)
        for name, key, value in pairs:
            self._argument(method, name, key, value, arguments)

    def _argument(
        self,
        method: str,
        name: str,
        key: Scalar,
        value: Node,
        arguments: list[ArgumentDeclaration],
    ) -> None:
        # Only identifiers may become parameter names of generated code.
        is_name = name.isidentifier()
        if not is_name:
            self.sink.fail(
                "E054",
                f"{name!r} is not the name of an argument of {method}",
                key.position,
                "a name consists of letters, digits and _, and cannot begin with a digit",
            )
        contract = self._contract("E046", f"argument {name} of {method}", key, value)
        if not isinstance(value, Mapping):
            return
        usage = self._choice(value, "Usage", ARGUMENT_USAGES, "Standard", "E053")
        given = value.get("Usage")
        if given is not None and self.format < (1, 4) and name_text(given) in ARGUMENT_USAGES:
            message = f"{name}: Usage of arguments belongs to format 1.4"
            self.sink.advise("E052", message, given.position)
        here = ARGUMENT_USAGES.index(usage)
        rank = ARGUMENT_USAGES.index(arguments[-1].usage) if arguments else 0
        taken = any(item.name == name for item in arguments)
        fits = here >= rank and not (here == rank and here > 0) and not taken
        if not fits:
            self.sink.fail(
                "E305",
                f"argument {name} of {method} is out of order or declared twice",
                key.position,
                "the order is: Standard, then one VarArgs, then one KwArgs",
            )
        self._unknown_keys(value, _PROPERTY_KEYS, f"argument {name}")
        metas = self.metas(value.get("Meta"))
        if fits and is_name and contract is not None:
            arguments.append(
                ArgumentDeclaration(
                    name, contract, usage, value.get("Default"), metas, key.position
                )
            )

    # -- names and choices ---------------------------------------------------------------------

    def metas(self, node: Node | None) -> list[MetaDeclaration]:
        """The items of a `Meta` value."""
        found: list[MetaDeclaration] = []
        for item in _items(node):
            key, value = item, None
            if isinstance(item, Mapping) and len(item.pairs) == 1:
                key, value = item.pairs[0]
                if _is_null(value):
                    value = None
            if not isinstance(key, Scalar) or not (value is None or isinstance(value, Mapping)):
                self.sink.fail(
                    "E004",
                    "a Meta item must be a type name, or a map from one type name to its properties",
                    item.position,
                )
                continue
            name = self._type_name(key, "E004")
            if name is not None:
                found.append(MetaDeclaration(name, value, item.position))
        return found

    def _class_name(self, node: Node | None) -> str | None:
        if node is None:
            return None
        name = self._type_name(node, "E011")
        last = "" if name is None else name.rpartition(".")[2]
        if name is not None and not is_camel_case(last):
            self.sink.advise("W011", f"{last} is not CamelCase", node.position)
        # A wrong name is not a missing name: the requested class is another one.
        return "?" if name is None else name

    def _type_name(self, node: Node, code: str) -> str | None:
        text = name_text(node)
        if text is None:
            self.sink.fail(code, "a type name must be text", node.position)
            return None
        try:
            return self.namespaces.resolve(text)
        except KeyError as error:
            self.sink.fail(
                "E305",
                str(error.args[0]),
                node.position,
                "declare the prefix in Namespaces",
                names=_KEY_ERROR,
            )
        except ValueError as error:
            self.sink.fail(code, str(error), node.position)
        return None

    def _names(self, node: Node | None) -> list[tuple[str, Position]]:
        """Class names with their places; faulty ones are left out."""
        read = [(self._type_name(item, "E025"), item.position) for item in _items(node)]
        return [(name, place) for name, place in read if name is not None]

    def _applies(self, node: Node | None) -> frozenset[str]:
        if node is None:
            return _ANYTHING
        items = node.items if isinstance(node, Sequence) else [node]
        targets = [name_text(item) or "" for item in items]
        for target, item in zip(targets, items, strict=True):
            if target not in META_TARGETS:
                self.sink.fail(
                    "E028",
                    f"Applies: {target!r} is none of {', '.join(META_TARGETS)}",
                    item.position,
                    did_you_mean(target, META_TARGETS),
                )
        return _ANYTHING if "All" in targets else frozenset(targets)

    def _flag(self, document: Mapping, key: str) -> bool:
        node = document.get(key)
        if node is None:
            return False
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self.sink.fail("E027", f"{key} must be true or false", node.position)
        return False

    def _choice(
        self,
        holder: Mapping,
        key: str,
        allowed: tuple[str, ...],
        default: str,
        code: str,
        prefix: str | None = None,
    ) -> str:
        """The value of a key that takes one of a few words."""
        node = holder.get(key)
        if node is None:
            return default
        text = name_text(node)
        if text in allowed:
            return text
        written = node.value if isinstance(node, Scalar) else None
        message = f"{prefix or 'Unknown ' + key} {written!r}; allowed: {', '.join(allowed)}"
        self.sink.fail(code, message, node.position, did_you_mean(str(written), allowed))
        return default

    def _entries(
        self, node: Node | None, code: str, what: str
    ) -> Iterator[tuple[str, Scalar, Node]]:
        if isinstance(node, Mapping):
            yield from node.entries()
        elif node is not None and not _is_null(node):
            self.sink.fail(code, f"{what} must be a map", node.position)

    def _unknown_keys(
        self, node: Mapping, known: tuple[str, ...], what: str, code: str = "E021"
    ) -> None:
        for name, key, _ in node.entries():
            if name not in known:
                hint = did_you_mean(name, known)
                message = f"{what} has no key {name}" + (f"; {hint}" if hint else "")
                self.sink.advise(code, message, key.position)


def is_camel_case(name: str) -> bool:
    """Whether the name of a class is written as usual: `WebServer`, `VM`."""
    shouting = name.isupper() and len(name) > 3
    return name[:1].isupper() and "_" not in name and not shouting


def _is_null(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _is_empty(node: Node | None) -> bool:
    return node is None or _is_null(node) or (isinstance(node, Mapping) and not node.pairs)


def _items(node: Node | None) -> list[Node]:
    """The items of a node that is one name or a list of names."""
    if node is None or _is_null(node):
        return []
    return list(node.items) if isinstance(node, Sequence) else [node]
