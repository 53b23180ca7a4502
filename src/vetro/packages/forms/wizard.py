"""The face of a form: describe it, submit pages, build its object (B5, B10).

A `Form` is immutable and shared; everything about one user's filling is in a `State`, which is JSON.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.definition import (
    MANAGEMENT,
    NAME,
    Definition,
    Page,
    ParametersCall,
    management_page,
    read_definition,
)
from vetro.packages.forms.describing import as_opened, described_field, described_page
from vetro.packages.forms.errors import PAGE, FormError, NoSuchPage, PageInvalid
from vetro.packages.forms.expressions import Budget, Ingredients, Scope
from vetro.packages.forms.fields import Field, FieldSource, clone_of
from vetro.packages.forms.model import State, build_object, region_of
from vetro.packages.forms.offers import KINDS, NO_OFFERS, Offers
from vetro.packages.forms.readers import NOTHING, Refused
from vetro.packages.forms.settling import or_null
from vetro.packages.forms.source import read_source
from vetro.packages.forms.version1 import build_document
from vetro.packages.forms.vocabulary import RESOURCES


@dataclass(frozen=True)
class Checked:
    """The values of a page that could be read, and the errors by field (of the page: ``page``)."""

    values: JsonObject
    errors: dict[str, list[str]]
    fields: dict[str, Field]


class Form:
    """A definition for one package, ready to be filled in.

    ``may_stay``: whether the management page asks to continue adding. ``version`` is the package's.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        package_name: str,
        title: str,
        version: str = "",
        may_stay: bool = False,
    ) -> None:
        self.definition = definition
        self.package_name = package_name
        self.title = title or package_name
        self.version = version
        last = management_page(definition, package_name.rsplit(".", 1)[-1], may_stay=may_stay)
        self.pages: tuple[Page, ...] = (*definition.pages, *([last] if last is not None else []))
        self._by_name = {page.name: page for page in self.pages}

    # -- parts

    @property
    def fields(self) -> list[FieldSource]:
        """All fields, in the order of the pages."""
        return [one for page in self.pages for one in page.fields]

    @property
    def warnings(self) -> list[str]:
        """What has no effect in the definition."""
        return list(self.definition.warnings)

    def page(self, name: str) -> Page:
        """A page by its name. Errors: ``NoSuchPage``."""
        found = self._by_name.get(name)
        if found is None:
            known = ", ".join(self._by_name) or "none"
            raise NoSuchPage(f"{self.package_name}'s form has no page {name}; pages: {known}")
        return found

    def next_page(self, name: str) -> str | None:
        """The page after this one; ``None`` after the last."""
        names = list(self._by_name)
        place = names.index(self.page(name).name) + 1
        return names[place] if place < len(names) else None

    def field(self, path: str) -> FieldSource:
        """A field by ``page.field``, or by its name where only one has it. Errors: ``FormError``."""
        page, _, name = path.rpartition(".")
        found = [one for one in self.fields if one.name == name and page in ("", one.page)]
        if len(found) == 1:
            return found[0]
        if found:
            paths = ", ".join(one.path for one in found)
            raise FormError(f"Several pages have a field {name}: give the page as well ({paths})")
        known = [one.name for one in self.fields]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; fields: {', '.join(known)}"
        raise FormError(f"{self.package_name} has no field {path}{hint}")

    def makes(self, class_name: str) -> bool:
        """Whether its object can be of a class; an expression may be any."""
        header: object = self.definition.application.get("?")
        given = cast("JsonObject", header).get("type") if isinstance(header, dict) else None
        if self.definition.is_old or not isinstance(given, str):
            return True
        return given.partition("/")[0].partition("@")[0] == class_name

    def kinds(self) -> set[str]:
        """The kinds of choices that its fields need (`vetro.packages.forms.KINDS`)."""
        types = [one.type for one in self.fields]
        if any(not isinstance(one, (str, list)) for one in types):
            return set(KINDS)  # a type that is an expression may be any
        return {RESOURCES[one] for one in types if isinstance(one, str) and one in RESOURCES}

    def classes(self) -> set[str]:
        """The classes that its object fields name."""
        scope = Scope({}, {}, Ingredients(), Budget())
        settled = [one.settle(scope) for one in self.fields]
        return {name for one in settled if one.kind == "object" for name in one.classes}

    def summary(self) -> list[JsonObject]:
        """The fields without choices: ``page, name, type, label, description, initial, required``."""
        scope = Scope({}, {}, Ingredients(), Budget())
        return [
            {
                "page": one.page,
                "name": one.name,
                "type": field.kind if field.kind != "object" else ", ".join(field.classes),
                "label": field.label(),
                "description": field.text("description"),
                "initial": field.get("initial"),
                "required": field.is_required,
            }
            for page in self.definition.pages
            for one in page.fields
            for field in (one.settle(scope),)
        ]

    def needs(self, language: str = "") -> JsonObject:
        """What a catalog says before the form is opened (dashboard-and-cli.md A3).

        ``sizes``: for each field that is a size of machines, its label and its limits; ``license``: the
        description of the field of that name, or null.
        """
        scope = Scope({}, {}, Ingredients(), Budget())
        settled = [one.settle(scope) for page in self.definition.pages for one in page.fields]
        sizes = [
            {"label": one.label(language), "limits": one.get("requirements")}
            for one in settled
            if one.kind == "flavor" and isinstance(one.get("requirements"), dict)
        ]
        texts = [one.text("description", language) for one in settled if one.name == "license"]
        return {"sizes": sizes, "license": next((text for text in texts if text), None)}

    # -- parameters (B8)

    @property
    def parameters_call(self) -> ParametersCall | None:
        """The static action whose result is merged over the parameters; called once per wizard."""
        call = self.definition.parameters_source
        if call is None or call.class_name:
            return call
        header = self.definition.application.get("?")
        type_ = cast("JsonObject", header).get("type") if isinstance(header, dict) else None
        own = type_.partition("/")[0] if isinstance(type_, str) else self.package_name
        return ParametersCall(own, call.method)

    def begin(self, found: object = None) -> State:
        """The state of a new wizard; ``found``: what ``parameters_call`` returned."""
        scope = Scope({}, {}, Ingredients(), Budget())
        values: JsonObject = {}
        for name, body in self.definition.parameters.items():
            values[name] = scope.value(body)
            scope.variables[name] = values[name]
        if isinstance(found, dict):
            values.update({str(key): value for key, value in cast("JsonObject", found).items()})
        return State(parameters=values)

    def scope(self, data: JsonObject, state: State) -> Scope:
        """What expressions of fields see."""
        if state.parameters is None:
            state.parameters = self.begin().parameters
        return Scope(data, dict(state.parameters or {}), Ingredients(), Budget())

    # -- describing

    def describe(
        self, state: State | None = None, offers: Offers = NO_OFFERS, language: str = ""
    ) -> JsonObject:
        """The form as JSON, with the values and choices of now (docs/forms.md)."""
        state = state or self.begin()
        data: JsonObject = {}
        scope = self.scope(data, state)
        pages = [
            self._described(page, number, state, offers, scope, language)
            for number, page in enumerate(self.pages, 1)
        ]
        first, second = self.definition.version
        return {
            "package": self.package_name,
            "package_version": self.version,
            "title": self.title,
            "version": f"{first}.{second}",
            "texts": "plain",
            "pages": pages,
            "next": self.first_open(state),
            "warnings": [*self.warnings, *offers.warnings],
        }

    def first_open(self, state: State) -> str | None:
        """The first page that has no values yet."""
        return next((page.name for page in self.pages if page.name not in state.pages), None)

    def describe_page(
        self, name: str, state: State, offers: Offers = NO_OFFERS, language: str = ""
    ) -> JsonObject:
        """One page as it is in ``describe``. Errors: ``NoSuchPage``."""
        wanted = self.page(name)
        data: JsonObject = {}
        scope = self.scope(data, state)
        for number, page in enumerate(self.pages, 1):
            if page is wanted:
                return self._described(page, number, state, offers, scope, language)
            data[page.name] = self._tentative(page, state, offers, scope)
        raise AssertionError(name)

    def _tentative(self, page: Page, state: State, offers: Offers, scope: Scope) -> JsonObject:
        """The values of a page: those submitted, or those it would be submitted with."""
        if page.name in state.pages:
            return dict(state.pages[page.name])
        entered = state.entered.get(page.name)
        return self._check(page, entered, state, offers, scope, defaults=True).values

    def _described(
        self, page: Page, number: int, state: State, offers: Offers, scope: Scope, language: str
    ) -> JsonObject:
        entered = state.entered.get(page.name)
        data = scope.data
        if entered is None and page.name in state.pages:
            entered = state.pages[page.name]
        checked = self._check(page, entered, state, offers, scope, defaults=True)
        data[page.name] = dict(state.pages.get(page.name, checked.values))
        fields: list[JsonObject] = []
        for one in page.fields:
            field = checked.fields[one.name]
            start = field.preselected(offers)
            given = entered is not None and one.name in entered
            value = (entered or {}).get(one.name) if given else checked.values.get(one.name, start)
            shown = described_field(field, start, value, offers, language)
            if state.opened is not None:
                as_opened(shown, field, is_kept=one.path in state.kept, language=language)
            fields.append(shown)
        return described_page(
            page.name, number, fields, checked.fields, language,
            region=region_of(page, scope), submitted=page.name in state.pages,
            problem=state.problem,
        )  # fmt: skip

    # -- submitting

    def check(
        self,
        page: str,
        raw: Mapping[str, object],
        state: State,
        offers: Offers = NO_OFFERS,
        *,
        field: str | None = None,
        defaults: bool = True,
    ) -> Checked:
        """Validate a page, or one of its fields, without storing anything. Errors: ``NoSuchPage``.

        ``defaults``: a field that ``raw`` lacks has the value it shows; otherwise it is empty, but a
        hidden one has its ``initial``.
        """
        wanted = self.page(page)
        data: JsonObject = {}
        scope = self.scope(data, state)
        if defaults:
            raw = _with_secrets(wanted, raw, state)
        for one in self.pages:
            if one is wanted:
                break
            data[one.name] = self._tentative(one, state, offers, scope)
        checked = self._check(wanted, raw, state, offers, scope, defaults=defaults, only=field)
        if state.problem is not None and field is None:
            checked.errors[PAGE] = [state.problem, *checked.errors.get(PAGE, [])]
        return checked

    def submit(
        self,
        page: str,
        raw: Mapping[str, object],
        state: State,
        offers: Offers = NO_OFFERS,
        *,
        defaults: bool = True,
    ) -> JsonObject:
        """Store the values of a page in ``state``. Errors: ``NoSuchPage``, ``PageInvalid``.

        What was entered stays in ``state`` also when it is refused.
        """
        if defaults:
            raw = _with_secrets(self.page(page), raw, state)
        checked = self.check(page, raw, state, offers, defaults=defaults)
        state.entered[page] = dict(raw)
        if checked.errors:
            state.pages.pop(page, None)
            raise PageInvalid(page, checked.errors)
        known = {**state.pages, page: checked.values}
        state.pages = {one.name: known[one.name] for one in self.pages if one.name in known}
        return checked.values

    def _check(
        self,
        page: Page,
        raw: Mapping[str, object] | None,
        state: State,
        offers: Offers,
        scope: Scope,
        *,
        defaults: bool,
        only: str | None = None,
    ) -> Checked:
        given = raw or {}
        was = (state.opened or {}).get(page.name, {})
        is_same = state.opened is not None
        idle: list[Field] = []
        values: JsonObject = {}
        errors: dict[str, list[str]] = {}
        fields: dict[str, Field] = {}
        scope.data[page.name] = values  # earlier fields of the same page are seen (B3)
        if only is not None and page.field(only) is None:
            raise FormError(f"Page {page.name} has no field {only}")
        for one in page.fields:
            field = fields[one.name] = one.settle(scope)
            if one.name in was and _is_as_opened(field, given, was[one.name], state, offers):
                values[one.name] = was[one.name]
                if one.path in state.inactive:
                    idle.append(field)
                continue
            is_same = False
            try:
                start = field.preselected(offers)
                shown = start if defaults else field.get("initial") if field.is_hidden else None
                entered = given.get(one.name, shown)
                value = field.read(entered, offers)
            except Refused as error:
                values[one.name] = None if field.is_enabled else given.get(one.name)
                if field.is_enabled:
                    errors[one.name] = [field.said(error.key, error.text)]
                continue
            except FormError as error:
                # The definition is wrong here: the page must not break (B4).
                values[one.name] = None
                errors[one.name] = [error.placed]
                continue
            values[one.name] = value
            if clone_of(one.name) in given:
                values[clone_of(one.name)] = given[clone_of(one.name)]
            if field.is_enabled:
                entries = given if one.name in given else {clone_of(one.name): value}
                found = self._wrong(field, value, scope, entries, offers)
                if found:
                    errors[one.name] = found
        # What a component has is never wrong; what comes to it by another field is checked.
        for field in idle if not is_same else ():
            found = self._wrong(field, values[field.name], scope, given, offers)
            if field.is_enabled and found:
                errors[field.name] = found
        if not errors and only is None and not is_same:
            said = [
                one.settle(scope).said("Validation Error occurred")
                for one in page.validators
                if one.test is not None and not self._holds(one.test, scope)
            ]
            if said:
                errors[PAGE] = said
        if only is not None:
            errors = {name: texts for name, texts in errors.items() if name == only}
        return Checked(values, errors, fields)

    @staticmethod
    def _wrong(
        field: Field, value: object, scope: Scope, entries: Mapping[str, object], offers: Offers
    ) -> list[str]:
        try:
            return field.errors(value, scope, entries, offers)
        except FormError as error:
            return [error.placed]

    def _holds(self, test: Any, scope: Scope) -> bool:
        """A page's condition; values of pages that are not filled yet are null (B1)."""
        later: JsonObject = {one.name: {} for one in self.pages if one.name not in scope.data}
        data = {**later, **scope.data} if later else scope.data
        return bool(or_null(test, scope, data))

    # -- building

    def build(
        self,
        state: State,
        offers: Offers = NO_OFFERS,
        *,
        name: str | None = None,
        encrypt: Callable[[str], str] | None = None,
        taken: Collection[str] | None = None,
    ) -> JsonObject:
        """The application's object (of version 1: its flat document). Errors: ``FormError``.

        Every page must have been submitted. ``name``: where the form does not ask for one. ``taken``:
        host names of other machines, in lower case, which numbered patterns leave out.
        """
        self.require_filled(state)
        made = Ingredients(encrypt=encrypt, taken=taken)
        return self.built(state, state.pages, offers, made, name=name)

    def require_filled(self, state: State) -> None:
        """Errors: ``FormError`` for a page without values."""
        missing = self.first_open(state)
        if missing is not None:
            raise FormError(f"Page {missing} is not filled yet")

    def built(
        self,
        state: State,
        values: Mapping[str, JsonObject],
        offers: Offers,
        ingredients: Ingredients,
        *,
        name: str | None = None,
    ) -> JsonObject:
        """The object that values of all pages make. Errors: ``FormError``."""
        if self.definition.is_old:
            return build_document(self.definition, values, offers, self.package_name)
        pages = {page: one for page, one in values.items() if page != MANAGEMENT}
        entered = values.get(MANAGEMENT, {}).get(NAME)
        parameters = state.parameters if state.parameters is not None else self.begin().parameters
        management = {MANAGEMENT: values[MANAGEMENT]} if MANAGEMENT in values else {}
        return build_object(
            self.definition, {**pages, **management}, parameters or {},
            name=entered or name, title=self.title, offers=offers, ingredients=ingredients,
        )  # fmt: skip

    def fill(
        self,
        values: Mapping[str, object],
        offers: Offers = NO_OFFERS,
        *,
        name: str | None = None,
        state: State | None = None,
    ) -> State:
        """Submit every page with values by ``field`` or ``page.field``; others keep what they show.

        Errors: ``FormError``; ``PageInvalid`` for the first page that is refused.
        """
        given: dict[str, JsonObject] = {}
        for path, value in values.items():
            one = self.field(path)
            given.setdefault(one.page, {})[one.name] = value
            if one.type == "password":
                given[one.page][clone_of(one.name)] = value
        if name is not None and self.definition.asks_name:
            given.setdefault(MANAGEMENT, {})[NAME] = name
        state = state or self.begin()
        for page in self.pages:
            self.submit(page.name, given.get(page.name, {}), state, offers)
        return state


def _with_secrets(page: Page, raw: Mapping[str, object], state: State) -> Mapping[str, object]:
    """Passwords are never shown again: those that were entered before stay unless they are given."""
    known = state.entered.get(page.name) or state.pages.get(page.name) or {}
    kept: JsonObject = {}
    for one in page.fields:
        if one.type == "password" and one.name not in raw and known.get(one.name):
            kept |= {k: known[k] for k in (one.name, clone_of(one.name)) if k in known}
    return {**kept, **raw} if kept else raw


def _is_as_opened(
    field: Field, given: Mapping[str, object], was: object, state: State, offers: Offers
) -> bool:
    """Whether a field of a component has what it had when the form was opened: that is never wrong."""
    if field.name not in given:
        return True
    entered = given[field.name]
    if field.source.path in state.kept:
        return entered in NOTHING or entered is False
    if entered == was or (entered in NOTHING and was in NOTHING):
        return True
    if field.kind == "password" and field.is_required and entered in NOTHING:
        return True
    try:
        return field.read(entered, offers) == field.read(was, offers)
    except (Refused, FormError):
        return False


MOST_KEPT = 200_000
"""The most characters of a UI definition that is kept: 128 large ones would fill the memory."""


@lru_cache(maxsize=128)
def _definition(_digest: str, text: str) -> Definition:
    return read_definition(read_source(text))


def load_form(
    text: str, *, package_name: str, title: str, version: str = "", may_stay: bool = False
) -> Form:
    """Read a UI definition; the same text of at most `MOST_KEPT` characters is read once.

    Errors: ``FormError`` with line and column.
    """
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        raise FormError("A UI definition is text: it has half of a surrogate pair", 1, 1) from error
    read = _definition if len(text) <= MOST_KEPT else _definition.__wrapped__
    definition = read(digest, text)
    return Form(
        definition, package_name=package_name, title=title, version=version, may_stay=may_stay
    )
