"""A form's definition: its sections, checked (B2, B9).

`Definition` holds the pages in order with their fields, the templates, the parameters and the
application. What expressions need data for is decided in the layers above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.packages.forms.errors import FormError
from vetro.packages.forms.fields import FieldSource
from vetro.packages.forms.phrases import translations
from vetro.packages.forms.settling import Validator, read_validators
from vetro.packages.forms.source import Source, mark_maps, name_of

LATEST = (2, 6)
"""The version of definitions that this understands."""
_VERSION = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?(?:\.\d+)*\Z")
_PARAMETER = re.compile(r"[^\W\d_]\w*\Z")
MANAGEMENT = "workflowManagement"
NAME = "application_name"
STAY = "stay_at_the_catalog"
NAME_PATTERN = r"^[-\w]+$"


@dataclass(frozen=True)
class Page:
    """A page as it is written."""

    name: str
    fields: tuple[FieldSource, ...]
    validators: tuple[Validator, ...] = ()
    region: Any = None

    def field(self, name: str) -> FieldSource | None:
        """A field by its name."""
        return next((one for one in self.fields if one.name == name), None)


@dataclass(frozen=True)
class ParametersCall:
    """The static action of ``ParametersSource``; ``class_name`` '' means the package's full name."""

    class_name: str
    method: str


@dataclass
class Definition:
    """The sections of a definition."""

    version: tuple[int, int]
    pages: tuple[Page, ...]
    application: dict[str, Any] = field(default_factory=dict[str, Any])
    templates: dict[str, Any] = field(default_factory=dict[str, Any])
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    parameters_source: ParametersCall | None = None
    unit_templates: list[object] = field(default_factory=list[object])
    warnings: list[str] = field(default_factory=list[str])

    @property
    def is_old(self) -> bool:
        """Whether it is of version 1 and makes flat documents (B9)."""
        return self.version[0] == 1

    @property
    def asks_name(self) -> bool:
        """Whether the management page asks for the application's name (B7)."""
        return self.version >= (2, 2)


def read_definition(source: Source) -> Definition:
    """Check the sections. Errors: ``FormError`` with the place."""
    document = source.document
    version = _version(source)
    if version[0] == 1:
        mark_maps(document)
    forms = document.get("Forms")
    if forms is None and version[0] == 1:
        forms = document.get("forms")
    pages = _pages(forms, source)
    warnings = [
        f"{one.path}: {text}" for page in pages for one in page.fields for text in one.warnings
    ]
    if version[0] == 1:
        units = cast("list[object]", document.get("unitTemplates") or [])
        if not all(isinstance(one, dict) for one in units):
            raise source.wrong("unitTemplates is a list of maps", document)
        return Definition(version, pages, unit_templates=units, warnings=warnings)
    application = document.get("Application")
    if not isinstance(application, dict):
        raise source.wrong("Application section is required", document)
    return Definition(
        version,
        pages,
        cast("dict[str, object]", application),
        _table(source, "Templates"),
        {k: v for k, v in _table(source, "Parameters").items() if _PARAMETER.match(k)},
        _parameters_source(document.get("ParametersSource"), source),
        warnings=warnings,
    )


def _version(source: Source) -> tuple[int, int]:
    document = source.document
    if source.version is None:
        old = "Application" not in document and ("forms" in document or "unitTemplates" in document)
        return (1, 0) if old else LATEST
    found = _VERSION.match(source.version)
    if found is None:
        raise source.wrong(f"Version {source.version!r:.40} is no version, such as 2.4", document)
    version = int(found[1]), int(found[2] or 0)
    if version[0] == 1 or (version[0] == LATEST[0] and version <= LATEST):
        return version
    raise source.wrong(
        f"UI definitions of version {source.version} are not supported; use 1.x or 2.0 to"
        f" {LATEST[0]}.{LATEST[1]}",
        document,
    )


def _table(source: Source, name: str) -> dict[str, object]:
    given = source.document.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise source.wrong(f"{name} is a map", source.document)
    return {name_of(key): value for key, value in cast("dict[object, object]", given).items()}


def _parameters_source(given: object, source: Source) -> ParametersCall | None:
    if given is None:
        return None
    if not isinstance(given, str) or not re.fullmatch(r"[\w.]+", given):
        raise source.wrong("ParametersSource is Class.method, or method", source.document)
    class_name, _, method = given.rpartition(".")
    return ParametersCall(class_name, method)


def _pages(given: object, source: Source) -> tuple[Page, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise source.wrong("Forms is a list of pages", source.document)
    pages: dict[str, Page] = {}
    for item in cast("list[object]", given):
        one = cast("dict[object, object]", item)
        if not isinstance(item, dict) or len(one) != 1:
            raise source.wrong(
                "Each entry of Forms must be a map from one page name to its description", one
            )
        key, body = next(iter(one.items()))
        name = name_of(key)
        if name in pages or name == MANAGEMENT:
            raise source.wrong(f"There are two pages {name}", one)
        if body is not None and not isinstance(body, dict):
            raise source.wrong(f"Page {name} is a map of fields, validators and region", one)
        pages[name] = _page(name, cast("dict[object, object]", body or {}), source, one)
    return tuple(pages.values())


def _page(name: str, body: dict[object, object], source: Source, place: object) -> Page:
    fields: dict[str, FieldSource] = {}
    listed: object = body.get("fields") or []
    if not isinstance(listed, list):
        raise source.wrong(f"The fields of page {name} are a list", place)
    for one in cast("list[object]", listed):
        if not isinstance(one, dict):
            raise source.wrong(f"A field of page {name} is a map", place)
        made = FieldSource(
            name, cast("dict[object, object]", one), source.place(cast("object", one))
        )
        if made.name in fields:
            raise source.wrong(f"Page {name} has two fields {made.name}", cast("object", one))
        fields[made.name] = made
    try:
        validators = read_validators(body.get("validators"), f"Page {name}")
    except FormError as error:
        raise source.wrong(error.message, place) from error
    return Page(name, tuple(fields.values()), validators, body.get("region"))


def management_page(definition: Definition, default_name: str, *, may_stay: bool) -> Page | None:
    """The page with the application's name (B7); ``None`` when it has no fields."""
    fields: list[FieldSource] = []
    if definition.is_old:
        return None
    if definition.asks_name:
        fields.append(
            FieldSource(
                MANAGEMENT,
                {
                    "name": NAME,
                    "type": "string",
                    **translations("label", "Application name"),
                    "initial": default_name,
                    "maxLength": 80,
                    "regexpValidator": NAME_PATTERN,
                    "errorMessages": {"invalid": "Use only letters, digits, - and _"},
                    **translations("description", "The name of the application in its environment"),
                },
            )
        )
    if may_stay:
        fields.append(
            FieldSource(
                MANAGEMENT,
                {
                    "name": STAY,
                    "type": "boolean",
                    **translations("label", "Continue application adding"),
                    "initial": False,
                    **translations(
                        "description", "Stay in the catalog and add further applications"
                    ),
                },
            )
        )
    return Page(MANAGEMENT, tuple(fields)) if fields else None
