"""A form for a class without one: from the schema of its inputs (B11, muranopl.md §19).

    text = generated_form(schema, class_name="org.acme.App", version="1.0.0")

Titles, descriptions, defaults, bounds, patterns and choices come from contracts and metadata; sections
become pages. An input that is an object offers the components that fit, and packages to create one
with, a list of objects several of them; one that the object itself owns is entered here, a list of
those as a table, because a component belongs to its environment and ``owned()`` refuses it; one that is
an instance asks for its flavor and image. A map of known keys is entered key by key, a list of such maps
as a table. The text is an ordinary definition: authors may take it as a beginning
(`vetro package form --ui`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.class_inputs import (
    INSTANCES,
    MAIN,
    bounds_of,
    columns_of,
    inputs_of,
    kind_of,
    page_of,
    texts_of,
    title_of,
)
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.phrases import translations

_SECRET = re.compile(r"passw|secret|token|credential|private_?key", re.IGNORECASE)
DEFAULT_INSTANCE = "io.murano.resources.LinuxMuranoInstance"


class _Expression(str):
    """Text that is written as an expression."""


Schemas = Mapping[str, Mapping[str, Any]]


def generated_form(
    schema: Mapping[str, object],
    *,
    class_name: str,
    version: str = "",
    package: str = "",
    nested: Schemas | None = None,
    own: Collection[str] = (),
) -> str:
    """The text of a definition for a class's schema (``class_schemas(…)[""]``).

    ``nested``: the schemas of classes of which the object owns objects (`owned_classes`). ``own``: the
    classes of the same package, whose objects are of its version. Errors: ``FormError`` where the class
    demands an owned object that no field can enter.
    """
    header: JsonObject = {"type": class_name}
    if version:
        header["classVersion"] = version
    if package:
        header["package"] = package
    made = _Writer(cast("JsonObject", schema.get("formSections") or {}), nested or {})
    if version:
        made.versions = dict.fromkeys(own, version)
    for name, one in inputs_of(schema):
        if name == "name" and kind_of(one)[0] == "string" and "enum" not in one:
            made.application[name] = _Expression("name()")
        else:
            value = made.value(name, one, page_of(one.get("formSection")), "")
            if value is not ...:
                made.application[name] = value
    document: JsonObject = {
        "Version": _Expression("2.4"),
        "Templates": made.templates,
        "Application": {"?": header, **made.application},
        "Forms": made.forms(),
    }
    if not made.templates:
        del document["Templates"]
    return "\n".join(f"{key}: {_written(value)}" for key, value in document.items()) + "\n"


class _Writer:
    def __init__(self, sections: Mapping[str, JsonObject], nested: Schemas) -> None:
        self.sections = sections
        self.nested = nested
        self.pages: dict[str, list[JsonObject]] = {}
        self.application: JsonObject = {}
        self.templates: JsonObject = {}
        #: The condition under which the fields that are added now are there, and what they are part of.
        self.condition: _Expression | None = None
        self.of = ""
        self.versions: dict[str, str] = {}

    def forms(self) -> list[JsonObject]:
        """The pages, sections in their order after the first page."""
        order = {name: one.get("index", 10**6) for name, one in self.sections.items()}
        names = sorted(self.pages, key=lambda name: (name != MAIN, order.get(name, 10**6)))
        return [{name: {"fields": self.pages[name]}} for name in names]

    def _put(self, page: str, field: JsonObject) -> str:
        """Add a field to a page under a name that no other has; the path of its value."""
        fields = self.pages.setdefault(page, [])
        known = {one["name"] for one in fields}
        while field["name"] in known:
            field["name"] += "_"
        if self.of:
            field["label"] = f"{self.of}: {field['label'][:1].lower()}{field['label'][1:]}"
        if self.condition is not None:
            field["visible"] = self.condition
        fields.append(field)
        return f"$.{page}.{field['name']}"

    def value(self, name: str, schema: JsonObject, page: str, prefix: str) -> Any:
        """The value of a property, whose fields are added to a page; ``...``: it has none."""
        kind, nullable = kind_of(schema)
        field = texts_of(prefix, name, schema)
        if kind == "muranoObject":
            return self._object(page, field, name, schema, nullable)
        if kind == "array":
            return self._list(page, field, name, schema)
        if kind == "object":
            return self._map(page, field, schema)
        return self._scalar(page, field, name, schema)

    def _scalar(self, page: str, field: JsonObject, name: str, schema: JsonObject) -> _Expression:
        kind, nullable = kind_of(schema)
        default = schema.get("default")
        required = not nullable and default is None
        is_empty_null = False
        if isinstance(schema.get("enum"), list):
            options: object = [
                [one, str(one)] for one in cast("list[object]", schema["enum"]) if one is not None
            ]
            if not required and default is None:
                options.insert(0, ["", "(none)"])
                is_empty_null = True
            field |= {"type": "choice", "choices": options}
        elif kind in ("integer", "number"):
            field |= {"type": "integer", **bounds_of(schema)}
        elif kind == "boolean":
            field["type"] = "boolean"
        else:
            is_secret = _SECRET.search(name) is not None
            is_long = isinstance(default, str) and "\n" in default
            field["type"] = "password" if is_secret else "text" if is_long else "string"
            if is_secret:
                # The class says what is allowed, not the rules for passwords of people.
                field["confirmInput"] = False
                field["validators"] = [{"expr": {"regexpValidator": r"[\s\S]"}}]
            if isinstance(schema.get("pattern"), str):
                field["regexpValidator"] = schema["pattern"]
            is_empty_null = nullable and default is None
        if default is not None:
            field["initial"] = default
        if kind != "boolean":
            field["required"] = required
        path = self._put(page, field)
        return _or_null(path) if is_empty_null else _Expression(path)

    def _map(self, page: str, field: JsonObject, schema: JsonObject) -> object:
        """A map: of known keys key by key, of others as lines ``name=value``."""
        default = cast("JsonObject", schema.get("default") or {})
        keys = cast("dict[str, JsonObject]", schema.get("properties") or {})
        if keys:
            made: JsonObject = {}
            with _Part(self, field["label"]):
                for key, one in keys.items():
                    given = {"default": default[key]} if key in default else {}
                    value = self.value(key, {**one, **given}, page, f"{field['name']}_")
                    if value is not ...:
                        made[key] = value
            return made
        given = schema.get("additionalProperties")
        values = cast("JsonObject", given) if isinstance(given, dict) else {}
        kind, _ = kind_of(values)
        convert = {"integer": "int($.split('=', 1)[1].trim())"}.get(
            kind, "$.split('=', 1)[1].trim()"
        )
        if kind == "array":
            convert = "$.split('=', 1)[1].split(',').select($.trim()).where($ != '')"
        field |= {"type": "text", "required": False}
        _help(field, "One entry a line: name=" + ("a, b, c" if kind == "array" else "value"))
        field["validators"] = [_each("'=' in $", "Write each line as name=value")]
        if kind == "integer":
            test = "$ =~ '=\\s*[-+]?[0-9]+$'"
            field["validators"].append(_each(test, "Write each line as name=number"))
        if default:
            field["initial"] = "\n".join(f"{key}={_line(one)}" for key, one in default.items())
        path = self._put(page, field)
        return _Expression(f"{path}.{_LINES}.toDict($.split('=')[0].trim(), {convert})")

    def _object(
        self, page: str, field: JsonObject, name: str, schema: JsonObject, nullable: bool
    ) -> object:
        type_ = str(schema.get("muranoType") or "io.murano.Object")
        if INSTANCES.match(type_):
            return self._instance(page, field, type_, _Expression(f"'{_host(name)}'"))
        if not schema.get("owned"):
            field |= {"type": type_, "required": not nullable}
            return _Expression(self._put(page, field))
        known = self.nested.get(type_)
        if known is None or self.of:
            return self._left_out(name, type_, may_be=nullable or "default" in schema)
        label, base = field["label"], field["name"]
        was = self.condition
        if nullable:
            field |= {"type": "boolean", "name": f"with_{base}", "initial": False}
            self.condition = _Expression(self._put(page, field))
        excluded = cast("list[str]", schema.get("excludedProperties") or [])
        made: JsonObject = {"?": self._header(type_)}
        with _Part(self, label):
            for key, one in inputs_of(known):
                value = ... if key in excluded else self.value(key, one, page, f"{base}_")
                if value is not ...:
                    made[key] = value
        if self.condition is was:
            return made
        self.templates[base], chosen, self.condition = made, self.condition, was
        return _Expression(f"switch({chosen}, $ => ${base}, true => null)")

    def _header(self, type_: str) -> JsonObject:
        version = self.versions.get(type_)
        return {"type": type_} | ({"classVersion": version} if version else {})

    def _left_out(self, name: str, type_: str, *, may_be: bool) -> Any:
        """An input for owned objects that no field can enter: the class decides what it is."""
        if may_be:
            return ...
        raise FormError(
            f"its input {name} must be given, and owns an object of {type_}, which no field of a form"
            " can enter"
        )

    def _list(self, page: str, field: JsonObject, name: str, schema: JsonObject) -> object:
        given = schema.get("items")
        items = cast("JsonObject", given) if isinstance(given, dict) else {}
        kind, _ = kind_of(items)
        least, most = schema.get("minItems") or 0, schema.get("maxItems")
        type_ = str(items.get("muranoType") or "")
        if kind == "muranoObject" and INSTANCES.match(type_):
            field |= {"type": "integer", "minValue": least, "initial": max(1, least)}
            if most is not None:
                field["maxValue"] = most
            label, base = field["label"], field["name"]
            field["label"] = f"Number of {label.lower()}"
            path = self._put(page, field)
            host = _Expression(f"generateHostname('{_host(name)}#', $index)")
            part = {"name": base, "label": label}
            self.templates[base] = self._instance(page, part, type_, host)
            return _Expression(f"repeat(${base}, {path})")
        if kind == "muranoObject" and items.get("owned"):
            return self._owned_list(page, field, name, schema, items)
        if kind == "muranoObject":
            field |= {
                "type": type_ or "io.murano.Object", "multiple": True, "required": least > 0,
            }  # fmt: skip
            field |= {"minValue": least} if least > 1 else {}
            field |= {} if most is None else {"maxValue": most}
            return _Expression(self._put(page, field))
        columns = columns_of(items)
        if columns:
            return self._table(page, field, schema, columns)
        return self._lines(page, field, schema, items)

    def _owned_list(
        self, page: str, field: JsonObject, name: str, schema: JsonObject, items: JsonObject
    ) -> object:
        """A row for each object, if all that its class asks for are scalars."""
        type_ = str(items["muranoType"])
        excluded = cast("list[str]", items.get("excludedProperties") or [])
        known = self.nested.get(type_)
        columns = columns_of({"properties": dict(inputs_of(known or {}))})
        columns = {key: one for key, one in columns.items() if key not in excluded}
        if not columns:
            may_be = not schema.get("minItems") or "default" in schema
            return self._left_out(name, type_, may_be=may_be)
        whole = {key: value for key, value in schema.items() if key != "default"}
        return self._table(page, field, whole, columns, self._header(type_))

    def _lines(
        self, page: str, field: JsonObject, schema: JsonObject, items: JsonObject
    ) -> _Expression:
        kind, _ = kind_of(items)
        field |= {"type": "text", "required": (schema.get("minItems") or 0) > 0}
        _help(field, "One a line")
        default = schema.get("default")
        if isinstance(default, list) and default:
            field["initial"] = "\n".join(_line(one) for one in cast("list[object]", default))
            field["required"] = False
        checks: list[JsonObject] = []
        if kind == "integer":
            checks.append(_each("$ =~ '^[-+]?[0-9]+$'", "Enter one whole number a line"))
        elif kind == "boolean":
            checks.append(
                _each("$ in [true, false].select(str($))", "Enter true or false in each line")
            )
        elif isinstance(items.get("enum"), list):
            known = [str(one) for one in cast("list[object]", items["enum"]) if one is not None]
            said = ", ".join(known)
            checks.append(_each(f"$ in {_yaql(known)}", f"Each line is one of: {said}"))
        for limit, sign, word in (("minItems", ">=", "least"), ("maxItems", "<=", "most")):
            if isinstance(schema.get(limit), int):
                expression = _Expression(f"$.{_LINES}.len() {sign} {schema[limit]}")
                text = f"Enter at {word} {schema[limit]} lines"
                checks.append({"expr": expression, "message": text})
        if checks:
            field["validators"] = checks
        convert = {"integer": ".select(int($))", "boolean": ".select($ = 'true')"}.get(kind, "")
        return _Expression(f"{self._put(page, field)}.{_LINES}{convert}")

    def _table(
        self,
        page: str,
        field: JsonObject,
        schema: JsonObject,
        columns: Mapping[str, JsonObject],
        header: JsonObject | None = None,
    ) -> _Expression:
        """A list of maps of known keys, or of objects with a header: a row each."""
        least, most = schema.get("minItems") or 0, schema.get("maxItems")
        field |= {"type": "table", "required": least > 0, "initial": schema.get("default") or least}
        field |= {"minValue": least} | ({} if most is None else {"maxValue": most})
        shown: list[JsonObject] = []
        checks: list[JsonObject] = []
        values = [] if header is None else [f"'?' => {_yaql(header)}"]
        for key, one in columns.items():
            kind, nullable = kind_of(one)
            default = one.get("default") if header is not None else None
            nullable = nullable or default is not None
            title = str(one.get("title") or title_of(key))
            is_flag = kind == "boolean"
            shown.append(
                {
                    "columnName": key,
                    "columnType": "checkbox" if is_flag else "label",
                    "title": title,
                }
            )
            cell = f"$.get({_yaql(key)})"
            number = "int($)" if kind == "integer" else "$"
            empty = "null" if nullable or kind == "integer" else "''"
            empty = empty if default is None else _yaql(default)
            values.append(
                f"{_yaql(key)} => "
                + (cell if is_flag else f"{cell}.switch($ = '' => {empty}, true => {number})")
            )
            if is_flag:
                continue
            tests: list[tuple[str, str]] = []
            if kind == "integer":
                tests.append((f"{cell} =~ '^([-+]?[0-9]+)?$'", "a whole number"))
            if isinstance(one.get("enum"), list):
                known = [
                    str(item) for item in cast("list[object]", one["enum"]) if item is not None
                ]
                tests.append((f"{cell} in {_yaql(['', *known])}", "one of: " + ", ".join(known)))
            if not nullable:
                tests.append((f"{cell} != ''", "something in each row"))
            checks += [
                {"expr": _Expression(f"$.all({test})"), "message": f"{title}: enter {said}"}
                for test, said in tests
            ]
        field |= {"columns": shown, "validators": checks}
        return _Expression(f"{self._put(page, field)}.select(dict({', '.join(values)}))")

    def _instance(self, page: str, field: JsonObject, type_: str, host: _Expression) -> JsonObject:
        """The object of a machine, and the fields that it needs."""
        label, base = field["label"], field["name"]
        concrete = type_ if type_ != "io.murano.resources.Instance" else DEFAULT_INSTANCE
        flavor: JsonObject = {
            "name": f"{base}_flavor",
            "type": "flavor",
            "label": f"{label}: flavor",
        }
        if field.get("description"):
            flavor["description"] = field["description"]
        image: JsonObject = {"name": f"{base}_image", "type": "image", "label": f"{label}: image"}
        key: JsonObject = {
            "name": f"{base}_key", "type": "keypair", "label": f"{label}: key pair", "required": False,
        }  # fmt: skip
        public: JsonObject = {
            "name": f"{base}_public",
            "type": "boolean",
            "label": f"{label}: floating address",
            "description": "Whether it can be reached from outside",
            "initial": False,
        }
        return {
            "?": {"type": concrete},
            "name": host,
            "flavor": _Expression(self._put(page, flavor)),
            "image": _Expression(self._put(page, image)),
            "keyname": _or_null(self._put(page, key)),
            "assignFloatingIp": _Expression(self._put(page, public)),
        }


class _Part:
    """While it is entered, fields are those of a part of the object, and say so."""

    def __init__(self, writer: _Writer, label: str) -> None:
        self.writer = writer
        self.label = label

    def __enter__(self) -> None:
        self.was = self.writer.of
        self.writer.of = f"{self.was}: {self.label.lower()}" if self.was else self.label

    def __exit__(self, *_error: object) -> None:
        self.writer.of = self.was


#: The lines of a text that are not empty.
_LINES = "split('\\n').select($.trim()).where($ != '')"


def _help(field: JsonObject, text: str) -> None:
    """Say how a value is entered, where the class does not."""
    if "helpText" not in field:
        field |= translations("helpText", text)


def _each(test: str, message: str) -> JsonObject:
    """A validator of each line."""
    return {"expr": _Expression(f"$.{_LINES}.all({test})"), "message": message}


def _line(value: object) -> str:
    """A default value as it is written in a line."""
    if isinstance(value, list):
        return ", ".join(_line(one) for one in cast("list[object]", value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _yaql(value: object) -> str:
    """A scalar, or a list or a map of some, as an expression writes it."""
    if isinstance(value, list):
        return "[" + ", ".join(_yaql(one) for one in cast("list[object]", value)) + "]"
    if isinstance(value, dict):
        pairs = cast("JsonObject", value).items()
        return "dict(" + ", ".join(f"{_yaql(key)} => {_yaql(one)}" for key, one in pairs) + ")"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text = str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{text}'"


def _or_null(path: str) -> _Expression:
    return _Expression(f"{path}.switch($ = '' => null, true => $)")


def _host(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "node"


def _written(value: object) -> str:
    """A value in flow style: every text quoted, every expression marked."""
    if isinstance(value, _Expression):
        return value if value == "2.4" else f"!yaql {json.dumps(str(value))}"
    if isinstance(value, dict):
        pairs = cast("JsonObject", value).items()
        return "{" + ", ".join(f"{json.dumps(key)}: {_written(one)}" for key, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(one) for one in cast("list[object]", value)) + "]"
    return json.dumps(value)
