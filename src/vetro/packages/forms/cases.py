"""A form filled in by a document: JSON in, JSON out (`vetro form-case`, for tests)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.definition import MANAGEMENT, NAME, STAY
from vetro.packages.forms.errors import FormError, PageInvalid
from vetro.packages.forms.fields import FieldSource, clone_of
from vetro.packages.forms.offers import KINDS, Component, Offers
from vetro.packages.forms.vocabulary import RESOURCES
from vetro.packages.forms.wizard import Form, load_form


def run_case(case: object) -> JsonObject:
    """``{model}``, ``{invalid: page, errors}`` or ``{error, line, column}`` of a case (docs/forms.md).

    Errors: ``ValueError`` for a document that is not a case.
    """
    given = _map(case, "a case")
    ui = given.get("ui")
    if not isinstance(ui, str):
        raise ValueError("ui must be the text of a form")
    fqn = str(given.get("fqn") or "")
    if not fqn:
        raise ValueError("fqn must be the full name of the package")
    surroundings = _map(given.get("environment") or {}, "environment")
    try:
        form = load_form(
            ui, package_name=fqn, title=str(given.get("title") or fqn),
            version=str(given.get("package_version") or ""), may_stay=True,
        )  # fmt: skip
        return _filled(form, given, surroundings, offers_of(surroundings))
    except PageInvalid as error:
        return {"invalid": error.page, "errors": error.errors}
    except FormError as error:
        return {"error": error.message, "line": error.line, "column": error.column}


def _filled(form: Form, case: JsonObject, surroundings: JsonObject, offers: Offers) -> JsonObject:
    data = _map(case.get("data") or {}, "data")
    answers = _map(case.get("answers") or {}, "answers")
    defaults = _map(surroundings.get("defaults") or {}, "defaults")
    name = case.get("application_name")
    if name is None:
        name = form.package_name.rsplit(".", 1)[-1]
    state = form.begin(case.get("parameters"))
    for page in form.pages:
        raw = dict(_map(data.get(page.name) or {}, f"data of page {page.name}"))
        if page.name == MANAGEMENT:
            raw = {NAME: name, STAY: False, **raw}
        for one in page.fields:
            found = _given(one, answers, defaults)
            if found is ...:
                continue
            if raw.setdefault(one.name, found) == found and one.type == "password":
                raw.setdefault(clone_of(one.name), found)  # an answer is the whole control's
        form.submit(page.name, raw, state, offers, defaults=False)
    return {"model": form.build(state, offers, name=str(name))}


def _given(
    field: FieldSource, answers: Mapping[str, object], defaults: Mapping[str, object]
) -> object:
    """The value of a field that ``data`` lacks; ``...``: there is none."""
    for values in (answers, defaults):
        for key in (field.path, field.name):
            if key in values:
                return values[key]
    if isinstance(field.type, str):
        for key in (field.type, RESOURCES.get(field.type, "")):
            if key in defaults:
                return defaults[key]
    return ...


def offers_of(surroundings: Mapping[str, object]) -> Offers:
    """The choices of a case's ``environment``; a kind that it lacks takes any value."""
    kinds: JsonObject = {}
    for kind in KINDS:
        items = surroundings.get(kind)
        if items is not None:
            if not isinstance(items, list):
                raise ValueError(f"{kind} must be a list of [value, label]")
            kinds[kind] = items
    components: list[Component] | None = None
    listed = surroundings.get("components")
    if listed is not None:
        if not isinstance(listed, list):
            raise ValueError("components must be a list of {id, name, type}")
        components = []
        for item in cast("list[object]", listed):
            one = _map(item, "a component")
            components.append(
                Component(
                    str(one.get("id")), str(one.get("name") or ""), str(one.get("type") or "")
                )
            )
    defaults = surroundings.get("defaults")
    region = surroundings.get("region")
    if region is None and isinstance(defaults, dict):
        region = cast("JsonObject", defaults).get("region")
    return Offers(kinds, components, region=str(region or "RegionOne"))


def _map(value: Any, what: str) -> JsonObject:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object")
    return cast("JsonObject", value)
