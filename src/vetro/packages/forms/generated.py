"""A form for a class without one: from the schema of its inputs (B11, muranopl.md §19).

    text = generated_form(schema, class_name="org.acme.App", version="1.0.0")

Titles, descriptions, defaults, bounds, patterns and choices come from contracts and metadata; sections
become pages. An input that is an object offers the components that fit, and packages to create one
with; one that is an instance asks for its flavor and image. The text is an ordinary definition: authors
may take it as a beginning (`vetro package form --ui`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

Json = dict[str, Any]
_SECRET = re.compile(r"passw|secret|token|credential|private_?key", re.IGNORECASE)
INSTANCES = re.compile(r"io\.murano\.resources\.\w*Instance\Z")
DEFAULT_INSTANCE = "io.murano.resources.LinuxMuranoInstance"
MAIN = "main"


class _Expression(str):
    """Text that is written as an expression."""


def generated_form(
    schema: Mapping[str, object], *, class_name: str, version: str = "", package: str = ""
) -> str:
    """The text of a definition for a class's schema (``class_schemas(…)[""]``)."""
    header: Json = {"type": class_name}
    if version:
        header["classVersion"] = version
    if package:
        header["package"] = package
    made = _Writer(cast("Json", schema.get("formSections") or {}))
    properties = cast("dict[str, Json]", schema.get("properties") or {})
    ordered = sorted(
        enumerate(properties.items()), key=lambda one: (one[1][1].get("formIndex", 10**6), one[0])
    )
    for _, (name, one) in ordered:
        made.add(name, one)
    document: Json = {
        "Version": _Expression("2.4"),
        "Templates": made.templates,
        "Application": {"?": header, **made.application},
        "Forms": made.forms(),
    }
    if not made.templates:
        del document["Templates"]
    return "\n".join(f"{key}: {_written(value)}" for key, value in document.items()) + "\n"


class _Writer:
    def __init__(self, sections: Mapping[str, Json]) -> None:
        self.sections = sections
        self.pages: dict[str, list[Json]] = {}
        self.application: Json = {}
        self.templates: Json = {}

    def forms(self) -> list[Json]:
        """The pages, sections in their order after the first page."""
        order = {name: one.get("index", 10**6) for name, one in self.sections.items()}
        names = sorted(self.pages, key=lambda name: (name != MAIN, order.get(name, 10**6)))
        return [{name: {"fields": self.pages[name]}} for name in names]

    def add(self, name: str, schema: Json) -> None:
        """A property: its fields, and its value in the application."""
        if schema.get("visible") is False:
            return
        kind, nullable = _kind(schema)
        if name == "name" and kind == "string" and "enum" not in schema:
            self.application[name] = _Expression("name()")
            return
        page = _page_name(schema.get("formSection"))
        field = _texts(name, schema)
        path = f"$.{page}.{field['name']}"
        has_default = schema.get("default") is not None
        required = not nullable and not has_default
        value: object = _Expression(path)
        if isinstance(schema.get("enum"), list) and kind != "array":
            options: object = [
                [one, str(one)] for one in cast("list[Any]", schema["enum"]) if one is not None
            ]
            if not required and not has_default:
                options.insert(0, ["", "(none)"])
                value = _or_null(path)
            field |= {"type": "choice", "choices": options}
        elif kind in ("integer", "number"):
            field |= {"type": "integer", **_bounds(schema)}
        elif kind == "boolean":
            field["type"] = "boolean"
        elif kind == "muranoObject":
            self._object(page, field, name, schema, required)
            return
        elif kind == "array":
            self._list(page, field, name, schema, required)
            return
        elif kind == "object":
            # Entries `key=value`, one a line.
            field["type"] = "text"
            field.setdefault("helpText", "One entry a line: name=value")
            value = _Expression(
                f"{path}.split('\\n').where('=' in $).toDict($.split('=')[0].trim(),"
                " $.split('=', 1)[1].trim())"
            )
            given = schema.get("default")
            has_default = False
            if isinstance(given, dict) and given:
                has_default = True
                lines = [f"{key}={one}" for key, one in cast("Json", given).items()]
                schema = {**schema, "default": "\n".join(lines)}
            required = False
        else:
            is_secret = _SECRET.search(name) is not None
            field["type"] = "password" if is_secret else "string"
            if is_secret:
                # The class says what is allowed, not the rules for passwords of people.
                field["confirmInput"] = False
                field["validators"] = [{"expr": {"regexpValidator": r"[\s\S]"}}]
            if isinstance(schema.get("pattern"), str):
                field["regexpValidator"] = schema["pattern"]
            if nullable and not has_default:
                value = _or_null(path)
        if has_default:
            field["initial"] = schema["default"]
        if kind != "boolean":
            field["required"] = required
        self.pages.setdefault(page, []).append(field)
        self.application[name] = value

    def _object(self, page: str, field: Json, name: str, schema: Json, required: bool) -> None:
        type_ = str(schema.get("muranoType") or "io.murano.Object")
        if INSTANCES.match(type_):
            self.application[name] = self._instance(
                page, name, field, type_, _Expression(f"'{_host(name)}'")
            )
            return
        field |= {"type": type_, "required": required}
        self.pages.setdefault(page, []).append(field)
        self.application[name] = _Expression(f"$.{page}.{field['name']}")

    def _list(self, page: str, field: Json, name: str, schema: Json, required: bool) -> None:
        given = schema.get("items")
        items = cast("Json", given) if isinstance(given, dict) else {}
        kind, _ = _kind(items)
        least = schema.get("minItems") or (1 if required else 0)
        path = f"$.{page}.{field['name']}"
        type_ = str(items.get("muranoType") or "")
        if kind == "muranoObject" and INSTANCES.match(type_):
            field |= {"type": "integer", "minValue": least, "initial": max(1, least)}
            if schema.get("maxItems") is not None:
                field["maxValue"] = schema["maxItems"]
            field["label"] = f"Number of {field['label'].lower()}"
            self.pages.setdefault(page, []).append(field)
            host = _Expression(f"generateHostname('{_host(name)}#', $index)")
            self.templates[name] = self._instance(page, name, {"label": _title(name)}, type_, host)
            self.application[name] = _Expression(f"repeat(${name}, {path})")
            return
        if kind == "muranoObject":
            field |= {"type": type_ or "io.murano.Object", "required": least > 0}
            self.application[name] = _Expression(f"[{path}].where($ != null)")
        else:
            field |= {"type": "text", "required": least > 0}
            field.setdefault("helpText", "One a line")
            default = schema.get("default")
            if isinstance(default, list) and default:
                lines = [str(one) for one in cast("list[object]", default)]
                field |= {"initial": "\n".join(lines), "required": False}
            convert = ".select(int($))" if kind == "integer" else ""
            self.application[name] = _Expression(
                f"{path}.split('\\n').select($.trim()).where($ != ''){convert}"
            )
        self.pages.setdefault(page, []).append(field)

    def _instance(self, page: str, name: str, field: Json, type_: str, host: _Expression) -> Json:
        """The object of a machine, and the fields that it needs."""
        label = field["label"]
        concrete = type_ if type_ != "io.murano.resources.Instance" else DEFAULT_INSTANCE
        base = _identifier(name)
        fields: list[Json] = [
            {"name": f"{base}_flavor", "type": "flavor", "label": f"{label}: flavor"},
            {"name": f"{base}_image", "type": "image", "label": f"{label}: image"},
            {"name": f"{base}_key", "type": "keypair", "label": f"{label}: key pair", "required": False},
            {
                "name": f"{base}_public",
                "type": "boolean",
                "label": f"{label}: floating address",
                "description": "Whether it can be reached from outside",
                "initial": False,
            },
        ]  # fmt: skip
        if field.get("description"):
            fields[0]["description"] = field["description"]
        self.pages.setdefault(page, []).extend(fields)
        return {
            "?": {"type": concrete},
            "name": host,
            "flavor": _Expression(f"$.{page}.{base}_flavor"),
            "image": _Expression(f"$.{page}.{base}_image"),
            "keyname": _or_null(f"$.{page}.{base}_key"),
            "assignFloatingIp": _Expression(f"$.{page}.{base}_public"),
        }


def _kind(schema: Mapping[str, object]) -> tuple[str, bool]:
    """The type, and whether null is allowed."""
    given = schema.get("type")
    if isinstance(given, list):
        kinds = [str(one) for one in cast("list[object]", given)]
        return next((one for one in kinds if one != "null"), ""), "null" in kinds
    return (given if isinstance(given, str) else ""), given is None


def _texts(name: str, schema: Json) -> Json:
    field: Json = {"name": _identifier(name), "label": str(schema.get("title") or _title(name))}
    for key in ("description", "helpText"):
        if schema.get(key):
            field[key] = str(schema[key])
    return field


def _bounds(schema: Json) -> Json:
    found: Json = {}
    for name, key, step in (("minimum", "minValue", 1), ("maximum", "maxValue", -1)):
        bound = schema.get(name)
        if isinstance(bound, (int, float)):
            strict = schema.get(f"exclusive{name.capitalize()}") is True
            found[key] = int(bound) + (step if strict else 0)
    return found


def _or_null(path: str) -> _Expression:
    return _Expression(f"{path}.switch($ = '' => null, true => $)")


def _title(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).split()
    if not words:
        return name
    rest = [one.lower() if one[1:].islower() else one for one in words[1:]]  # URL stays URL
    return " ".join([words[0].capitalize(), *rest])


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII) or "_"


def _page_name(section: object) -> str:
    return _identifier(str(section)) if section else MAIN


def _host(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "node"


def _written(value: object) -> str:
    """A value in flow style: every text quoted, every expression marked."""
    if isinstance(value, _Expression):
        return value if value == "2.4" else f"!yaql {json.dumps(str(value))}"
    if isinstance(value, dict):
        pairs = cast("Json", value).items()
        return "{" + ", ".join(f"{json.dumps(key)}: {_written(one)}" for key, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(one) for one in cast("list[object]", value)) + "]"
    return json.dumps(value)
