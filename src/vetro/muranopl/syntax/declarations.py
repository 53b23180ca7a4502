"""What the source of a class declares (muranopl.md sections 1.2, 2, 6, 8); `class_reader` reads it."""

from __future__ import annotations

from vetro.muranopl.values.errors import (
    MuranoError,
    Position,
)
from vetro.muranopl.values.records import made, record

from .names import Namespaces
from .yamltree import Mapping, Node


@record
class MetaDeclaration:
    """One item of a `Meta` list: a meta-class and the values of its properties."""

    type_name: str
    values: Mapping | None
    position: Position


@record
class ValueDeclaration:
    """A property of a class, or an argument of a method."""

    name: str
    contract: Node
    usage: str
    default: Node | None
    meta: list[MetaDeclaration]
    position: Position


class PropertyDeclaration(ValueDeclaration):
    """A property of a class."""


class ArgumentDeclaration(ValueDeclaration):
    """An argument of a method."""


@record
class MethodDeclaration:
    name: str
    usage: str
    scope: str
    arguments: list[ArgumentDeclaration]
    body: Node | None
    meta: list[MetaDeclaration]
    position: Position
    error: MuranoError | None = None
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
    places: dict[str, Position] = made(factory=dict[str, Position])
    """The places that name the classes in `extends` and `imports`."""

    def place_of(self, name: str) -> Position:
        """The place that names a class that this one extends or imports."""
        return self.places.get(name, self.position)
