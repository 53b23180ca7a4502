"""Intrinsic functions: what a template value refers to, and what it evaluates to.

A function is a map with exactly one key, the function's name. `references` walks a value
without evaluating it (for the dependency graph and for validation); `resolve` evaluates it
against a `Context`. Functions of functions are evaluated from the inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vetro.digits import is_number
from vetro.stacks.errors import TemplateError, UnresolvedReference, brief
from vetro.stacks.model import Json
from vetro.stacks.template.later_functions import FUNCTIONS, PREFIX, text_of

PSEUDO_PARAMETERS = {
    "OS::stack_name": "name",
    "AWS::StackName": "name",
    "OS::stack_id": "id",
    "AWS::StackId": "id",
    "OS::project_id": "project",
    "AWS::AccountId": "project",
    "AWS::Region": "region",
    "AWS::Partition": "partition",
}


class Unknown:
    """Stands for a value that exists only after an operation (used when planning)."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"<known after: {self.reason}>"

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """A use of another resource (or of a parameter or file)."""

    kind: str
    """`resource`, `attribute`, `parameter` or `file`."""
    name: str
    path: tuple[str | int, ...] = ()


class Context(Protocol):
    """What functions are evaluated against."""

    def parameter(self, name: str) -> Json: ...

    def reference_id(self, resource: str) -> Json: ...

    def attribute(self, resource: str, name: str) -> Json: ...

    def file(self, name: str) -> str: ...

    def mapping(self, name: str, first: str, second: str) -> Json: ...


@dataclass(slots=True)
class Names:
    """What a template declares; functions may refer to nothing else."""

    resources: frozenset[str]
    parameters: frozenset[str]
    files: frozenset[str] = field(default_factory=frozenset[str])
    mappings: Mapping[str, Json] = field(default_factory=dict[str, Json])


def function_of(value: Json) -> tuple[str, Json] | None:
    """Name and argument if the value is a function call."""
    if isinstance(value, dict):
        entries: list[tuple[Any, Json]] = list(_entries(value))
        if len(entries) == 1 and entries[0][0] in _FUNCTIONS:
            return str(entries[0][0]), entries[0][1]
    return None


def references(value: Json, names: Names) -> Iterator[Reference]:
    """Everything the value refers to. Raises `UnresolvedReference` or `TemplateError`."""
    call = function_of(value)
    if call is None:
        inner: list[Json] = []
        if isinstance(value, dict):
            inner = [item for _, item in _entries(value)]
        elif isinstance(value, list):
            inner = _list(value)
        for item in inner:
            if not isinstance(item, str):  # most are texts
                yield from references(item, names)
        return
    name, argument = call
    if name in ("get_input", "Fn::GetAZs"):
        return
    if name in ("get_resource", "Ref"):
        yield _ref(name, argument, names)
    elif name in ("get_attr", "Fn::GetAtt"):
        yield _attribute(name, argument, names)
        if isinstance(argument, list):
            for step in _list(argument)[2:]:
                yield from references(step, names)
    elif name == "get_param":
        steps: list[Json] = _list(argument) if isinstance(argument, list) else [argument]
        yield _parameter(name, steps[0] if steps else None, names)
        for step in steps[1:]:
            yield from references(step, names)
    elif name == "get_file":
        if not isinstance(argument, str):
            raise TemplateError("get_file takes the name of a file")
        if argument not in names.files:
            raise UnresolvedReference(f"get_file: there is no file {argument!r} with the template")
        yield Reference("file", argument)
    elif name in ("resource_facade", "Fn::ResourceFacade"):
        raise TemplateError(f"{name} is for nested templates only")
    else:
        yield from references(argument, names)


def used_by(value: Json, attributes: bool) -> Iterator[str]:
    """The resources that a value uses, whether there are any: their attributes, or else themselves."""
    call = function_of(value)
    known = ("get_attr", "Fn::GetAtt") if attributes else ("get_resource", "Ref")
    if call is not None and call[0] in known:
        argument: Json = call[1]
        steps = _list(argument) if isinstance(argument, list) else [str(argument).split(".", 1)[0]]
        yield from (str(one) for one in steps[:1])
    inner: list[Json] = []
    if isinstance(value, dict):
        inner = [item for _, item in _entries(value)]
    elif isinstance(value, list):
        inner = _list(value)
    for one in inner:
        yield from used_by(one, attributes)


def _ref(function: str, argument: Json, names: Names) -> Reference:
    if not isinstance(argument, str):
        raise TemplateError(f"{function} takes the name of a resource, not {brief(argument)}")
    if argument in names.resources:
        return Reference("resource", argument)
    if function == "Ref" and (argument in names.parameters or argument in PSEUDO_PARAMETERS):
        return Reference("parameter", argument)
    raise UnresolvedReference(_unknown(function, "resource", argument, names.resources))


def _attribute(function: str, argument: Json, names: Names) -> Reference:
    steps: list[Json]
    if function == "Fn::GetAtt" and isinstance(argument, str):
        steps = list(argument.split(".", 1))
    elif isinstance(argument, list):
        steps = _list(argument)
    else:
        steps = []
    if len(steps) == 1:
        steps = [*steps, "show"]  # all attributes
    if len(steps) < 2 or not isinstance(steps[0], str) or not isinstance(steps[1], str):
        raise TemplateError(f"{function} takes [resource, attribute, path…], not {brief(argument)}")
    if steps[0] not in names.resources:
        raise UnresolvedReference(_unknown(function, "resource", steps[0], names.resources))
    path = tuple(step for step in steps[2:] if isinstance(step, str | int))
    return Reference("attribute", steps[0], (steps[1], *path))


def _parameter(function: str, argument: Json, names: Names) -> Reference:
    if not isinstance(argument, str):
        raise TemplateError(f"{function} takes the name of a parameter, not {brief(argument)}")
    if argument not in names.parameters and argument not in PSEUDO_PARAMETERS:
        raise UnresolvedReference(_unknown(function, "parameter", argument, names.parameters))
    return Reference("parameter", argument)


def in_mapping(mappings: Mapping[str, Json], name: str, first: str, second: str) -> Json:
    """What `Fn::FindInMap` gives. Raises `TemplateError` when the template's mappings do not have it."""
    try:
        return mappings[name][first][second]
    except (KeyError, TypeError):
        raise TemplateError(f"Fn::FindInMap: there is no {name}.{first}.{second}") from None


def resolve(value: Json, context: Context) -> Json:
    """The value with every function evaluated. Raises `TemplateError`."""
    call = function_of(value)
    if call is not None:
        name, argument = call
        if name == "get_input":
            return value  # opaque: evaluated inside the guest
        if name not in _RAW:
            argument = resolve(argument, context)
            unknown = find_unknown(argument)
            if unknown is not None:
                return unknown
        return _FUNCTIONS[name](name, argument, context)
    if isinstance(value, dict):
        return {str(key): resolve(item, context) for key, item in _entries(value)}
    if isinstance(value, list):
        return [resolve(item, context) for item in _list(value)]
    return value


def find_unknown(value: Json) -> Unknown | None:
    """The first part of a value that is not known yet."""
    if isinstance(value, Unknown):
        return value
    items: list[Json] = []
    if isinstance(value, dict):
        items = [item for _, item in _entries(value)]
    elif isinstance(value, list):
        items = _list(value)
    for item in items:
        found = find_unknown(item)
        if found is not None:
            return found
    return None


# --- the functions ---------------------------------------------------------------------


def _ref_value(function: str, argument: Json, context: Context) -> Json:
    try:
        return context.reference_id(argument)
    except KeyError:
        return context.parameter(argument)


def _get_attr(function: str, argument: Json, context: Context) -> Json:
    steps: list[Json] = argument.split(".", 1) if isinstance(argument, str) else _list(argument)
    value = context.attribute(steps[0], steps[1] if len(steps) > 1 else "show")
    return follow(value, [resolve(step, context) for step in steps[2:]])


def follow(value: Json, path: list[Json]) -> Json:
    """Walk into maps and lists; null as soon as a step does not exist."""
    for step in path:
        if isinstance(value, Unknown):
            return value
        if isinstance(value, dict):
            entries: dict[Any, Json] = dict(_entries(value))
            value = entries.get(step, entries.get(str(step)))
        elif isinstance(value, list):
            items = _list(value)
            if not is_number(str(step).lstrip("-")):
                return None
            index = int(step)
            value = items[index] if -len(items) <= index < len(items) else None
        else:
            return None
    return value


def _get_param(function: str, argument: Json, context: Context) -> Json:
    if isinstance(argument, list):
        steps = _list(argument)
        found = follow(context.parameter(steps[0]), steps[1:])
        return "" if found is None else found
    return context.parameter(argument)


def _str_replace(function: str, argument: Json, context: Context) -> Json:
    if isinstance(argument, dict):
        entries = dict(_entries(argument))
        template, params = entries.get("template"), entries.get("params")
    elif isinstance(argument, list) and len(_list(argument)) == 2:  # Fn::Replace
        params, template = _list(argument)
    else:
        template = params = None
    if not isinstance(template, str) or not isinstance(params, dict):
        raise TemplateError(f"{function} takes a text and a map of replacements")
    # Longest keys first and in one pass, so that a replacement is not replaced again.
    replacements = {str(key): text_of(item) for key, item in _entries(params)}
    return _replace_all(template, replacements)


def _replace_all(template: str, replacements: Mapping[str, str]) -> str:
    keys = sorted((key for key in replacements if key), key=len, reverse=True)
    result: list[str] = []
    at = 0
    while at < len(template):
        for key in keys:
            if template.startswith(key, at):
                result.append(replacements[key])
                at += len(key)
                break
        else:
            result.append(template[at])
            at += 1
    return "".join(result)


def _join(function: str, argument: Json, context: Context) -> Json:
    if not isinstance(argument, list) or len(_list(argument)) < 2:
        raise TemplateError(f"{function} takes [delimiter, list]")
    delimiter, *lists = _list(argument)
    if not isinstance(delimiter, str) or not all(isinstance(one, list) for one in lists):
        raise TemplateError(f"{function} takes [delimiter, list]")
    return delimiter.join(text_of(item) for one in lists for item in _list(one))


def _select(function: str, argument: Json, context: Context) -> Json:
    if not isinstance(argument, list) or len(_list(argument)) != 2:
        raise TemplateError(f"{function} takes [key or index, map or list]")
    key, collection = _list(argument)
    if not isinstance(collection, dict | list):
        raise TemplateError(f"{function} selects from a map or a list, not {brief(collection)}")
    if isinstance(collection, list) and not is_number(str(key)):
        raise TemplateError(f"{function}: {key!r} is not an index of the list")
    return follow(collection, [key])


def _split(function: str, argument: Json, context: Context) -> Json:
    items = _list(argument) if isinstance(argument, list) else []
    texts = items[:2]
    if len(items) not in (2, 3) or not all(isinstance(one, str) for one in texts) or not texts[0]:
        raise TemplateError(f"{function} takes [delimiter, text] or [delimiter, text, index]")
    parts: list[Json] = texts[1].split(texts[0])
    if len(items) == 2:
        return parts
    if not is_number(str(items[2])) or int(items[2]) >= len(parts):
        raise TemplateError(f"{function}: there is no part {items[2]!r} of {len(parts)}")
    return parts[int(items[2])]


def _base64(function: str, argument: Json, context: Context) -> Json:
    # The interfaces that want user data in base64 are behind us: the text itself is what is meant.
    return text_of(argument)


def _find_in_map(function: str, argument: Json, context: Context) -> Json:
    items = _list(argument) if isinstance(argument, list) else []
    if len(items) != 3:
        raise TemplateError(f"{function} takes [map, first key, second key]")
    return context.mapping(*(str(item) for item in items))


def _facade(function: str, argument: Json, context: Context) -> Json:
    raise TemplateError(f"{function} is for nested templates only")


def _strictly(function: str, argument: Json, context: Context) -> Json:
    """`str_replace` in which every key must be in the text; `vstrict`: and every value must be one."""
    if isinstance(argument, dict):
        entries = dict(_entries(argument))
        template, params = entries.get("template"), entries.get("params")
        if isinstance(template, str) and isinstance(params, dict):
            missing = sorted(str(key) for key, _ in _entries(params) if str(key) not in template)
            if missing:
                raise TemplateError(
                    f"{_called(function)}: the text has no {', '.join(map(repr, missing))}"
                )
            empty = sorted(str(key) for key, one in _entries(params) if one in (None, ""))
            if empty and function.endswith("vstrict"):
                raise TemplateError(
                    f"{_called(function)}: the value of {', '.join(map(repr, empty))} is empty"
                )
    return _str_replace(_called(function), argument, context)


def _called(function: str) -> str:
    return function.removeprefix(PREFIX)


def _member_list(function: str, argument: Json, context: Context) -> Json:
    """`[key name, value name, ['.member.0.Key=…', '.member.0.Value=…']]` as a map."""
    items = _list(argument) if isinstance(argument, list) else []
    if len(items) != 3 or not isinstance(items[2], list):
        raise TemplateError(f"{function} takes [key name, value name, list of members]")
    members: dict[str, dict[str, str]] = {}
    for one in _list(items[2]):
        name, _, value = str(one).partition("=")
        number, _, field = name.removeprefix(".member.").partition(".")
        members.setdefault(number, {})[field] = value
    return {
        one[str(items[0])]: one.get(str(items[1]), "")
        for one in members.values()
        if str(items[0]) in one
    }


def _later(function: Callable[[Json], Json]) -> Callable[[str, Json, Context], Json]:
    return lambda _name, argument, _context: function(argument)


def _alone(function: str, argument: Json, context: Context) -> Json:
    raise TemplateError(f"{_called(function)} is for conditions and has no value elsewhere")


FOLLOW = "vetro::follow"
"""`[value, step…]`: a step into what an output of a nested template gives; templates do not write it."""

_FUNCTIONS: dict[str, Callable[[str, Json, Context], Json]] = {
    **{PREFIX + name: _later(function) for name, function in FUNCTIONS.items()},
    **{PREFIX + name: _strictly for name in ("str_replace_strict", "str_replace_vstrict")},
    **{PREFIX + name: _alone for name in ("if", "not", "and", "or")},
    "Fn::MemberListToMap": _member_list,
    FOLLOW: lambda _name, argument, _context: follow(argument[0], argument[1:]),
    "get_resource": lambda _name, argument, context: context.reference_id(argument),
    "Ref": _ref_value,
    "get_attr": _get_attr,
    "Fn::GetAtt": _get_attr,
    "get_param": _get_param,
    "get_file": lambda _name, argument, context: context.file(argument),
    "get_input": lambda name, argument, _context: {name: argument},
    "str_replace": _str_replace,
    "Fn::Replace": _str_replace,
    "list_join": _join,
    "Fn::Join": _join,
    "Fn::Select": _select,
    "str_split": _split,
    "Fn::Split": _split,
    "Fn::Base64": _base64,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": lambda _name, _argument, _context: ["nova"],
    "resource_facade": _facade,
    "Fn::ResourceFacade": _facade,
}
# Their arguments are names, or they resolve their own.
_RAW = frozenset(
    {"get_resource", "Ref", "get_attr", "Fn::GetAtt", "get_input", "get_file", "Fn::GetAZs"}
)


def _entries(value: Any) -> list[tuple[object, Json]]:
    return list(value.items())


def _list(value: Any) -> list[Json]:
    return list(value)


def _unknown(function: str, kind: str, name: str, known: frozenset[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{function}: there is no {kind} {name!r}{hint}"
