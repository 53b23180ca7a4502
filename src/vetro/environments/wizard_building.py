"""The component that a filled form makes: built, and put where it belongs (packages-and-forms.md B6, B9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, cast

from vetro.environments import flat
from vetro.environments.form_secrets import Encrypted, FormSecrets
from vetro.environments.machine_names import machines
from vetro.environments.model import Json, list_index, object_id
from vetro.environments.sessions import SessionStore
from vetro.environments.wizard_forms import refused
from vetro.environments.wizard_hosts import HostNames, Hosts, hosts_of
from vetro.environments.wizard_offers import services_of_template
from vetro.http import BadRequest, Principal
from vetro.json_values import JsonObject
from vetro.packages.forms import Form, FormError, Offers, State, changed, host_fields
from vetro.storage import StoredRow


@dataclass(frozen=True)
class Filled:
    """A form with what was entered. ``taken``: host names, in lower case, that others have."""

    form: Form
    state: State
    offers: Offers
    taken: Collection[str] | None

    def changed(self, component: JsonObject, encrypt: Callable[[str], str]) -> JsonObject:
        """A component with what was entered since its form was opened. Errors: ``FormError``."""
        taken = self.taken or ()
        return changed(self.form, component, self.state, self.offers, encrypt=encrypt, taken=taken)


@dataclass(frozen=True)
class There:
    """A component as it is, and the host names of its environment."""

    component: JsonObject
    taken: Set[str]


class Builder:
    """Makes objects of filled forms, and adds them to environments."""

    def __init__(self, sessions: SessionStore) -> None:
        self.sessions = sessions
        self.store = sessions.store
        self.database = sessions.database
        self.secrets = FormSecrets(self.database)

    async def build(
        self, principal: Principal, filled: Filled, environment_id: str | None
    ) -> JsonObject:
        """The object of a filled form, of the package's version; its secrets are stored before it.

        Errors: 400.
        """
        encrypted = Encrypted()
        form = filled.form
        try:
            model = await asyncio.to_thread(
                form.build, filled.state, filled.offers,
                encrypt=encrypted.encrypt, taken=filled.taken,
            )  # fmt: skip
        except FormError as error:
            raise refused(error) from error
        await self._keep(principal, environment_id, encrypted)
        header = model.get("?")
        if isinstance(header, dict) and form.version and "/" not in str(model["?"].get("type")):
            # Without a version an object means a 0.x package (muranopl.md §5).
            cast("JsonObject", header).setdefault("classVersion", form.version)
        return model

    async def _keep(
        self, principal: Principal, environment_id: str | None, encrypted: Encrypted
    ) -> None:
        if encrypted.kept and environment_id is not None:
            async with self.database.read() as tx:
                await self.store.environment(tx, principal, environment_id, with_model=False)
        await self.secrets.keep(principal.project_id, environment_id, encrypted.kept)

    async def taken(
        self,
        principal: Principal,
        row: StoredRow,
        environment_id: str | None,
        session_id: str | None,
    ) -> Set[str] | None:
        """The host names that the place of a new component has already. Errors: 403, 404."""
        async with self.database.read() as tx:
            if environment_id is None:
                template_id = row.options.get("template_id")
                if template_id is None:
                    return None
                return host_names(await services_of_template(tx, principal, template_id))
            environment = await self.store.environment(tx, principal, environment_id)
            model = await self.store.model_to_read(tx, environment, session_id)
        return host_names(services_of(model)) | host_names(services_of(environment.model))

    async def hosts(
        self, principal: Principal, row: StoredRow, form: Form, session_id: str | None
    ) -> Hosts | None:
        """What a wizard says about host names; ``None``: nothing. Errors: 403, 404."""
        fields = host_fields(form.definition)
        if not fields or row.environment_id is None:
            return None
        async with self.database.read() as tx:
            environment = await self.store.environment(tx, principal, row.environment_id)
            model = await self.store.model_to_read(tx, environment, session_id)
        objects = cast("JsonObject", model.get("Objects") or {})
        return hosts_of(fields, objects, environment.model.get("Objects"), row.component_id)

    async def component(
        self, principal: Principal, row: StoredRow, environment_id: str, session_id: str | None
    ) -> There:
        """The component of a wizard as the session has it now. Errors: 403, 404."""
        async with self.database.read() as tx:
            environment = await self.store.environment(tx, principal, environment_id)
            model = await self.store.model_to_read(tx, environment, session_id)
        services = services_of(model)
        component = cast("JsonObject", services[list_index(services, row.component_id)])
        return There(component, host_names(services) | host_names(services_of(environment.model)))

    async def changed(
        self, principal: Principal, filled: Filled, component: JsonObject, environment_id: str
    ) -> tuple[JsonObject, Encrypted]:
        """A component with what was entered; the secrets of it are stored. Errors: 400."""
        encrypted = Encrypted()
        try:
            made = await asyncio.to_thread(filled.changed, component, encrypted.encrypt)
        except FormError as error:
            raise refused(error) from error
        await self._keep(principal, environment_id, encrypted)
        return made, encrypted

    async def change(
        self,
        principal: Principal,
        filled: Filled,
        there: There,
        environment_id: str,
        session_id: str | None,
    ) -> JsonObject:
        """Change the component in the session; when nothing was entered, nothing is written.

        The component as it is in the model. Errors: as a change of it.
        """
        made, encrypted = await self.changed(principal, filled, there.component, environment_id)
        if made == there.component:
            return made
        references = {text: reference for reference, text in encrypted.kept.items()}

        def change(objects: JsonObject) -> JsonObject:
            # It may have been changed since it was read: of that nothing is lost.
            services = cast("list[JsonObject]", objects.setdefault("services", []))
            place = list_index(services, str(object_id(there.component)))
            try:
                services[place] = filled.changed(services[place], references.__getitem__)
            except FormError as error:
                raise refused(error) from error
            if flat.is_flat(services[place]):
                flat.name_domain(services, services[place])
            return services[place]

        return await self.sessions.change_objects(principal, environment_id, session_id, change)

    async def add(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str | None,
        model: JsonObject,
        row: StoredRow,
    ) -> JsonObject:
        """Add an object to the session of an environment.

        The component as it is in the model. Errors: as a change of it.
        """
        is_service = flat.is_flat(model)
        if is_service and not await self.sessions.become_flat(
            principal, environment_id, session_id
        ):
            raise BadRequest(flat.NO_FLAT)

        def change(objects: JsonObject) -> JsonObject:
            services = cast("list[JsonObject]", objects.setdefault("services", []))
            if is_service:
                flat.name_domain(services, model)
                flat.check_new(model, {row.package_name})
            services.append(model)
            return model

        return await self.sessions.change_objects(principal, environment_id, session_id, change)


def services_of(model: Mapping[str, Any]) -> list[Json]:
    """The components of a model."""
    return cast("list[Json]", (model.get("Objects") or {}).get("services") or [])


def host_names(services: Iterable[Json]) -> Set[str]:
    """The names of the machines that components have."""
    return HostNames(one.name for one in machines({"services": list(services)}))
