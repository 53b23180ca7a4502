"""Pages and fields as JSON, for programs that show them (docs/forms.md).

Every text is plain: a front end shows it as text, whatever characters it has. Nothing is markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.fields import Field, clone_of
from vetro.packages.forms.offers import Choice, Offers
from vetro.packages.forms.phrases import in_language
from vetro.packages.forms.readers import NOTHING, table_columns
from vetro.packages.forms.vocabulary import BOOLEANS

_CONTROLS = {
    "string": "line",
    "clusterip": "line",
    "databaselist": "line",
    "text": "text",
    "integer": "number",
    "instance": "number",
    "password": "password",
    "table": "table",
    "object": "object",
}
_EMPTY_OBJECT = "Select Application"
STAYS = "Stays as it is"


def described_field(
    field: Field, start: object, value: object, offers: Offers, language: str = ""
) -> JsonObject:
    """A field with its value. ``start``: what it has before anything is entered."""
    kind = field.kind
    is_secret = kind == "password"
    is_required = field.needs_value(offers)
    shown: JsonObject = {
        "name": field.name,
        "path": field.source.path,
        "type": kind,
        "control": "objects" if field.is_multiple else control_of(kind),
        "label": field.label(language),
        "description": field.text("description", language),
        "description_title": field.text("description_title", language) or field.label(language),
        "help_text": field.text("help_text", language),
        "required": is_required,
        "enabled": field.is_enabled,
        "visible": field.is_visible and not field.is_hidden,
        "hidden": field.is_hidden,
        "secret": is_secret,
        "initial": None if is_secret else start,
        "value": None if is_secret else value,
        "placeholder": None
        if is_required or kind in BOOLEANS
        else in_language("Optional", language),
        "choices": None,
        "constraints": _constraints(field),
        "messages": _messages(field),
    }
    try:
        choices = field.choices(offers)
        shown["choices"] = None if choices is None else [_choice(one, language) for one in choices]
        shown["patterns"] = field.patterns()
    except FormError as error:
        shown["problem"] = error.placed
        shown.setdefault("patterns", [])
    shown["rules"] = [one.said(one.test.text) for one in field.validators if one.test is not None]
    if is_secret:
        shown["filled"] = value not in (None, "")
    if field.is_confirmed:
        shown["confirmation"] = clone_of(field.name)
    if kind == "object":
        shown["classes"] = list(field.classes)
        shown["packages"] = offers.makers(field.classes)
        shown["empty_label"] = _empty_label(field, language)
        if choices_empty(shown) and not shown["packages"]:
            names = ", ".join(field.classes)
            text = f"There is no component and no package with a class {names}"
            shown["problem"] = in_language(text, language)
    elif kind == "image":
        found = shown["choices"]
        text = "No images available" if found == [] else "Select Image"
        shown["empty_label"] = in_language(text, language)
    elif kind == "flavor" and isinstance(field.get("requirements"), dict):
        shown["requirements"] = field.get("requirements")
    elif kind == "table":
        shown["columns"] = [
            {"name": name, "type": kind, "title": title}
            for name, kind, title in table_columns(field.get("columns", []))
        ]
    return shown


def as_opened(shown: JsonObject, field: Field, *, is_kept: bool, language: str) -> None:
    """Complete a described field of a component whose form was opened again.

    What the component has can be chosen, also when it is offered no more. A field whose value cannot be
    read (``kept``) is empty, and may stay so.
    """
    if is_kept:
        shown |= {"kept": True, "required": False, "placeholder": in_language(STAYS, language)}
        shown["empty_label"] = shown["placeholder"]
        return
    choices: list[JsonObject] | None = shown["choices"]
    if choices is None or field.kind in BOOLEANS:
        return
    value: Any = shown["value"]
    several = (
        cast("list[object]", value) if field.is_multiple and isinstance(value, list) else [value]
    )
    known = [one["value"] for one in choices]
    choices += [
        {"value": one, "label": _label(one)}
        for one in several
        if one not in NOTHING and one != [None, None] and one not in known
    ]


def _label(value: object) -> str:
    parts = cast("list[object]", value) if isinstance(value, list) else [value]
    return ", ".join(str(one) for one in parts if one is not None)


def choices_empty(shown: JsonObject) -> bool:
    """Whether the source is known and offers nothing."""
    return shown["choices"] == []


def control_of(kind: str) -> str:
    """How a kind is entered: line, text, number, password, checkbox, select, object or table.

    A field of several objects is entered as ``objects``.
    """
    if kind in BOOLEANS:
        return "checkbox"
    return _CONTROLS.get(kind, "select")


def _empty_label(field: Field, language: str) -> str:
    default = "Not in domain" if field.type == "domain" else _EMPTY_OBJECT
    return field.text("empty_value_message", language) or in_language(default, language)


def _choice(one: Choice, language: str) -> JsonObject:
    """A choice; the one that stands for nothing chosen has a text of the form's own."""
    shown = one.as_json()
    if one.value in ("", None, [None, None]):
        shown["label"] = in_language(one.label, language)
    return shown


def _constraints(field: Field) -> JsonObject:
    found = {
        name: field.number(name) for name in ("min_length", "max_length", "min_value", "max_value")
    }
    return {name: value for name, value in found.items() if value is not None}


def _messages(field: Field) -> dict[str, str]:
    given: object = field.attributes.get("error_messages")
    if not isinstance(given, dict):
        return {}
    return {str(key): str(text) for key, text in cast("dict[object, object]", given).items()}


def described_page(
    name: str,
    number: int,
    fields: list[JsonObject],
    settled: Mapping[str, Field],
    language: str,
    *,
    region: str | None,
    submitted: bool,
    problem: str | None,
) -> JsonObject:
    """A page. ``notes``: the descriptions of its hidden fields, shown above the others (B3).

    ``problem``: why no values of it are accepted.
    """
    notes: list[JsonObject] = []
    for one in settled.values():
        text = one.text("description", language)
        if one.is_hidden and text:
            notes.append(
                {
                    "title": one.text("description_title", language) or one.label(language),
                    "text": text,
                }
            )
    return {
        "name": name,
        "title": in_language(f"Step {number}", language),
        "number": number,
        "region": region,
        "submitted": submitted,
        "problem": problem,
        "notes": notes,
        "fields": fields,
    }
