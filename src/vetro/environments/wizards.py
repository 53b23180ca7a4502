"""Wizards: forms that users fill in, kept in the database (packages-and-forms.md B5, B10).

A wizard has the definition as it was when it was started, the values so far and the choices that were
shown last. So two wizards of one package do not meet, and a restart loses nothing. What a component was
made with is not kept: a wizard that changes it begins with what the model has (decision 0796).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from sqlalchemy import delete, insert, select, update

from vetro.catalog import Catalog, api_time
from vetro.environments import flat, states
from vetro.environments.model import new_id, object_id
from vetro.environments.sessions import SessionStore
from vetro.environments.static_calls import CallStore
from vetro.environments.tables import wizards
from vetro.environments.upgrades import Shelf
from vetro.environments.uses import pinned_packages
from vetro.environments.wizard_building import Builder, Filled, services_of
from vetro.environments.wizard_forms import (
    described_form,
    form_of,
    form_of_class,
    refused,
    wrong_form,
)
from vetro.environments.wizard_offers import WizardOffers, services_of_template
from vetro.http import BadRequest, Fault, NotFound, Principal
from vetro.json_values import JsonObject
from vetro.packages.forms import (
    Form,
    FormError,
    Offers,
    PageInvalid,
    State,
    all_in_language,
    load_form,
    reopened,
)
from vetro.storage import StoredRow, Transaction

KEPT_DAYS = 30
"""How long a wizard is kept that nobody uses."""
LONGEST_NAME = 128
ServiceForm = Callable[[str, str], Awaitable[tuple[str, str, str]]]


@dataclass(eq=False, repr=False)
class Wizards:
    """The wizards of all projects."""

    sessions: SessionStore
    catalog: Catalog
    calls: CallStore
    offers: WizardOffers
    service_form: ServiceForm | None = None

    def __post_init__(self) -> None:
        self.store = self.sessions.store
        self.database = self.sessions.database
        self.builder = Builder(self.sessions)

    # Rows

    async def _row(
        self, tx: Transaction, principal: Principal, id_: str, *, lock: bool = False
    ) -> StoredRow:
        query = select(wizards).where(
            wizards.c.id == id_,
            wizards.c.project_id == principal.project_id,
            wizards.c.user_id == principal.user_id,
        )
        row = (await tx.execute(query.with_for_update() if lock else query)).first()
        if row is None:
            raise NotFound(
                f"There is no wizard {id_}. A wizard goes with its environment, and when nobody has"
                f" used it for {KEPT_DAYS} days: start a new one",
                type_="WizardNotFound",
            )
        return row

    async def start(self, principal: Principal, body: JsonObject) -> JsonObject:
        """Start a wizard. Errors: 400 for a form that cannot be read, 403, 404."""
        component: JsonObject | None = None
        if body.get("component_id") is not None:
            component, package, form_text = await self._of_component(principal, body)
        elif body.get("service") is not None:
            package, form_text = await self._service(principal, body["service"])
        else:
            package = await self.catalog.show(principal, str(body["package"]))
            form_text = await self._text(principal, package)
        now = self.database.clock.now()
        values: JsonObject = {
            "id": new_id(),
            "project_id": principal.project_id,
            "user_id": principal.user_id,
            "package_id": package["id"],
            "package_name": package["fully_qualified_name"],
            "package_version": package["version"],
            "title": package["name"],
            "form": form_text,
            "environment_id": body.get("environment_id"),
            "component_id": body.get("component_id"),
            "options": {
                "quick": bool(body.get("quick")) or component is not None,
                "template_id": body.get("template_id"),
            },
            "created": now,
            "updated": now,
        }
        form = await asyncio.to_thread(form_of, values)
        state = await self._begin(principal, form)
        values["offers"] = await self.offers.gather(principal, form, values["environment_id"])
        if component is not None:
            state = await asyncio.to_thread(
                self._reopened, form, component, state, values["offers"]
            )
        values["state"] = state.as_json()
        async with self.database.transaction() as tx:
            if values["environment_id"] is not None:
                await self.store.environment(
                    tx, principal, values["environment_id"], with_model=False
                )
            if body.get("template_id") is not None:
                await services_of_template(tx, principal, body["template_id"])
            old = now - timedelta(days=KEPT_DAYS)
            await tx.execute(delete(wizards).where(wizards.c.updated < old))
            await tx.execute(insert(wizards).values(**values))
        return await self.show(
            principal, values["id"], body.get("session_id"), language=body.get("language") or ""
        )

    async def _service(self, principal: Principal, name: str) -> tuple[JsonObject, str]:
        """A service of the metadata repository as a package of that name, and its form (B9)."""
        if self.service_form is None:
            raise NotFound("There is no metadata repository here")
        if len(name) > LONGEST_NAME:
            raise BadRequest(f"Services with forms have names of at most {LONGEST_NAME} characters")
        title, version, form_text = await self.service_form(principal.project_id, name)
        about = {
            "id": "",
            "fully_qualified_name": name,
            "name": title[:80],
            "version": version[:64],
        }
        return about, form_text

    async def _text(
        self, principal: Principal, package: JsonObject, class_name: str | None = None
    ) -> str:
        """The form of a package, or one that is made of its class; ``class_name``: what it must make."""
        text = (await self.catalog.open_for(principal, package["id"])).ui or ""
        if text.strip() and class_name is not None:
            name, version = package["fully_qualified_name"], package["version"]
            try:
                form = await asyncio.to_thread(
                    load_form, text, package_name=name, title=name, version=version
                )
            except FormError as error:
                raise wrong_form(name, error) from error
            if not form.makes(class_name):
                text = ""
        if text.strip():
            return text
        return await form_of_class(self.calls, principal, package, class_name)

    async def _of_component(
        self, principal: Principal, body: JsonObject
    ) -> tuple[JsonObject, JsonObject, str]:
        """A component as the model has it now, its package in the version that it has, and the form.

        Errors: 404 when there is none.
        """
        id_, environment_id = str(body["component_id"]), body.get("environment_id")
        if environment_id is None:
            raise BadRequest("Say in environment_id where the component is")
        async with self.database.read() as tx:
            environment = await self.store.environment(tx, principal, environment_id)
            model = await self.store.model_to_read(tx, environment, body.get("session_id"))
        services = services_of(model)
        component = next((one for one in services if object_id(one) == id_), None)
        if component is None:
            raise NotFound(f"There is no component {id_} in the environment")
        if flat.is_flat(component):
            package, text = await self._service(principal, str(component.get("type")))
            return _with_domain(component, services), package, text
        usable = await self.catalog.usable(environment.tenant_id)
        found = Shelf(usable, pinned_packages(model)).class_of(component["?"])
        known = [
            one
            for one in usable
            if found and (one.full_name, one.version) == (found.package, found.version)
        ]
        if found is None or not known:
            of = "" if found is None else f" {found.package or found.name} {found.version or ''}"
            raise NotFound(
                f"The catalog has no package{of.rstrip()} for component {id_}: import it, or change the"
                " component's properties instead",
                type_="NoForm",
            )
        own = sorted(known, key=lambda one: one.owner_id != environment.tenant_id)[0]
        package = await self.catalog.show(principal, own.id)
        return component, package, await self._text(principal, package, found.name)

    @staticmethod
    def _reopened(form: Form, component: JsonObject, state: State, gathered: JsonObject) -> State:
        offers = Offers(kinds=cast("JsonObject", gathered["kinds"]))
        try:
            return reopened(form, component, state, offers)
        except FormError as error:
            raise wrong_form(form.package_name, error) from error

    async def _begin(self, principal: Principal, form: Form) -> State:
        """The first state; ``problem``: why the parameters of a static action are missing."""
        call, found, problem = form.parameters_call, None, None
        if call is not None:
            try:
                found = await self.calls.act(
                    principal, call.class_name or form.package_name, call.method, {},
                    package_name=form.package_name, class_version=form.version or "*",
                )  # fmt: skip
            except Fault as error:
                name = f"{call.class_name or form.package_name}.{call.method}"
                problem = (
                    f"The parameters of the form could not be read from {name}: {error.message}"
                )
        try:
            state = await asyncio.to_thread(form.begin, found)
        except FormError as error:
            raise wrong_form(form.package_name, error) from error
        state.problem = problem
        return state

    # Reading

    async def show(
        self,
        principal: Principal,
        id_: str,
        session_id: str | None,
        *,
        language: str = "",
        refresh: bool = False,
    ) -> JsonObject:
        """A wizard with its described form.

        ``refresh``: the platform is asked for its choices again, and the static action for parameters
        that it has failed to give.
        """
        if refresh:
            await self._refresh(principal, id_)
        row, form, state, offers = await self._opened(principal, id_, session_id)
        described = await described_form(form, state, offers, language)
        return {**view(row), "form": described}

    async def _refresh(self, principal: Principal, id_: str) -> None:
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_)
        form = await asyncio.to_thread(form_of, row)
        changes: JsonObject = {
            "offers": await self.offers.gather(principal, form, row.environment_id)
        }
        state = State.of_json(row.state)
        if state.problem is not None:
            begun = await self._begin(principal, form)
            state.parameters, state.problem = begun.parameters, begun.problem
            changes["state"] = state.as_json()
        async with self.database.transaction() as tx:
            await tx.execute(update(wizards).where(wizards.c.id == id_).values(**changes))

    async def definition(self, principal: Principal, id_: str) -> JsonObject:
        """The text of a wizard's form: the package's, or the one made of its class."""
        async with self.database.read() as tx:
            return {"text": (await self._row(tx, principal, id_)).form}

    async def show_page(
        self, principal: Principal, id_: str, page: str, session_id: str | None, language: str
    ) -> JsonObject:
        """One page, described."""
        _, form, state, offers = await self._opened(principal, id_, session_id)
        try:
            return await asyncio.to_thread(form.describe_page, page, state, offers, language)
        except FormError as error:
            raise refused(error) from error

    async def _opened(
        self, principal: Principal, id_: str, session_id: str | None
    ) -> tuple[StoredRow, Form, State, Offers]:
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_)
            offers = await self.offers.of_wizard(tx, principal, row, session_id)
        form = await asyncio.to_thread(form_of, row)
        state = State.of_json(row.state)
        hosts = await self.builder.hosts(principal, row, form, session_id)
        if hosts is not None and row.component_id is None:
            offers = await asyncio.to_thread(hosts.offered, form, state, offers)
        return row, form, state, offers

    async def listing(self, principal: Principal) -> list[JsonObject]:
        """The wizards of the caller that have made nothing yet, newest first, without their forms."""
        query = (
            select(wizards)
            .where(
                wizards.c.project_id == principal.project_id,
                wizards.c.user_id == principal.user_id,
                wizards.c.component_id.is_(None),
            )
            .order_by(wizards.c.updated.desc(), wizards.c.id)
            .limit(100)
        )
        async with self.database.read() as tx:
            return [view(row) for row in await tx.execute(query)]

    # Writing

    async def check(
        self,
        principal: Principal,
        id_: str,
        page: str,
        values: JsonObject,
        field: str | None,
        session_id: str | None,
        language: str,
    ) -> JsonObject:
        """Validate a page or one field of it; nothing is stored."""
        _, form, state, offers = await self._opened(principal, id_, session_id)

        def work() -> JsonObject:
            checked = form.check(page, values, state, offers, field=field)
            state.entered[page] = {**state.entered.get(page, {}), **values}
            state.pages.pop(page, None)
            described = form.describe_page(page, state, offers, language)
            said = all_in_language(checked.errors, language)
            return {"valid": not said, "errors": said, "page": described}

        try:
            return await asyncio.to_thread(work)
        except FormError as error:
            raise refused(error) from error

    async def submit(
        self,
        principal: Principal,
        id_: str,
        page: str,
        values: JsonObject,
        session_id: str | None,
        language: str,
    ) -> JsonObject:
        """Store the values of a page; the errors by field, or the next page."""
        row, form, _, offers = await self._opened(principal, id_, session_id)
        hosts = await self.builder.hosts(principal, row, form, session_id)
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, lock=True)
            state = State.of_json(row.state)

            def work() -> JsonObject:
                errors: dict[str, list[str]] = {}
                try:
                    given = form.submit(page, values, state, offers)
                    errors = {} if hosts is None else hosts.refused(page, given, state)
                    if errors:
                        state.pages.pop(page, None)
                except PageInvalid as error:
                    errors = all_in_language(error.errors, language)
                following = page if errors else form.next_page(page)
                shown = (
                    None
                    if following is None
                    else form.describe_page(following, state, offers, language)
                )
                return {
                    "valid": not errors,
                    "errors": errors,
                    "next": following,
                    "page": shown,
                    "complete": form.first_open(state) is None,
                }

            try:
                answer = await asyncio.to_thread(work)
            except FormError as error:
                raise refused(error) from error
            await tx.execute(
                update(wizards)
                .where(wizards.c.id == id_)
                .values(state=state.as_json(), updated=self.database.clock.now())
            )
        return answer

    async def build(self, principal: Principal, id_: str, session_id: str | None) -> JsonObject:
        """The object that the values make; of it only the secrets of ``encryptData()`` are stored.

        For a component whose form was opened again: the component with what was entered.
        """
        row, form, state, offers = await self._opened(principal, id_, session_id)
        environment_id = row.environment_id
        if state.opened is not None and environment_id is not None:
            there = await self.builder.component(principal, row, environment_id, session_id)
            filled = Filled(form, state, offers, there.taken)
            model, _ = await self.builder.changed(
                principal, filled, there.component, environment_id
            )
            return {"model": model}
        taken = await self.builder.taken(principal, row, environment_id, session_id)
        filled = Filled(form, state, offers, taken)
        return {"model": await self.builder.build(principal, filled, None)}

    async def finish(
        self, principal: Principal, id_: str, session_id: str | None, environment_id: str | None
    ) -> JsonObject:
        """Build the object and add it to the session of an environment, or change its component there.

        Errors: as a change of it. ``changed`` false: nothing was entered that the component had not.
        """
        row, form, state, offers = await self._opened(principal, id_, session_id)
        target = environment_id or row.environment_id
        if target is None:
            raise BadRequest("Say in environment_id which environment the component goes to")
        before: JsonObject | None = None
        if state.opened is None and row.component_id is not None:
            raise NotFound(
                f"Wizard {id_} is of an earlier release, which opened forms in another way: open the"
                " form of the component again",
                type_="WizardNotFound",
            )
        if state.opened is not None:
            there = await self.builder.component(principal, row, target, session_id)
            before = there.component
            filled = Filled(form, state, offers, there.taken)
            component = await self.builder.change(principal, filled, there, target, session_id)
        else:
            taken = await self.builder.taken(principal, row, target, session_id)
            filled = Filled(form, state, offers, taken)
            model = await self.builder.build(principal, filled, target)
            component = await self.builder.add(principal, target, session_id, model, row)
        # What is entered from now on changes the component.
        state.opened = state.pages
        async with self.database.transaction() as tx:
            await tx.execute(
                update(wizards)
                .where(wizards.c.id == id_)
                .values(
                    environment_id=target,
                    component_id=object_id(component),
                    state=state.as_json(),
                    updated=self.database.clock.now(),
                )
            )
        is_service = flat.is_flat(component)
        shown = flat.shown([component], states.PENDING)[0] if is_service else component
        return {"environment_id": target, "component": shown, "changed": component != before}

    async def remove(self, principal: Principal, id_: str) -> None:
        """Forget a wizard and what was entered in it."""
        async with self.database.transaction() as tx:
            await self._row(tx, principal, id_)
            await tx.execute(delete(wizards).where(wizards.c.id == id_))


def _with_domain(service: JsonObject, services: list[JsonObject]) -> JsonObject:
    """A flat service with the service that has its domain, as forms choose it (`flat.name_domain`)."""
    for one in services:
        is_directory = one.get("type") == "activeDirectory" and one is not service
        if is_directory and service.get("domain") and one.get("domain") == service["domain"]:
            return {**service, "domain": one.get("id")}
    return service


def view(row: StoredRow) -> JsonObject:
    """A wizard without its form."""
    return {
        "id": row.id,
        "package": {
            "id": row.package_id,
            "fully_qualified_name": row.package_name,
            "name": row.title,
            "version": row.package_version,
        },
        "environment_id": row.environment_id,
        "component_id": row.component_id,
        "created": api_time(row.created),
        "updated": api_time(row.updated),
    }
