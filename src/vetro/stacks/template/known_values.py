"""Properties as far as they are known when a template is validated.

Parameters have their values by then, so a value that only uses them is judged before anything is made. What
uses another resource stays the function that it is.
"""

from __future__ import annotations

from typing import cast

from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json
from vetro.stacks.template.functions import Unknown, find_unknown, function_of, in_mapping, resolve
from vetro.stacks.template.spelling import without_nulls
from vetro.stacks.template.templates import ResourceDefinition, Template


class KnownValues:
    """The `Context` of a template of which nothing has been made."""

    def __init__(self, template: Template) -> None:
        self._template = template

    def properties(self, definition: ResourceDefinition) -> dict[str, Json]:
        """A resource's properties. Raises `TemplateError` naming it."""
        if not any(one.kind == "parameter" for one in definition.references):
            return definition.properties
        try:
            known = {key: self._known(one) for key, one in definition.properties.items()}
        except TemplateError as error:
            raise type(error)(str(error), resource=definition.name) from error
        return {key: one for key, one in known.items() if one is not None}

    def _known(self, value: Json) -> Json:
        if function_of(value) is not None:
            found = without_nulls(resolve(value, self))
            return value if find_unknown(found) is not None else found
        if isinstance(value, dict):
            entries = cast("dict[str, Json]", value)
            return {key: self._known(one) for key, one in entries.items()}
        if isinstance(value, list):
            return [self._known(one) for one in cast("list[Json]", value)]
        return value

    # --- the Context protocol ----------------------------------------------------------

    def parameter(self, name: str) -> Json:
        # A pseudo parameter says which stack it is.
        return self._template.parameters.get(name, Unknown(name))

    def reference_id(self, resource: str) -> Json:
        if resource not in self._template.resources:
            raise KeyError(resource)
        return Unknown(resource)

    def attribute(self, resource: str, name: str) -> Json:
        return Unknown(f"{resource}.{name}")

    def file(self, name: str) -> str:
        return self._template.files[name]

    def mapping(self, name: str, first: str, second: str) -> Json:
        return in_mapping(self._template.mappings, name, first, second)
