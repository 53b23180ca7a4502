"""Descriptions of classes as text and plain values: for documentation, prompts and other tools.

    for method in describe_class(runtime.type("my.app.Main")).methods:
        print(method.signature, method.text)

Descriptions come from metadata (`io.murano.metadata.Title`, `Description`, `HelpText`). Without
metadata they come from the comment right above the declaration, or from the docstring of a native
class or method.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from vetro.muranopl.classes.builtin import BuiltinCore
from vetro.muranopl.classes.native import NativeMethod
from vetro.muranopl.classes.types import Argument, Method, MuranoType, Property
from vetro.muranopl.runtime.metadata import constant_values
from vetro.muranopl.syntax.yamltree import Mapping as MappingNode
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.syntax.yamltree import Sequence as SequenceNode

_META = "io.murano.metadata."
_PLAIN = re.compile(r"[\w.][\w. /-]*\Z")


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that describe a class or member to people."""

    title: str = ""
    description: str = ""
    help_text: str = ""
    comment: str = ""

    @property
    def text(self) -> str:
        """The description, or the comment above the declaration."""
        return self.description or self.comment


@dataclass(frozen=True, slots=True)
class ArgumentDescription:
    """An argument of a method written in MuranoPL (native ones have a name and a default only)."""

    name: str
    contract: str = ""
    usage: str = "Standard"
    default: str | None = None
    texts: Texts = field(default_factory=Texts)


@dataclass(frozen=True, slots=True)
class PropertyDescription:
    """A property; contract and default as written."""

    name: str
    contract: str
    usage: str
    default: str | None
    declared_in: str
    texts: Texts
    hidden: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class MethodDescription:
    """A method; `is_action`: callable from outside."""

    name: str
    usage: str
    is_action: bool
    is_native: bool
    arguments: tuple[ArgumentDescription, ...]
    declared_in: str
    texts: Texts
    line: int = 0

    @property
    def signature(self) -> str:
        """`name(first, second => default, *rest, **named)`."""
        parts: list[str] = []
        for item in self.arguments:
            if item.usage == "VarArgs":
                parts.append(f"*{item.name}")
            elif item.usage == "KwArgs":
                parts.append(f"**{item.name}")
            elif item.default is not None:
                parts.append(f"{item.name} => {item.default}")
            else:
                parts.append(item.name)
        return f"{self.name}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class ClassDescription:
    """A class: its own members, and the names of inherited ones."""

    name: str
    package: str
    version: str
    usage: str
    extends: tuple[str, ...]
    ancestors: tuple[str, ...]
    properties: tuple[PropertyDescription, ...]
    methods: tuple[MethodDescription, ...]
    inherited_properties: tuple[str, ...]
    """`Class.name` of properties that are not redeclared here."""
    inherited_methods: tuple[str, ...]
    texts: Texts
    file: str = ""
    line: int = 0

    def as_json(self) -> dict[str, object]:
        """The description as JSON."""
        return asdict(self)


def describe_class(type_: MuranoType) -> ClassDescription:
    """Everything a class declares. Raises MuranoError for metadata that cannot be read."""
    comments = _Comments(type_)
    own_properties = [_property(item, comments) for item in type_.properties.values()]
    own_methods = [
        _method(item, comments)
        for item in type_.methods.values()
        if not item.is_hidden or item.name in (".init", ".destroy")
    ]
    position = type_.declaration.position
    comment = comments.of_class(position.line)
    if not comment and type_.native is not None:
        comment = inspect.cleandoc(type_.native.python_class.__doc__ or "")
    return ClassDescription(
        type_.name,
        type_.package.name,
        type_.package.version,
        type_.usage,
        tuple(parent.name for parent in type_.parents),
        tuple(item.name for item in type_.ancestors[1:]),
        tuple(own_properties),
        tuple(own_methods),
        tuple(
            f"{item.declaring_type.name}.{name}"
            for name in type_.property_names()
            if name not in type_.properties
            for item in type_.property_declarations(name)[:1]
        ),
        tuple(
            f"{item.declaring_type.name}.{name}"
            for name in type_.method_names()
            if name not in type_.methods and not name.startswith((".", "__"))
            for item in type_.method_declarations(name)[:1]
        ),
        _texts(type_, comment),
        position.file,
        position.line,
    )


def _property(item: Property, comments: _Comments) -> PropertyDescription:
    hidden = constant_values(item, _META + "forms.Hidden")
    return PropertyDescription(
        item.name,
        node_text(item.contract) if item.native is None else "$",
        item.usage,
        None if item.default is None else node_text(item.default),
        item.declaring_type.name,
        _texts(item, comments.above(item.position.line) if item.native is None else ""),
        hidden is not None and not hidden.get("visible", False),
        item.position.line,
    )


def _method(item: Method, comments: _Comments) -> MethodDescription:
    if item.arguments is None:
        native = item.native
        arguments = () if native is None else tuple(_native_arguments(native))
    else:
        arguments = tuple(_argument(argument, comments) for argument in item.arguments)
    comment = "" if item.native is not None else comments.above(item.position.line)
    if item.native is not None:
        comment = inspect.cleandoc(item.native.function.__doc__ or "")
    return MethodDescription(
        {".init": "initialize", ".destroy": "destroy"}.get(item.name, item.name),
        item.usage,
        item.is_action,
        item.native is not None,
        arguments,
        item.declaring_type.name,
        _texts(item, comment),
        item.position.line,
    )


def _native_arguments(native: NativeMethod) -> Iterator[ArgumentDescription]:
    signature = inspect.signature(native.function).parameters
    for name, python_name in native.parameters.items():
        default = signature[python_name].default
        known = default is None or isinstance(default, (bool, int, float, str))
        yield ArgumentDescription(name, default=json.dumps(default) if known else None)


def _argument(item: Argument, comments: _Comments) -> ArgumentDescription:
    return ArgumentDescription(
        item.name,
        node_text(item.contract),
        item.usage,
        None if item.default is None else node_text(item.default),
        _texts(item, comments.above(item.position.line)),
    )


def _texts(subject: MuranoType | Property | Method | Argument, comment: str) -> Texts:
    found: dict[str, str] = {}
    for name in ("Title", "Description", "HelpText"):
        values = constant_values(subject, _META + name)
        found[name] = str(values["text"]) if values is not None and "text" in values else ""
    return Texts(found["Title"], found["Description"], found["HelpText"], comment)


class _Comments:
    """Comments of the file that a class is in."""

    def __init__(self, type_: MuranoType) -> None:
        file = type_.declaration.position.file
        name = file.partition("/Classes/")[2]
        text = ""
        # A class of the language itself is in none of the package's files, a native one in no file.
        for source in (type_.package.source, BuiltinCore()) if name else ():
            with contextlib.suppress(FileNotFoundError, KeyError):
                text = text or source.read_class(name)
        self.lines = text.splitlines()

    def of_class(self, line: int) -> str:
        """The comment above a class document, or above its `Name`."""
        found = self.above(line)
        if found or line < 1:
            return found
        for number, text in enumerate(self.lines[line - 1 :], line):
            if text.startswith("---"):
                break
            if text.startswith("Name:"):
                return self.above(number)
        return ""

    def above(self, line: int) -> str:
        """The comment that ends right above a line, with the line's indentation."""
        if not 0 < line <= len(self.lines):
            return ""
        here = self.lines[line - 1]
        indent = len(here) - len(here.lstrip(" -"))
        found: list[str] = []
        for text in reversed(self.lines[: line - 1]):
            bare = text.lstrip(" ")
            if not bare.startswith("#") or len(text) - len(bare) > indent:
                break
            found.append(bare.lstrip("#").strip())
        return "\n".join(reversed(found)).strip()


def node_text(node: Node) -> str:
    """A contract or default as source on one line."""
    if isinstance(node, Scalar):
        value = node.value
        if node.is_expression:
            return " ".join(str(value).split())
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return value if _PLAIN.match(value) else json.dumps(value, ensure_ascii=False)
        return str(value)
    if isinstance(node, SequenceNode):
        return f"[{_joined(node.items)}]"
    assert isinstance(node, MappingNode)
    return "{" + ", ".join(f"{node_text(k)}: {node_text(v)}" for k, v in node.pairs) + "}"


def _joined(items: Sequence[Node]) -> str:
    return ", ".join(node_text(item) for item in items)
