"""A component's form, opened again: with what the component has now, and to change only what is entered.

    state = reopened(form, component, form.begin())
    form.submit("main", {"count": "3"}, state, offers)   # other pages have their values already
    component = changed(form, component, state)          # the same one, when nothing was entered

The component is the only truth: what the form was filled with before is not kept anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from vetro.json_values import JsonObject
from vetro.packages.forms.changing import patched
from vetro.packages.forms.errors import FormError
from vetro.packages.forms.expressions import KEPT, Ingredients, Scope, fields_of
from vetro.packages.forms.fields import FieldSource
from vetro.packages.forms.model import State
from vetro.packages.forms.offers import NO_OFFERS, Offers
from vetro.packages.forms.readers import NOTHING, Refused
from vetro.packages.forms.reading import Path, Readings, read_back
from vetro.packages.forms.source import Marked
from vetro.packages.forms.version1 import read_document
from vetro.packages.forms.vocabulary import BOOLEANS
from vetro.packages.forms.wizard import Form


def reopened(
    form: Form, component: Mapping[str, object], state: State, offers: Offers = NO_OFFERS
) -> State:
    """The state of a form with what a component has now; all its pages count as submitted.

    ``state``: of ``form.begin()``. A field that has no part in the component shows what it shows at
    first. Errors: ``FormError``.
    """
    data: JsonObject = {}
    scope = form.scope(data, state)
    if form.definition.is_old:
        found = read_document(form.definition, component, offers, scope)
        read = Readings(found, set(), set())
    else:
        read = read_back(form.definition, form.pages, component, state.parameters or {})
    conditional = _conditional(form)
    for page in form.pages:
        values: JsonObject = {}
        data[page.name] = values
        for one in page.fields:
            path = (page.name, one.name)
            if path in read.values or path in read.kept:
                values[one.name] = read.values.get(path)
                continue
            field = one.settle(scope)
            try:
                values[one.name] = field.read(field.preselected(offers), offers)
            except (Refused, FormError):
                values[one.name] = None
            if path not in read.inactive:
                _switch(one, values, conditional.get(path, []), read.values, scope)
    opened = cast("dict[str, dict[str, Any]]", deepcopy(data))
    return State(
        pages=deepcopy(opened),
        parameters=state.parameters,
        problem=state.problem,
        opened=opened,
        kept=sorted(map(".".join, read.kept)),
        inactive=sorted(map(".".join, read.inactive)),
    )


def _conditional(form: Form) -> dict[Path, list[FieldSource]]:
    """By each field, those that are there, or can be filled in, by its value."""
    found: dict[Path, list[FieldSource]] = {}
    for one in form.fields:
        for name in ("enabled", "enabled_if", "visible"):
            condition = one.attributes.get(name)
            for path in fields_of(condition.tree) if isinstance(condition, Marked) else ():
                found.setdefault(path, []).append(one)
    return found


def _switch(
    source: FieldSource,
    values: JsonObject,
    dependent: Sequence[FieldSource],
    found: Mapping[Path, object],
    scope: Scope,
) -> None:
    """Give a field that only decides which others are there the value by which those with values are."""
    field = source.settle(scope)
    several = [False, True] if field.kind in BOOLEANS else [one.value for one in field.own_choices]
    filled = [one for one in dependent if found.get((one.page, one.name)) not in (*NOTHING, False)]
    best, most = values[source.name], -1
    for value in [best, *several] if filled else []:
        values[source.name] = value
        count = sum(one.settle(scope).is_enabled for one in filled)
        if count > most:
            best, most = value, count
    values[source.name] = best


def changed(
    form: Form,
    component: JsonObject,
    state: State,
    offers: Offers = NO_OFFERS,
    *,
    encrypt: Callable[[str], str] | None = None,
    taken: Collection[str] = (),
) -> JsonObject:
    """The component with what was entered since its form was opened; ``component`` is not changed.

    ``encrypt``, ``taken``: as in ``Form.build``; ``taken`` has the component's own names, too.
    Errors: ``FormError``.
    """
    form.require_filled(state)
    opened = state.opened or {}
    if state.pages == opened:
        return component
    generated: dict[object, Any] = {}
    before = form.built(
        state,
        _with_kept(opened, opened, state.kept),
        offers,
        Ingredients(encrypt=_kept_secret, generated=generated, tolerant=True),
    )

    def secret(text: str) -> str:
        if text.startswith(KEPT):
            return text
        if encrypt is None:
            raise FormError("encryptData() needs a key manager to keep secrets in")
        return encrypt(text)

    values = _with_kept(state.pages, opened, state.kept)
    is_partly_known = any(KEPT in str(one) for page in values.values() for one in page.values())
    after = form.built(
        state,
        values,
        offers,
        Ingredients(
            encrypt=secret,
            generated=generated,
            tolerant=is_partly_known,
            taken=taken,
            hosts=_hosts(form, component, state),
        ),
    )
    labels = {path: form.field(path).attributes.get("label") or path for path in state.kept}
    return patched(
        before,
        after,
        component,
        generated=generated.values(),
        labels={path: str(one) for path, one in labels.items()},
    )


def _hosts(form: Form, component: JsonObject, state: State) -> dict[tuple[str, int], str]:
    """The host names that the component has, by pattern and number: a pattern that is entered where a name
    of it is keeps that name, and its machine."""
    if form.definition.is_old:
        return {}
    read = read_back(form.definition, form.pages, component, state.parameters or {})
    made: dict[tuple[str, int], set[str]] = {}
    for (page, name), known in read.hosts.items():
        pattern: object = state.pages.get(page, {}).get(name)
        if not isinstance(pattern, str) or "#" not in pattern:
            continue
        fitting = re.compile("[0-9]+".join(map(re.escape, pattern.split("#"))), re.IGNORECASE)
        for number, host in known:
            if isinstance(number, int) and fitting.fullmatch(host):
                made.setdefault((pattern, number), set()).add(host)
    # Of several names of one number, which only others can have given, none is that of the number.
    return {key: names.pop() for key, names in made.items() if len(names) == 1}


def _kept_secret(text: str) -> str:
    """Stands for the reference that the component has: it is never stored."""
    return f"{KEPT}secret"


def _with_kept(
    pages: Mapping[str, JsonObject], opened: Mapping[str, JsonObject], kept: Collection[str]
) -> dict[str, JsonObject]:
    """Values in which what the component keeps has a mark of its own."""
    return {
        page: {
            name: f"{KEPT}{page}.{name}"
            if f"{page}.{name}" in kept and value == opened[page][name]
            else value
            for name, value in values.items()
        }
        for page, values in pages.items()
    }
