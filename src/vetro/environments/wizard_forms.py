"""The form of a stored wizard, and how what it refuses is answered (packages-and-forms.md B10).

Packages without a form get one from the contracts of their class (B11).
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import structlog

from vetro.environments.static_calls import CallStore
from vetro.http import BadRequest, Fault, NotFound, Principal
from vetro.json_values import JsonObject
from vetro.packages.forms import (
    Form,
    FormError,
    NoSuchPage,
    Offers,
    State,
    generated_form,
    load_form,
    owned_classes,
)


def form_of(row: Any) -> Form:
    """The form of a wizard's row (or of its values). Errors: 400."""
    given = cast("JsonObject", row if isinstance(row, dict) else row._mapping)
    try:
        return load_form(
            given["form"],
            package_name=given["package_name"],
            title=given["title"],
            version=given["package_version"],
            may_stay=not given["options"].get("quick"),
        )
    except FormError as error:
        raise wrong_form(given["package_name"], error) from error


async def described_form(form: Form, state: State, offers: Offers, language: str) -> JsonObject:
    """A form as JSON. Errors: 400."""
    try:
        return await asyncio.to_thread(form.describe, state, offers, language)
    except FormError as error:
        raise refused(error) from error


def wrong_form(package: str, error: FormError) -> BadRequest:
    """A definition that cannot be used."""
    return BadRequest(
        f"The form of {package} cannot be used: {error.placed}",
        type_="FormInvalid",
        extra={"line": error.line, "column": error.column},
    )


def refused(error: FormError) -> Fault:
    """What a form says against a request."""
    if isinstance(error, NoSuchPage):
        return NotFound(error.placed, type_="PageNotFound")
    return BadRequest(
        error.placed, type_="FormError", extra={"line": error.line, "column": error.column}
    )


MOST_OWNED = 10
"""Classes of owned objects that a form shows the inputs of."""
log = structlog.get_logger("vetro.environments")


async def form_of_class(
    calls: CallStore, principal: Principal, package: JsonObject, class_name: str | None = None
) -> str:
    """A form for a class of a package; for that of the package's name, or its only one, where none is said.

    Errors: 400, those of schemas.
    """
    name = package["fully_qualified_name"]
    classes = cast("list[str]", package["class_definitions"])
    if class_name is None:
        class_name = name if name in classes else classes[0] if len(classes) == 1 else None
    if class_name is None:
        raise BadRequest(
            f"{name} has no form, and of its classes none has its name: its object must be given"
            " as JSON",
            type_="NoForm",
        )
    schema = await _schema(calls, principal, class_name, package)
    nested: JsonObject = {}
    for owned in owned_classes(schema)[:MOST_OWNED]:
        try:
            nested[owned] = await _schema(calls, principal, owned, package)
        except Fault as error:
            # The class may do without the object.
            log.info("wizard_class_has_no_schema", class_name=owned, error=error.message)
    try:
        return generated_form(
            schema, class_name=class_name, version=package["version"], nested=nested, own=classes
        )
    except FormError as error:
        raise BadRequest(
            f"{name} has no form, and none can be made from its class: {error}. Its object must be"
            " given as JSON",
            type_="NoForm",
        ) from error


async def _schema(
    calls: CallStore, principal: Principal, class_name: str, package: JsonObject
) -> JsonObject:
    """What the inputs of a class of the package, or of any other package, are."""
    is_own = class_name in package["class_definitions"]
    found = await calls.schemas(
        principal,
        class_name,
        [""],
        package_name=package["fully_qualified_name"] if is_own else None,
        class_version=f"={package['version']}" if is_own else "*",
    )
    return cast("JsonObject", found.get("") or {})
