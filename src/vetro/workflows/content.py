"""The second half of reading a file: elements to closures (§2).

A call is a closure ``(frame, scope) -> value``. Every call makes a scope of its own below the one it is
given; its parameters and its body are evaluated there. Names of functions, constant paths and
constant expressions are resolved here, so that whatever can be wrong before the first run is found before
it, with its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vetro.workflows.errors import (
    EvaluationError,
    Place,
    WorkflowError,
    WorkflowSyntaxError,
)
from vetro.workflows.running import Closure, Frame
from vetro.workflows.scopes import Scope
from vetro.workflows.source import Element
from vetro.workflows.values import CONTAINERS, TEXT, Json, scalar_text

Compile = Callable[["Compiler", Element], Closure]
BLOCKS = {"success", "failure", "empty"}
"""Elements that mean something only directly below their owner."""


class Deferred:
    """The content of `function`: evaluated when the function that got it asks for it."""

    __slots__ = ("closure", "frame", "scope")

    def __init__(self, closure: Closure, frame: Frame, scope: Scope) -> None:
        self.closure = closure
        self.frame = frame
        self.scope = scope

    def value(self) -> Json:
        """Evaluate it now."""
        return self.closure(self.frame, self.scope)


@dataclass(slots=True)
class Arguments:
    """What a call is given: constants from attributes, closures from parameters, in order."""

    element: Element
    constants: dict[str, str] = field(default_factory=dict[str, str])
    parameters: dict[str, Closure] = field(default_factory=dict[str, Closure])

    def __contains__(self, name: str) -> bool:
        return name in self.constants or name in self.parameters

    def constant(self, name: str) -> str | None:
        """The text of an attribute that no parameter replaces."""
        return None if name in self.parameters else self.constants.get(name)

    def require(self, *names: str) -> None:
        """Raises: WorkflowSyntaxError when one is not given."""
        for name in names:
            if name not in self:
                raise WorkflowSyntaxError(
                    f"{self.element.tag}: the argument {name!r} is missing", self.element.place
                )

    def evaluate(self, frame: Frame, own: Scope) -> dict[str, Json]:
        """The values, parameters in document order."""
        values: dict[str, Json] = dict(self.constants)
        for name, closure in self.parameters.items():
            value = closure(frame, own)
            values[name] = value.value() if isinstance(value, Deferred) else value
        return values


class Compiler:
    """Makes closures of one file's elements."""

    def __init__(self, functions: dict[str, Compile]) -> None:
        self.functions = functions
        self._rules = 0

    def next_rule(self) -> int:
        """A number for a rule without an id, stable for the file."""
        self._rules += 1
        return self._rules

    def call(self, element: Element) -> Closure:
        """The call of an element, with its place added to errors."""
        compile_function = self.functions.get(element.tag)
        if compile_function is None:
            raise unknown_function(element, self.functions)
        try:
            closure = compile_function(self, element)
        except WorkflowError as error:
            error.place = error.place or element.place
            raise
        return placed(closure, element.place)

    def arguments(self, element: Element, *, joined: Joins | None = None) -> Arguments:
        """The attributes and the `parameter` children; ``joined``: how the texts of one are put
        together, by its name.
        """
        found = Arguments(element, dict(element.attributes))
        for child in element.elements():
            if child.tag == "parameter":
                name = child.attributes.get("name")
                if not name:
                    raise WorkflowSyntaxError(
                        f"{element.tag}: a parameter has no name", child.place
                    )
                join = (joined or {}).get(name, join_plain)
                # A later one replaces an earlier one, at its own place in the order.
                found.parameters.pop(name, None)
                found.parameters[name] = self.content(child, join=join)
        return found

    def content(
        self, element: Element, *, join: Join | None = None, skip: frozenset[str] = frozenset()
    ) -> Closure:
        """What the body of an element evaluates to (§2.1)."""
        parts: list[str | Closure] = []
        after_parameter = False
        for child in element.children:
            if isinstance(child, str):
                if not after_parameter:
                    parts.append(child)
            elif child.tag == "parameter":
                after_parameter = True
            else:
                after_parameter = False
                if child.tag not in BLOCKS and child.tag not in skip:
                    parts.append(self.call(child))
        return join_parts(parts, join or join_plain, element.place)

    def block(self, element: Element, tag: str) -> Closure | None:
        """The first direct child block of a kind."""
        for child in element.elements():
            if child.tag == tag:
                return self.content(child)
        return None


Join = Callable[[list[tuple[bool, str]]], str]
"""Puts texts together; each with whether it stands in the file (else it is a value)."""
Joins = dict[str, Join]


def join_plain(pieces: list[tuple[bool, str]]) -> str:
    """One text after the other."""
    return "".join([text for _, text in pieces])


def join_parts(parts: list[str | Closure], join: Join, place: Place) -> Closure:
    """The table of §2.1."""
    closures = [part for part in parts if not isinstance(part, str)]
    literals = [part for part in parts if isinstance(part, str)]
    if not closures:
        constant = "".join(literals)
        return lambda frame, scope: constant
    if len(closures) == 1 and not "".join(literals).strip():
        only = closures[0]

        def single(frame: Frame, scope: Scope) -> Json:
            value = only(frame, scope)
            return value.strip() if isinstance(value, str) else value

        return single

    def several(frame: Frame, scope: Scope) -> Json:
        values = [
            part if isinstance(part, str) else evaluated(part(frame, scope)) for part in parts
        ]
        results = [
            value for part, value in zip(parts, values, strict=True) if not isinstance(part, str)
        ]
        if any(isinstance(value, CONTAINERS) for value in results):
            if len(results) > 1:
                return results
            frame.run.task.warn(place, "the text beside a list or a map is left out")
            return results[0]
        pieces = [
            (isinstance(part, str), scalar_text(value))
            for part, value in zip(parts, values, strict=True)
        ]
        length = sum([len(text) for _, text in pieces])
        if length > TEXT:
            raise EvaluationError(
                f"the text would have {length} characters; at most {TEXT} are allowed"
            )
        return join(pieces).strip()

    return several


def evaluated(value: Json) -> Json:
    """A value in the middle of content is not deferred."""
    return value.value() if isinstance(value, Deferred) else value


def placed(closure: Closure, place: Place) -> Closure:
    """Adds place and rules to errors that have none."""

    def call(frame: Frame, scope: Scope) -> Json:
        try:
            return closure(frame, scope)
        except WorkflowError as error:
            if error.place is None:
                error.place = place
            if error.rules is None:
                error.rules = () if frame.rule is None else frame.rule.chain()
            raise

    return call


def unknown_function(element: Element, functions: dict[str, Compile]) -> WorkflowSyntaxError:
    """An error that suggests the function that was meant."""
    import difflib

    near = difflib.get_close_matches(element.tag, functions, 1)
    hint = f", did you mean {near[0]!r}?" if near else ""
    return WorkflowSyntaxError(f"there is no function {element.tag!r}{hint}", element.place)


def text_argument(values: dict[str, Json], name: str, function: str) -> str:
    """A text argument; numbers and booleans become text. Raises: EvaluationError."""
    value = values.get(name)
    if value is None or isinstance(value, CONTAINERS):
        from vetro.workflows.values import type_name

        raise EvaluationError(f"{function}: {name!r} must be text, not {type_name(value)}")
    return scalar_text(value)
