"""A face's OpenAPI document: the framework's, completed with our answers, errors and security.

The framework cannot derive schemas from the values of handlers, so each `Endpoint` says what it answers.
The common errors follow from what the call takes and who may make it; `Endpoint.errors` adds a call's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from msgspec import UNSET, UnsetType

from vetro.http.declaration import Endpoint, Reply
from vetro.http.description import JsonSchema

JSON = "application/json"
OCTETS = "application/octet-stream"
BYTES: dict[str, object] = {"type": "string", "format": "binary"}
Document = dict[str, Any]


class Named(dict[str, Any]):
    """A schema with a name: it is stored once among the components and referred to."""

    def __init__(self, name: str, schema: JsonSchema) -> None:
        super().__init__(schema)
        self.name = name


def shape(name: str, properties: Mapping[str, object], optional: Sequence[str] = ()) -> Named:
    """A named object whose properties are required, except the ``optional`` ones."""
    form: dict[str, object] = {"type": "object", "properties": dict(properties)}
    required = [one for one in properties if one not in optional]
    if required:
        form["required"] = required
    return Named(name, form)


def shape_of(
    type_: type[Any], name: str = "", optional: Iterable[str] = (), /, **said: JsonSchema
) -> Named:
    """The schema of what a struct or a ``TypedDict`` is sent as.

    A field may be absent if it can be ``UNSET``, is ``NotRequired`` or is among the ``optional`` ones.
    ``said``: the schemas of fields whose types say too little.
    """
    absent = set(optional)
    hints: dict[str, object] = {}
    if not is_typeddict(type_):
        for one in msgspec.structs.fields(type_):
            hints[one.encode_name] = one.type
            absent |= {one.encode_name} if one.default is UNSET else set()
    else:
        for key, hint in get_type_hints(type_, include_extras=True).items():
            maybe_absent = get_origin(hint) is NotRequired
            hints[key] = get_args(hint)[0] if maybe_absent else hint
            absent |= {key} if maybe_absent else set()
    forms = {key: said[key] if key in said else _form(hint) for key, hint in hints.items()}
    return shape(name or type_.__name__, forms, [key for key in forms if key in absent])


def _form(type_: Any) -> JsonSchema:
    """The schema of a field's type, as far as what is sent needs it."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin is UnionType or origin is Union:
        (form,) = (_form(one) for one in inner if one not in (NoneType, UnsetType))
        return maybe(form) if NoneType in inner else form
    if origin in (list, tuple):
        return listed(_form(inner[0]))
    if is_typeddict(type_) or hasattr(type_, "__struct_fields__"):
        return shape_of(type_)
    return _SIMPLE.get(type_, {"type": "object"})


_SIMPLE: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    object: {},
}


def listed(items: JsonSchema) -> dict[str, Any]:
    """An array of these."""
    return {"type": "array", "items": items}


def maybe(form: JsonSchema) -> dict[str, object]:
    """This schema, or null."""
    if isinstance(form, Named) or "type" not in form:
        return {"anyOf": [form, {"type": "null"}]}
    kinds: object = form["type"]
    return {**form, "type": [*(kinds if isinstance(kinds, list) else [kinds]), "null"]}


@dataclass(frozen=True)
class Security:
    """How a face's callers authenticate: schemes by name, and the calls that need none."""

    schemes: Mapping[str, Mapping[str, object]]
    public: Callable[[str, str], bool] = lambda method, path: False


TOKEN = {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}
BEARER = {"type": "http", "scheme": "bearer"}
FAULT = Named(
    "Fault",
    {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "code": {"type": "integer"},
                    "title": {"type": "string"},
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "request_id": {"type": "string"},
                },
                "required": ["code", "title", "message"],
            }
        },
        "required": ["error"],
    },
)


def finish(
    document: Document,
    calls: Mapping[str, Endpoint[Any]],
    security: Security,
    *,
    fault: JsonSchema = FAULT,
    html: bool = False,
    text: bool = False,
    conditional: bool = False,
    project_limits: bool = False,
) -> Document:
    """A copy of the document with the face's answers, errors and security.

    ``calls``: by ``METHOD /path``. ``html``, ``text``: errors may also be a page, or plain text.
    ``conditional``: answers have entity tags.
    ``project_limits``: a project that floods is refused.
    """
    shapes: dict[str, object] = {}
    paths: Document = {}
    for path, item in document["paths"].items():
        paths[path] = {}
        for verb, given in cast("dict[str, Document]", item).items():
            operation = dict(given)
            call = calls.get(f"{verb.upper()} {path}")
            public = security.public(verb.upper(), path)
            codes = _errors(operation, path, public)
            codes |= {429} if project_limits and not public else set()
            if call is not None:
                reply = call.answer
                operation["responses"] = _good(reply, shapes)
                if conditional and verb == "get" and reply.status == 200:
                    operation["responses"]["304"] = {"description": "Not Modified"}
                codes = {*codes, *call.errors} - {*reply.others}
            error = {kind: {"schema": _placed(fault, shapes)} for kind in _kinds(html, text)}
            for code in sorted(codes):
                operation["responses"][str(code)] = {
                    "description": HTTPStatus(code).phrase,
                    "content": error,
                }
            operation["security"] = [] if public else [{one: []} for one in security.schemes]
            paths[path][verb] = operation
    known = document.get("components", {})
    return {
        **document,
        "paths": paths,
        "components": {
            **known,
            "schemas": {**known.get("schemas", {}), **shapes},
            "securitySchemes": {name: dict(one) for name, one in security.schemes.items()},
        },
    }


def _kinds(html: bool, text: bool) -> tuple[str, ...]:
    return (JSON, *(["text/html"] if html else []), *(["text/plain"] if text else []))


def _good(reply: Reply, shapes: dict[str, object]) -> Document:
    answers: Document = {}
    for status, schema in ((reply.status, reply.schema), *reply.others.items()):
        answers[str(status)] = {"description": HTTPStatus(status).phrase}
        if schema is not None:
            placed = _placed(schema, shapes)
            media = reply.media if schema is reply.schema else (JSON,)
            answers[str(status)]["content"] = {
                kind: {"schema": BYTES if kind == OCTETS else placed} for kind in media
            }
    return answers


def _errors(operation: Document, path: str, public: bool) -> set[int]:
    """The errors that are common to such calls, including those before the handler."""
    codes = {400, 406, 408, 414, 431, 500, 503}
    if not public:
        codes |= {401, 403}
    if "{" in path:
        codes.add(404)
    headers = cast("list[Document]", operation.get("parameters") or [])
    if any(one["name"] == "If-Match" for one in headers):
        codes.add(412)
    if "requestBody" in operation:
        codes |= {413, 415, 507}
    return codes


def _placed(form: object, shapes: dict[str, object]) -> object:
    """A schema with references in place of named schemas, which are added to ``shapes``."""
    if isinstance(form, Named):
        if form.name not in shapes:
            shapes[form.name] = {}  # it may contain itself
            shapes[form.name] = _placed(dict(form), shapes)
        return {"$ref": f"#/components/schemas/{form.name}"}
    if isinstance(form, Mapping):
        given = cast("Mapping[str, object]", form)
        return {name: _placed(one, shapes) for name, one in given.items()}
    if isinstance(form, list):
        return [_placed(one, shapes) for one in cast("list[object]", form)]
    return form
