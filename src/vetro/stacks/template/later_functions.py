"""Functions that HOT has had since 2015. Their arguments are evaluated when they arrive here.

A call is marked with `PREFIX` when a template is read (`vetro.stacks.template.versions`): in a template of an
older version the same map is data.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from vetro.digits import is_number
from vetro.stacks.errors import TemplateError, brief
from vetro.stacks.model import Json

PREFIX = "hot::"


def digest(argument: Json) -> Json:
    """`[algorithm, text]`: the digest in hex."""
    parts = _parts("digest", argument, 2, "[algorithm, text]")
    algorithm, text = parts
    if not isinstance(text, str) or not isinstance(algorithm, str):
        raise TemplateError("digest takes [algorithm, text]")
    if algorithm.lower() not in hashlib.algorithms_guaranteed or "shake" in algorithm.lower():
        known = sorted(one for one in hashlib.algorithms_guaranteed if "shake" not in one)
        raise TemplateError(f"digest knows no {algorithm!r}; it knows {', '.join(known)}")
    return hashlib.new(algorithm.lower(), text.encode(), usedforsecurity=False).hexdigest()


def repeat(argument: Json) -> Json:
    """`{template, for_each: {name: list}, permutations}`: the template for every combination."""
    given = _map(argument)
    loops = _map(given.get("for_each")) if given is not None else None
    if given is None or not loops or "template" not in given:
        raise TemplateError("repeat takes a map with template and for_each: {name: list}")
    lists: list[list[Json]] = []
    for name, values in loops.items():
        if isinstance(values, Mapping):
            values = list(_map(values) or {})
        if not isinstance(values, list):
            raise TemplateError(f"repeat: for_each.{name} is a list, not {brief(values)}")
        lists.append([*_list(values)])
    permutations = given.get("permutations", True)
    if not isinstance(permutations, bool):
        raise TemplateError("repeat: permutations is true or false")
    if permutations:
        total = 1
        for one in lists:
            total *= len(one)
        if total > _MOST:
            raise TemplateError(f"repeat makes {total} elements; at most {_MOST}")
        rows: Iterable[tuple[Json, ...]] = itertools.product(*lists)
    else:
        if len({len(one) for one in lists}) > 1:
            raise TemplateError("repeat: without permutations all lists have the same length")
        rows = zip(*lists, strict=True)
    names = list(loops)
    return [_filled(given["template"], list(zip(names, row, strict=True))) for row in rows]


_MOST = 100_000


def _filled(template: Json, values: list[tuple[str, Json]]) -> Json:
    if isinstance(template, str):
        for name, value in values:
            if template == name:
                return value
            if name in template:
                template = template.replace(name, text_of(value))
        return template
    entries = _map(template)
    if entries is not None:
        return {str(_filled(key, values)): _filled(one, values) for key, one in entries.items()}
    if isinstance(template, list):
        return [_filled(one, values) for one in _list(template)]
    return template


def map_merge(argument: Json) -> Json:
    """A list of maps: later ones win. Nulls count as empty."""
    result: dict[str, Json] = {}
    for one in _list_of("map_merge", argument, "a list of maps"):
        entries = _map(one) if one is not None else {}
        if entries is None:
            raise TemplateError(f"map_merge takes a list of maps, and {brief(one)} is none")
        result.update(entries)
    return result


def map_replace(argument: Json) -> Json:
    """`[map, {keys: {old: new}, values: {old: new}}]`."""
    what = "[map, {keys: map, values: map}]"
    parts = _parts("map_replace", argument, 2, what)
    source, changes = _map(parts[0]), _map(parts[1])
    if source is None or changes is None or set(changes) - {"keys", "values"}:
        raise TemplateError(f"map_replace takes {what}")
    keys, values = _map(changes.get("keys") or {}), _map(changes.get("values") or {})
    if keys is None or values is None:
        raise TemplateError(f"map_replace takes {what}")
    result: dict[str, Json] = {}
    for key, value in source.items():
        name = str(keys.get(key, key))
        if name != key and name in source:
            raise TemplateError(f"map_replace: the key {name!r} is in the map already")
        if name in result:
            raise TemplateError(f"map_replace: two keys become {name!r}")
        result[name] = values.get(value, value) if isinstance(value, str) else value
    return result


def filter_(argument: Json) -> Json:
    """`[values, list]`: the list without the values."""
    parts = _parts("filter", argument, 2, "[values, list]")
    if not all(isinstance(one, list) for one in parts):
        raise TemplateError("filter takes [values, list]")
    return [one for one in _list(parts[1]) if one not in _list(parts[0])]


def list_concat(argument: Json) -> Json:
    """A list of lists, one after the other. Nulls count as empty."""
    result: list[Json] = []
    for one in _list_of("list_concat", argument, "a list of lists"):
        if one is not None and not isinstance(one, list):
            raise TemplateError(f"list_concat takes a list of lists, and {brief(one)} is none")
        result += _list(one or [])
    return result


def list_concat_unique(argument: Json) -> Json:
    """As `list_concat`, each value once."""
    result: list[Json] = []
    for one in list_concat(argument):
        if one not in result:
            result.append(one)
    return result


def contains(argument: Json) -> Json:
    """`[value, list or text]`."""
    value, inside = _parts("contains", argument, 2, "[value, list]")
    if isinstance(inside, str):
        return text_of(value) in inside
    if isinstance(inside, list):
        return value in _list(inside)
    entries = _map(inside)
    if entries is not None:
        return value in entries
    raise TemplateError(f"contains looks in a list, a map or a text, not in {brief(inside)}")


def equals(argument: Json) -> Json:
    """`[one, other]`."""
    one, other = _parts("equals", argument, 2, "[value, value]")
    return bool(one == other)


def make_url(argument: Json) -> Json:
    """A URL of its parts: scheme, username, password, host, port, path, query, fragment."""
    known = ("scheme", "username", "password", "host", "port", "path", "query", "fragment")
    given = _map(argument)
    if given is None or set(given) - set(known):
        raise TemplateError(f"make_url takes a map of {', '.join(known)}")
    for name, value in given.items():
        if name != "query" and not isinstance(value, str | int):
            raise TemplateError(f"make_url: {name} is a text, not {brief(value)}")

    def part(name: str) -> str:
        return text_of(given.get(name))

    port = part("port")
    if port and not (is_number(port) and 0 < int(port) < 65536):
        raise TemplateError(f"make_url: the port is a number from 1 to 65535, not {port!r}")
    if part("password") and not part("username"):
        raise TemplateError("make_url: a password needs a username")
    host = part("host")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    login = quote(part("username"), safe="")
    if part("password"):
        login += ":" + quote(part("password"), safe="")
    place = f"{login}@{host}" if login else host
    place += f":{port}" if port else ""
    path = quote(part("path"), safe="/")
    if place and path and not path.startswith("/"):
        path = f"/{path}"
    query: Json = given.get("query")
    queried = _map(query)
    if queried is not None:
        query = urlencode([(key, text_of(value)) for key, value in queried.items()])
    url = f"{part('scheme')}:" if part("scheme") else ""
    url += f"//{place}" if place else ""
    url += path
    url += f"?{query}" if query else ""
    return url + (f"#{quote(part('fragment'), safe='')}" if part("fragment") else "")


def yaql(argument: Json) -> Json:
    """`{expression, data}`: the expression's value; `$.data` is the data."""
    from vetro.yaql import YaqlException, evaluate

    given = _map(argument)
    if given is None or not isinstance(given.get("expression"), str) or "data" not in given:
        raise TemplateError("yaql takes a map with expression, a text, and data")
    try:
        return evaluate(given["expression"], {"data": given["data"]})
    except (YaqlException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TemplateError(f"yaql: {error}") from error


FUNCTIONS: Mapping[str, Callable[[Json], Json]] = {
    "digest": digest,
    "repeat": repeat,
    "map_merge": map_merge,
    "map_replace": map_replace,
    "filter": filter_,
    "list_concat": list_concat,
    "list_concat_unique": list_concat_unique,
    "contains": contains,
    "equals": equals,
    "make_url": make_url,
    "yaql": yaql,
}
"""By name; `str_replace_strict` and `str_replace_vstrict` are beside `str_replace`."""


def _parts(function: str, argument: Json, count: int, takes: str) -> list[Json]:
    parts = _list(argument) if isinstance(argument, list) else []
    if len(parts) != count:
        raise TemplateError(f"{function} takes {takes}")
    return parts


def _list_of(function: str, argument: Json, takes: str) -> list[Json]:
    if not isinstance(argument, list):
        raise TemplateError(f"{function} takes {takes}, not {brief(argument)}")
    return _list(argument)


def text_of(value: Json) -> str:
    """A value within a text; structures have Heat's spaces: templates compare and hash such texts."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return json.dumps(value)


def _map(value: Any) -> dict[str, Json] | None:
    return {**value} if isinstance(value, Mapping) else None


def _list(value: Any) -> list[Json]:
    return [*value]
