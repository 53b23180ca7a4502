"""UI definitions without a user interface: from answers to an application's object.

A subset of packages-and-forms.md Part B, versions 2.x: fields with their initial values, types and limits,
templates, ``repeat``, ``name()``, ``generateHostname``, and the ``Application`` section. What is not
here yet: expressions in field attributes, ``ref``, parameters sources, version 1.
"""

from __future__ import annotations

import difflib
import re
import secrets
import uuid
from dataclasses import dataclass
from typing import Any, cast

import yaml

from vetro.yaql import Expression, YaqlException, YaqlParsingException, standard_library
from vetro.yaql import compile as compile_expression

_TEXT = re.compile(r"[\w\s.:]*\Z")
_TEMPLATE = "\0template"
STORAGE_KEY = "_26411a1861294160833743e45d0eaad9"
MAX_DEPTH = 60


class FormError(Exception):
    """A form or an answer is wrong; ``line`` and ``column`` when the definition is."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Marked:
    """An expression of the definition with its place."""

    text: str
    line: int
    column: int

    def compile(self, library: Any) -> Expression:
        """The compiled expression. Errors: ``FormError`` with the place."""
        try:
            return compile_expression(self.text, library=library)
        except YaqlParsingException as error:
            raise FormError(f"{self.text}: {error}", self.line, self.column) from error


class _Loader(yaml.SafeLoader):
    """YAML whose plain scalars may be expressions (B1)."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _scalar(loader: Any, node: Any) -> Any:
    text = cast("str", node.value)
    place = (node.start_mark.line + 1, node.start_mark.column + 1)
    if node.tag == "!yaql":
        return Marked(text, *place)
    if node.style is not None or _TEXT.match(text):
        return text
    try:
        compile_expression(text)
    except YaqlParsingException:
        return text
    return Marked(text, *place)


_Loader.add_constructor("tag:yaml.org,2002:str", _scalar)
_Loader.add_constructor("!yaql", _scalar)


@dataclass(frozen=True)
class FormField:
    """One question: ``page.name`` is its path."""

    page: str
    name: str
    type: str
    label: str
    description: str | None
    initial: Any
    required: bool
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None

    def check(self, value: Any) -> Any:
        """The value as the form stores it. Errors: ``FormError`` saying what is expected."""
        where = f"{self.page}.{self.name}"
        if value is None or value == "":
            if self.required and self.type not in ("boolean", "keypair", "securitygroup"):
                raise FormError(f"{where} ({self.label}) is required")
            return {"integer": None, "boolean": False}.get(self.type, value if value else "")
        if self.type == "integer":
            if isinstance(value, bool) or not isinstance(value, int):
                raise FormError(f"{where} ({self.label}) must be a whole number, not {value!r}")
            if self.minimum is not None and value < self.minimum:
                raise FormError(f"{where} ({self.label}) must be at least {self.minimum}")
            if self.maximum is not None and value > self.maximum:
                raise FormError(f"{where} ({self.label}) must be at most {self.maximum}")
            return value
        if self.type in ("boolean", "floatingip"):
            if not isinstance(value, bool):
                raise FormError(f"{where} ({self.label}) must be true or false, not {value!r}")
            return value
        if self.type in ("string", "text", "password", "flavor", "image", "azone"):
            value = value if isinstance(value, str) else str(value)
            if self.pattern and not re.search(self.pattern, value):
                raise FormError(f"{where} ({self.label}) does not match {self.pattern}")
        if self.choices and str(value) not in self.choices:
            raise FormError(f"{where} ({self.label}) must be one of {', '.join(self.choices)}")
        return value


class Form:
    """A definition, ready to be filled in."""

    def __init__(self, document: dict[str, Any], package_name: str, title: str) -> None:
        self.package_name = package_name
        self.title = title
        version = str(document.get("Version") or document.get("Format") or "2.4")
        if not re.match(r"2(\.[0-4])?\Z", version):
            raise FormError(
                f"UI definitions of version {version} are not known here; 2.0 to 2.4 are"
            )
        self.version = float(version)
        application = document.get("Application")
        if not isinstance(application, dict):
            raise FormError("Application section is required")
        self.application = cast("dict[Any, Any]", application)
        self.templates = cast("dict[str, Any]", document.get("Templates") or {})
        self.parameters = cast("dict[str, Any]", document.get("Parameters") or {})
        self.fields = [
            one for page in cast("list[Any]", document.get("Forms") or []) for one in _fields(page)
        ]

    def describe(self) -> list[dict[str, Any]]:
        """The fields, for a program that shows them."""
        return [
            {
                "page": one.page,
                "name": one.name,
                "type": one.type,
                "label": one.label,
                "description": one.description,
                "initial": one.initial,
                "required": one.required,
            }
            for one in self.fields
        ]

    def _field(self, path: str) -> FormField:
        page, _, name = path.rpartition(".")
        found = [one for one in self.fields if one.name == name and (not page or one.page == page)]
        if len(found) == 1:
            return found[0]
        if found:
            pages = ", ".join(f"{one.page}.{name}" for one in found)
            raise FormError(f"Several pages have a field {name}: say which ({pages})")
        known = [one.name for one in self.fields]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; fields: {', '.join(known)}"
        raise FormError(f"{self.package_name} has no field {path}{hint}")

    def build(self, values: dict[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """The application's object for ``values`` (``field`` or ``page.field`` to value).

        Fields that are not given have their initial values. Errors: ``FormError``.
        """
        given = {(one := self._field(path)).page + "." + one.name: v for path, v in values.items()}
        pages: dict[str, dict[str, Any]] = {}
        for one in self.fields:
            value = one.check(given.get(f"{one.page}.{one.name}", one.initial))
            pages.setdefault(one.page, {})[one.name] = value
        title = name or self.package_name.rsplit(".", 1)[-1]
        if not re.match(r"[-\w]+\Z", title):
            raise FormError(f"The name {title!r} may have letters, digits, - and _ only")
        builder = _Builder(self, pages, title)
        result = builder.value(self.application, {}, 0)
        header = cast("dict[str, Any]", result["?"])
        if self.version >= 2.2:
            header["name"] = title
        header[STORAGE_KEY] = {"name": self.title}
        return cast("dict[str, Any]", result)


class _Builder:
    """One evaluation of an ``Application`` section (B8)."""

    def __init__(self, form: Form, pages: dict[str, Any], title: str) -> None:
        self.form = form
        self.pages = pages
        self.variables: dict[str, Any] = {
            name: {_TEMPLATE: name, "index": None} for name in form.templates
        }
        self.library = standard_library("legacy").child()
        self.library.register(_named(lambda: title), "name")
        self.library.register(_repeat, "repeat")
        self.library.register(_generate_hostname, "generateHostname")
        for key, body in form.parameters.items():
            self.variables[key] = self.value(body, {}, 0)

    def value(self, node: Any, extra: dict[str, Any], depth: int) -> Any:
        """The value of a part of the definition."""
        if depth > MAX_DEPTH:
            raise FormError(f"The templates nest deeper than {MAX_DEPTH}: does one contain itself?")
        if isinstance(node, Marked):
            expression = node.compile(self.library)
            try:
                found = expression.evaluate(self.pages, {**self.variables, **extra})
            except (YaqlException, ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise FormError(f"{node.text}: {error}", node.line, node.column) from error
            return self.expand(found, extra, depth + 1)
        if isinstance(node, dict):
            result: dict[str, Any] = {}
            for key, body in cast("dict[Any, Any]", node).items():
                name = self.value(key, extra, depth + 1) if isinstance(key, Marked) else key
                result[str(name)] = self.value(body, extra, depth + 1)
            header = result.get("?")
            if isinstance(header, dict):
                cast("dict[str, Any]", header).setdefault("id", uuid.uuid4().hex)
            return result
        if isinstance(node, list):
            return [self.value(item, extra, depth + 1) for item in cast("list[Any]", node)]
        return node

    def expand(self, found: Any, extra: dict[str, Any], depth: int) -> Any:
        """A result; templates in it are evaluated in their turn."""
        if isinstance(found, dict):
            body = cast("dict[str, Any]", found)
            if _TEMPLATE in body:
                index = body.get("index")
                inner = extra if index is None else {**extra, "index": index}
                return self.value(self.form.templates[body[_TEMPLATE]], inner, depth + 1)
            return {key: self.expand(item, extra, depth) for key, item in body.items()}
        if isinstance(found, (list, tuple)):
            return [self.expand(item, extra, depth) for item in cast("list[Any]", found)]
        return found


def _named(function: Any) -> Any:
    def name() -> Any:
        return function()

    return name


def _repeat(template: Any, times: int) -> Any:
    """``repeat(template, times)``: the template with ``$index`` 1 to ``times``."""
    if not isinstance(template, dict) or _TEMPLATE not in template:
        return [cast("Any", template)] * max(0, times)
    body = cast("dict[str, Any]", template)
    return [{_TEMPLATE: body[_TEMPLATE], "index": number} for number in range(1, times + 1)]


def _generate_hostname(pattern: Any, number: int) -> str:
    """``#`` becomes the number; without a pattern a random name."""
    if pattern:
        return str(pattern).replace("#", str(number))
    letters = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5))
    return letters + secrets.token_hex(5)[:9]


def _fields(page: Any) -> list[FormField]:
    if not isinstance(page, dict) or len(cast("dict[str, Any]", page)) != 1:
        raise FormError("Each entry of Forms is a map of one page name to its description")
    name, body = next(iter(cast("dict[str, Any]", page).items()))
    given = cast("dict[str, Any]", body or {})
    return [_form_field(str(name), one) for one in cast("list[Any]", given.get("fields") or [])]


def _form_field(page: str, given: Any) -> FormField:
    if not isinstance(given, dict) or "name" not in given or "type" not in given:
        raise FormError(f"A field of page {page} has no name or no type")
    body = cast("dict[str, Any]", given)

    def attribute(name: str, default: Any = None) -> Any:
        snake = re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)
        value = body.get(name, body.get(snake, default))
        # Attributes that depend on other answers have no value before there are any.
        return default if isinstance(value, Marked) else value

    choices: Any = attribute("choices") or []
    listed = cast("list[Any]", choices) if isinstance(choices, list) else None
    if listed is not None:
        keys = [str(one[0]) for one in listed]
    else:
        keys = [str(key) for key in cast("dict[Any, Any]", choices)]
    pattern = attribute("regexpValidator")
    return FormField(
        page=page,
        name=str(body["name"]),
        type=str(body["type"]),
        label=str(attribute("label") or str(body["name"]).capitalize()),
        description=attribute("description"),
        initial=attribute("initial"),
        required=attribute("required", True) is not False,
        minimum=attribute("minValue"),
        maximum=attribute("maxValue"),
        choices=tuple(keys),
        pattern=str(pattern) if pattern else None,
    )


def load_form(text: str, *, package_name: str, title: str) -> Form:
    """Read a UI definition. Errors: ``FormError`` with line and column."""
    if len(text) > 2**20:
        raise FormError("The UI definition is larger than 1 MiB")
    try:
        document: Any = cast("Any", yaml).load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise FormError(
            f"not YAML: {error.problem or error.context}",
            mark.line + 1 if mark else None,
            mark.column + 1 if mark else None,
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise FormError(f"not YAML: {error}") from error
    if not isinstance(document, dict):
        raise FormError("A UI definition is a map", 1, 1)
    return Form(cast("dict[str, Any]", document), package_name, title)
