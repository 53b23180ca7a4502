"""UI definitions without a user interface: from answers to an application's object.

A subset of packages-and-forms.md Part B, versions 2.x: fields with their initial values, types,
limits and validators, templates, ``repeat``, ``name()``, ``generateHostname``, and the
``Application`` section. Not implemented: ``ref``, parameters sources, version 1.
"""

from __future__ import annotations

import difflib
import re
import secrets
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, cast

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    read_yaml,
    safe_loader,
)
from vetro.yaql import Expression, YaqlException, YaqlParsingException, standard_library
from vetro.yaql import compile as compile_expression

_TEXT = re.compile(r"[\w\s.:]*\Z")
_TEMPLATE = "\0template"
STORAGE_KEY = "_26411a1861294160833743e45d0eaad9"
MAX_DEPTH = 60


class FormError(Exception):
    """A form or an answer is invalid; ``line`` and ``column`` for mistakes in the definition."""

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


LIMITS = DocumentLimits(bytes=2**20, nodes=200_000)


def _scalar(loader: Any, node: Any) -> Any:
    text = cast("str", node.value)
    place = (node.start_mark.line + 1, node.start_mark.column + 1)
    if node.tag == "!yaql":
        return Marked(text, *place)
    if node.style or _TEXT.match(text):
        return text
    try:
        compile_expression(text)
    except YaqlParsingException:
        return text
    return Marked(text, *place)


#: Its plain scalars may be expressions (B1).
_Loader = safe_loader({"tag:yaml.org,2002:str": _scalar, "!yaql": _scalar})


Evaluate = Callable[[Marked, Any], Any]
"""The value of an expression of the definition, with ``$`` as given."""
_PASSWORD_RULES = (
    (r"[0-9]", "must contain a digit"),
    (r"[a-z]", "must contain a lower-case letter"),
    (r"[A-Z]", "must contain an upper-case letter"),
    (r"[!@#$%^&*()_+|\\/.,~?><:{}\-]", "must contain a special character"),
)
_TEXT_KINDS = ("string", "text", "password", "flavor", "image", "azone")


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
    shortest: int | None = None
    longest: int | None = None
    validators: tuple[dict[str, Any], ...] = ()
    messages: dict[str, str] = dataclass_field(default_factory=dict[str, str])

    def check(self, value: Any, evaluate: Evaluate) -> Any:
        """The value as the form stores it. Errors: ``FormError`` that lists all mistakes."""
        where = f"{self.page}.{self.name} ({self.label})"
        if value is None or value == "":
            if self.required and self.type not in ("boolean", "keypair", "securitygroup"):
                raise FormError(f"{where} {self.messages.get('required', 'is required')}")
            return {"integer": None, "boolean": False}.get(self.type, value if value else "")
        if self.type == "integer":
            if isinstance(value, bool) or not isinstance(value, int):
                said = self.messages.get("invalid", f"must be a whole number, not {value!r:.60}")
                raise FormError(f"{where} {said}")
        elif self.type in ("boolean", "floatingip"):
            if not isinstance(value, bool):
                raise FormError(f"{where} must be true or false, not {value!r:.60}")
        elif self.type in _TEXT_KINDS and not isinstance(value, str):
            value = str(value)
        wrong = [*self._wrong(value), *self._invalid(value, evaluate)]
        if wrong:
            # Messages never contain a password.
            shown = "" if self.type == "password" else f", not {value!r:.60}"
            raise FormError(f"{where} {'; '.join(wrong)}{shown}")
        return value

    def _wrong(self, value: Any) -> Iterator[str]:
        """Violations of the field's own attributes."""
        if isinstance(value, int):
            if self.minimum is not None and value < self.minimum:
                yield self.messages.get("min_value") or f"must be at least {self.minimum}"
            if self.maximum is not None and value > self.maximum:
                yield self.messages.get("max_value") or f"must be at most {self.maximum}"
        if isinstance(value, str):
            if self.shortest is not None and len(value) < self.shortest:
                said = f"must have at least {self.shortest} characters"
                yield self.messages.get("min_length") or said
            if self.longest is not None and len(value) > self.longest:
                said = f"must have at most {self.longest} characters"
                yield self.messages.get("max_length") or said
            if self.pattern and not matches(self.pattern, value):
                yield self.messages.get("invalid") or f"does not match {self.pattern}"
        if self.choices and str(value) not in self.choices:
            yield f"must be one of {', '.join(self.choices)}"

    def _invalid(self, value: Any, evaluate: Evaluate) -> Iterator[str]:
        """Violations of the validators; a password without any has built-in rules (B4)."""
        for one in self.validators:
            expression: Any = one.get("expr")
            said = one.get("message")
            if isinstance(expression, dict):
                pattern = cast("dict[str, Any]", expression).get("regexpValidator")
                if pattern is not None and not matches(str(pattern), str(value)):
                    yield said or f"does not match {pattern}"
            elif isinstance(expression, Marked) and not evaluate(expression, value):
                yield said or f"does not satisfy {expression.text}"
        if self.type == "password" and not self.validators and not self.pattern:
            if not 7 <= len(value) <= 255:
                yield "must have 7 to 255 characters"
            for pattern, said in _PASSWORD_RULES:
                if not re.search(pattern, value):
                    yield said


def matches(pattern: str, value: str) -> bool:
    """Whether a pattern matches: plain, or ``/pattern/flags`` (B3). Errors: ``FormError``."""
    flags = 0
    slashed = re.fullmatch(r"/(.*)/([a-z]*)", pattern, re.DOTALL)
    try:
        if slashed is not None:
            pattern = slashed[1]
            for letter in slashed[2]:
                flags |= re.RegexFlag[letter.upper()]
        return re.search(pattern, value, flags) is not None
    except (re.error, KeyError, ValueError) as error:
        raise FormError(f"The pattern {pattern} of the form is wrong: {error}") from error


@dataclass(frozen=True)
class _Page:
    """A page: its fields as written, and the conditions on all of them together."""

    name: str
    fields: tuple[dict[str, Any], ...]
    validators: tuple[dict[str, Any], ...]


class Form:
    """A definition, ready to be filled in."""

    def __init__(self, document: dict[str, Any], package_name: str, title: str) -> None:
        self.package_name = package_name
        self.title = title
        version = str(document.get("Version") or document.get("Format") or "2.4")
        if not re.match(r"2(\.[0-4])?\Z", version):
            raise FormError(
                f"UI definitions of version {version} are not supported; use 2.0 to 2.4"
            )
        self.version = float(version)
        application = document.get("Application")
        if not isinstance(application, dict):
            raise FormError("Application section is required")
        self.application = cast("dict[Any, Any]", application)
        self.templates = cast("dict[str, Any]", document.get("Templates") or {})
        self.parameters = cast("dict[str, Any]", document.get("Parameters") or {})
        self.pages = [_page(one) for one in cast("list[Any]", document.get("Forms") or [])]
        self.fields = [_form_field(page.name, one) for page in self.pages for one in page.fields]

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
            raise FormError(f"Several pages have a field {name}: give the page as well ({pages})")
        known = [one.name for one in self.fields]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; fields: {', '.join(known)}"
        raise FormError(f"{self.package_name} has no field {path}{hint}")

    def build(self, values: dict[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """The application's object for ``values`` (``field`` or ``page.field`` to value).

        Fields that are not given have their initial values. Errors: ``FormError``.
        """
        given = {(one := self._field(path)).page + "." + one.name: v for path, v in values.items()}
        pages = self._answers(given)
        title = name or self.package_name.rsplit(".", 1)[-1]
        if not re.match(r"[-\w]+\Z", title):
            raise FormError(f"The name {title!r} may contain only letters, digits, - and _")
        builder = _Builder(self, pages, title)
        result = builder.value(self.application, {}, 0)
        header = cast("dict[str, Any]", result["?"])
        if self.version >= 2.2:
            header["name"] = title
        header[STORAGE_KEY] = {"name": self.title}
        return cast("dict[str, Any]", result)

    def _answers(self, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The checked answers by page and field. Errors: ``FormError`` with every wrong field."""
        library = standard_library("legacy")
        pages: dict[str, dict[str, Any]] = {}
        for page in self.pages:
            here = pages.setdefault(page.name, {})
            wrong: list[str] = []

            def evaluate(expression: Marked, data: Any) -> Any:
                try:
                    return expression.compile(library).evaluate(data, {})
                except (YaqlException, ArithmeticError, LookupError, TypeError, ValueError):
                    return None  # it depends on fields that are not answered yet (B1)

            for body in page.fields:
                # Attributes that are expressions see the answers so far (B3).
                settled = {
                    key: evaluate(value, pages) if isinstance(value, Marked) else value
                    for key, value in body.items()
                }
                field = _form_field(page.name, settled)
                value = given.get(f"{page.name}.{field.name}", field.initial)
                if _attribute(settled, "enabled", True) is False:
                    here[field.name] = value
                    continue
                try:
                    here[field.name] = field.check(value, evaluate)
                except FormError as error:
                    wrong.append(str(error))
            if not wrong:
                for one in page.validators:
                    expression = one.get("expr")
                    if isinstance(expression, Marked) and not evaluate(expression, pages):
                        wrong.append(
                            f"{page.name}: {one.get('message') or f'{expression.text} does not hold'}"
                        )
            if wrong:
                raise FormError("; ".join(wrong))
        return pages


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
            raise FormError(
                f"The templates are nested deeper than {MAX_DEPTH} levels: check whether one contains itself"
            )
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
        """Expand a result: templates in it are evaluated too."""
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
    """The pattern with ``#`` replaced by the number; without a pattern a random name."""
    if pattern:
        return str(pattern).replace("#", str(number))
    letters = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5))
    return letters + secrets.token_hex(5)[:9]


def _page(given: Any) -> _Page:
    if not isinstance(given, dict) or len(cast("dict[str, Any]", given)) != 1:
        raise FormError("Each entry of Forms must be a map from one page name to its description")
    name, body = next(iter(cast("dict[str, Any]", given).items()))
    described = cast("dict[str, Any]", body or {})
    fields = cast("list[Any]", described.get("fields") or [])
    for one in fields:
        if not isinstance(one, dict) or "name" not in one or "type" not in one:
            raise FormError(f"A field of page {name} has no name or no type")
    return _Page(str(name), tuple(fields), _validators(described.get("validators")))


def _validators(given: Any) -> tuple[dict[str, Any], ...]:
    listed = cast("list[Any]", given) if isinstance(given, list) else []
    return tuple(cast("dict[str, Any]", one) for one in listed if isinstance(one, dict))


def _attribute(body: dict[str, Any], name: str, default: Any = None) -> Any:
    """An attribute by either spelling; ``default`` if it depends on unknown values."""
    snake = re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)
    value = body.get(name, body.get(snake, default))
    return default if value is None or isinstance(value, Marked) else value


def _whole(body: dict[str, Any], name: str) -> int | None:
    value = _attribute(body, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _form_field(page: str, body: dict[str, Any]) -> FormField:
    choices: Any = _attribute(body, "choices") or []
    listed = cast("list[Any]", choices) if isinstance(choices, (list, tuple)) else None
    if listed is not None:
        keys = [str(one[0]) for one in listed]
    else:
        keys = [str(key) for key in cast("dict[Any, Any]", choices)]
    pattern = _attribute(body, "regexpValidator")
    messages: Any = _attribute(body, "errorMessages") or {}
    return FormField(
        page=page,
        name=str(body["name"]),
        type=str(body["type"]),
        label=str(_attribute(body, "label") or str(body["name"]).capitalize()),
        description=_attribute(body, "description"),
        initial=_attribute(body, "initial"),
        required=_attribute(body, "required", True) is not False,
        minimum=_whole(body, "minValue"),
        maximum=_whole(body, "maxValue"),
        choices=tuple(keys),
        pattern=str(pattern) if pattern else None,
        shortest=_whole(body, "minLength"),
        longest=_whole(body, "maxLength"),
        validators=_validators(_attribute(body, "validators")),
        messages={str(key): str(text) for key, text in messages.items()},
    )


def load_form(text: str, *, package_name: str, title: str) -> Form:
    """Read a UI definition. Errors: ``FormError`` with line and column."""
    try:
        document: Any = read_yaml(text, LIMITS, _Loader)
    except DocumentTooLarge as error:
        said = f"The UI definition is too large: {error.message}"
        raise FormError(said, error.line, error.column) from error
    except DocumentError as error:
        raise FormError(error.message, error.line, error.column) from error
    if not isinstance(document, dict):
        raise FormError("A UI definition must be a map", 1, 1)
    return Form(cast("dict[str, Any]", document), package_name, title)
