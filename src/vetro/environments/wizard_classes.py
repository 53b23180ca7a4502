"""Forms of packages without one: from the contracts of their class (packages-and-forms.md B11)."""

from __future__ import annotations

from typing import cast

import structlog

from vetro.environments.static_calls import CallStore
from vetro.http import BadRequest, Fault, Principal
from vetro.json_values import JsonObject
from vetro.packages.forms import FormError, generated_form, owned_classes

MOST_OWNED = 10
"""Classes of owned objects that a form shows the inputs of."""
log = structlog.get_logger("vetro.environments")


async def form_of_class(calls: CallStore, principal: Principal, package: JsonObject) -> str:
    """A form for the class of the package's name, or its only one. Errors: 400, those of schemas."""
    name = package["fully_qualified_name"]
    classes = cast("list[str]", package["class_definitions"])
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
