"""The form of a stored wizard, and how what it refuses is answered (packages-and-forms.md B10)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from vetro.http import BadRequest, Fault, NotFound
from vetro.json_values import JsonObject
from vetro.packages.forms import Form, FormError, NoSuchPage, Offers, State, load_form


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
