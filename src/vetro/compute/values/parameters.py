"""Parameters of compute calls: how they are merged, and the errors of wrong ones (compute-node-api.md §2)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import parse_qsl

from vetro.compute.values.faults import invalid_argument, invalid_parameters
from vetro.compute.values.records import Json
from vetro.http import MalformedBody, UnsupportedMediaType, content_type, context_of, read_body
from vetro.http.endpoint import AnyRequest
from vetro.http.parameters import FieldError, Param, kind_of
from vetro.json_texts import NotJson, decode_json

Params = dict[str, Any]
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


async def read_parameters(request: AnyRequest, path: Mapping[str, str]) -> Params:
    """Path, query and body as one map; path before query before body, a falsy value yields.

    Errors: 400 ``InvalidContent`` for a body that is not JSON, 413, 415, 500 ``InvalidParameters`` for
    JSON that is not an object.
    """
    given = await _read_body(request)
    queries: Params = {}
    for name in request.query_params:
        values = request.query_params.getall(name)
        queries[name] = values[0] if len(values) == 1 else values
    merged: Params = {}
    for source in (given, queries, dict(path)):
        for name, value in source.items():
            if value or name not in merged:
                merged[name] = value
    return merged


async def _read_body(request: AnyRequest) -> Params:
    raw = await read_body(request, context_of(request).conventions.json_limit_bytes)
    if not raw:
        return {}
    kind = content_type(request)
    if kind == "application/x-www-form-urlencoded":
        try:
            pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=1000)
        except ValueError as error:
            raise MalformedBody("Malformed request body") from error
        return dict(pairs)
    if kind not in ("", "application/json", "text/json"):
        raise UnsupportedMediaType(f"Content type {kind} is not application/json")
    try:
        value: object = decode_json(raw)
    except NotJson as error:
        raise MalformedBody("Malformed request body") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_parameters(
            [FieldError("body", f"value is not an object. (was: [object {kind_of(value)}])")]
        )
    return cast("Params", value)


def check_declared(
    params: Mapping[str, Json], declared: Iterable[Param], path: Iterable[str]
) -> None:
    """Strict routes refuse what they do not know, before anything else. Errors: 409."""
    known = {*path}
    for param in declared:
        known.update((param.name, *param.aliases))
    for name in params:
        if name not in known:
            raise invalid_argument(f"`{name}` is not an explicitly defined parameter")


def validate(params: Params, declared: Sequence[Param]) -> None:
    """Check every declared parameter; all failures are reported, in declared order. Errors: 500.

    Values given under an alias are moved to the name.
    """
    errors: list[FieldError] = []
    for param in declared:
        for alias in param.aliases:
            if alias in params:
                value = params.pop(alias)
                params.setdefault(param.name, value)
        if param.name not in params and not param.required:
            continue
        for problem in param.rule.check(param.name, params.get(param.name, ...)):
            named = isinstance(problem, FieldError)
            errors.append(problem if named else FieldError(param.name, problem))
    if errors:
        raise invalid_parameters(errors)
