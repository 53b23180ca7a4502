"""What a Heat template declares: its parameters with their constraints, and their groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    MappingNode,
    read_yaml_and_node,
)
from vetro.json_values import Json
from vetro.packages.errors import PackageFormatError, PackageLimitError, PackageLoadError
from vetro.packages.hot.parameters import Constraint, Parameter, violated

TEMPLATE = "template.yaml"
FILES = "HotFiles/"
"""Folder of the files that the template names (below ``Resources/``)."""
ENVIRONMENTS = "HotEnvironments/"
CLASS_FILE = "generated.yaml"
"""The name that messages give to the text of the generated class."""
TYPES = ("string", "number", "comma_delimited_list", "json", "boolean")
LIMITS = DocumentLimits(bytes=512 * 1024, depth=100, aliases=1000, nodes=100_000)


@dataclass(frozen=True)
class HotTemplate:
    """A template's parameters by name, and their names by group."""

    parameters: dict[str, Parameter]
    groups: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = field(default=())
    """Names of the package's files below ``Resources/HotFiles/``."""
    environments: tuple[str, ...] = field(default=())
    """Names of those below ``Resources/HotEnvironments/``."""


def read_template(content: bytes, resources: Sequence[str]) -> HotTemplate:
    """Read a package's ``template.yaml``; ``resources``: the names of its files below ``Resources/``.

    Errors: ``PackageFormatError`` for what is not a Heat template or has a parameter of an unknown
    type, with its place; ``PackageLimitError``; ``PackageLoadError`` for what is not YAML.
    """
    template, problems = examine_template(content, resources)
    if problems:
        raise problems[0]
    return template


def examine_template(
    content: bytes, resources: Sequence[str]
) -> tuple[HotTemplate, list[PackageFormatError]]:
    """As ``read_template``, with the mistakes of all parameters instead of an error for the first."""
    try:
        document, node = read_yaml_and_node(content, LIMITS)
    except DocumentTooLarge as error:
        raise PackageLimitError(
            error.message, file=TEMPLATE, line=error.line, column=error.column
        ) from error
    except DocumentError as error:
        raise PackageLoadError(
            error.message, file=TEMPLATE, line=error.line, column=error.column
        ) from error
    read = _Reader(node)
    if not isinstance(document, dict) or not isinstance(
        cast("dict[str, Json]", document).get("resources"), dict
    ):
        raise read.wrong("Not a HOT template: it has no section resources that is a map", "E004")
    declared = cast("dict[str, Json]", document)
    parameters: dict[str, Parameter] = {}
    groups: tuple[tuple[str, ...], ...] = ()
    problems: list[PackageFormatError] = []
    read.place = read.entry(node, "parameters")
    section = read.place
    for name, body in read.map(declared.get("parameters"), "parameters").items():
        read.place = read.entry(section, name)
        try:
            parameters[name] = read.parameter(name, body)
        except PackageFormatError as error:
            problems.append(error)
    read.place = read.entry(node, "parameter_groups")
    try:
        groups = read.groups(declared.get("parameter_groups"), parameters)
    except PackageFormatError as error:
        problems.append(error)
    files, environments = (tuple(_below(resources, one)) for one in (FILES, ENVIRONMENTS))
    return HotTemplate(parameters, groups, files, environments), problems


def _below(names: Sequence[str], folder: str) -> list[str]:
    return [name.removeprefix(folder) for name in names if name.startswith(folder)]


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


class _Reader:
    """Reads the parts of a template; ``place`` is the node that a mistake is reported at."""

    def __init__(self, place: object) -> None:
        self.place = place

    @staticmethod
    def entry(node: Any, name: str) -> Any:
        """The value node of a key; the map itself when it has none of its own."""
        pairs = cast("list[tuple[Any, Any]]", node.value) if isinstance(node, MappingNode) else []
        return next((value for key, value in pairs if key.value == name), node)

    def wrong(self, message: str, code: str = "E091") -> PackageFormatError:
        """An error at the present place."""
        mark = getattr(self.place, "start_mark", None)
        place = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        return PackageFormatError(message, file=TEMPLATE, line=place[0], column=place[1], code=code)

    def map(self, value: Json, what: str) -> dict[str, Json]:
        """A map with texts as keys; null is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(f"{what} must be a map")
        return {str(key): item for key, item in cast("dict[object, Json]", value).items()}

    def list(self, value: Json, what: str) -> list[Json]:
        """A list; null is an empty one."""
        if value is not None and not isinstance(value, list):
            raise self.wrong(f"{what} must be a list")
        return cast("list[Json]", value or [])

    def parameter(self, name: str, given: Json) -> Parameter:
        """One parameter."""
        body = self.map(given, f"the parameter {name}")
        type_ = body.get("type")
        if type_ not in TYPES:
            said = "it has none" if type_ is None else repr(type_)
            raise self.wrong(
                f"Unsupported parameter type of {name}: {said}; the types are {', '.join(TYPES)}"
            )
        constraints: list[Constraint] = []
        for one in self.list(body.get("constraints"), f"the constraints of the parameter {name}"):
            constraints += self.constraints(name, one)
        read = Parameter(
            name,
            type_,
            label=_text(body.get("label")),
            description=_text(body.get("description")),
            default=body.get("default"),
            has_default=body.get("default") is not None,
            hidden=self.truth(name, "hidden", body.get("hidden")),
            immutable=self.truth(name, "immutable", body.get("immutable")),
            tags=self.tags(name, body.get("tags")),
            constraints=tuple(constraints),
        )
        if (constraint := violated(read)) is not None:
            raise self.wrong(
                f"The default of the parameter {name} violates its constraint {constraint};"
                " change one of them: Heat refuses the template"
            )
        return read

    def tags(self, name: str, given: Json) -> tuple[str, ...]:
        """A list of texts, each once."""
        found = self.list(given, f"tags of the parameter {name}")
        if not all(isinstance(one, str) for one in found):
            raise self.wrong(f"tags of the parameter {name} must be texts")
        return tuple(dict.fromkeys(one for one in found if one))

    def truth(self, name: str, key: str, value: Json) -> bool:
        """A boolean; null is false."""
        if value is None or isinstance(value, bool):
            return bool(value)
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise self.wrong(f"{key} of the parameter {name} must be true or false")

    def constraints(self, name: str, given: Json) -> list[Constraint]:
        """The rules of one entry. Rules of other kinds (``custom_constraint``) are the back end's."""
        body = self.map(given, f"a constraint of the parameter {name}")
        message = _text(body.get("description"))
        found: list[Constraint] = []
        for kind, bound in body.items():
            where = f"the constraint {kind} of the parameter {name}"
            if kind == "allowed_values":
                found.append(Constraint(kind, message, tuple(self.list(bound, where))))
            elif kind in ("length", "range"):
                limits = self.map(bound, where)
                least, most = (self.number(limits.get(key), where) for key in ("min", "max"))
                if least is None and most is None:
                    raise self.wrong(f"{where} needs min or max")
                if least is not None and most is not None and least > most:
                    raise self.wrong(f"{where} has min {least} above max {most}: no value fits")
                found.append(Constraint(kind, message, least=least, most=most))
            elif kind == "allowed_pattern":
                found.append(Constraint(kind, message, pattern=self.pattern(bound, where)))
            elif kind == "modulo":
                parts = self.map(bound, where)
                step, offset = (self.number(parts.get(key), where) for key in ("step", "offset"))
                if not isinstance(step, int) or not isinstance(offset, int) or step == 0:
                    raise self.wrong(f"{where} needs whole numbers step (not 0) and offset")
                found.append(Constraint(kind, message, step=step, offset=offset))
        return found

    def number(self, value: Json, where: str) -> int | float | None:
        """A number, or text that is one."""
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        try:
            return float(value) if "." in str(value) else int(value)
        except (ValueError, TypeError) as error:
            raise self.wrong(f"{where} must have numbers, not {value!r:.60}") from error

    def pattern(self, value: Json, where: str) -> str:
        """A pattern for the whole value, as Heat means it."""
        text = str(value)
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise self.wrong(f"{where} is not a regular expression: {error}") from error
        # Flags at the start must stay there.
        return text if text.startswith("(?") else f"^(?:{text})$"

    def groups(
        self, value: Json, parameters: Mapping[str, Parameter]
    ) -> tuple[tuple[str, ...], ...]:
        """The known parameters of each group, each once, then those of no group."""
        rest = dict.fromkeys(parameters)
        groups: list[tuple[str, ...]] = []
        for given in self.list(value, "parameter_groups"):
            body = self.map(given, "a group of parameter_groups")
            names = [str(one) for one in self.list(body.get("parameters"), "a group's parameters")]
            known = tuple(name for name in dict.fromkeys(names) if name in rest)
            for name in known:
                del rest[name]
            if known:
                groups.append(known)
        if rest:
            groups.append(tuple(rest))
        return tuple(groups)
