"""The component that a filled form makes: built, and put where it belongs (packages-and-forms.md B6, B9)."""

from __future__ import annotations

import asyncio
from typing import cast

from vetro.environments import flat
from vetro.environments.form_secrets import Encrypted, FormSecrets
from vetro.environments.model import list_index
from vetro.environments.sessions import SessionStore
from vetro.environments.wizard_forms import refused
from vetro.environments.wizard_models import carried_over
from vetro.http import BadRequest, Principal
from vetro.json_values import JsonObject
from vetro.packages.forms import Form, FormError, Offers, State
from vetro.storage import StoredRow


class Builder:
    """Makes objects of filled forms, and adds them to environments."""

    def __init__(self, sessions: SessionStore) -> None:
        self.sessions = sessions
        self.store = sessions.store
        self.database = sessions.database
        self.secrets = FormSecrets(self.database)

    async def build(
        self,
        principal: Principal,
        form: Form,
        state: State,
        offers: Offers,
        environment_id: str | None,
    ) -> JsonObject:
        """The object of a filled form, of the package's version; its secrets are stored before it.

        Errors: 400.
        """
        encrypted = Encrypted()
        try:
            model = await asyncio.to_thread(form.build, state, offers, encrypt=encrypted.encrypt)
        except FormError as error:
            raise refused(error) from error
        if encrypted.kept and environment_id is not None:
            async with self.database.read() as tx:
                await self.store.environment(tx, principal, environment_id, with_model=False)
        await self.secrets.keep(principal.project_id, environment_id, encrypted.kept)
        header = model.get("?")
        if isinstance(header, dict) and form.version and "/" not in str(model["?"].get("type")):
            # Without a version an object means a 0.x package (muranopl.md §5).
            cast("JsonObject", header).setdefault("classVersion", form.version)
        return model

    async def add(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str | None,
        model: JsonObject,
        row: StoredRow,
    ) -> JsonObject:
        """Add an object to the session of an environment, or put it in the place of the wizard's component.

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
                return _add_service(services, model, row)
            if row.component_id is None:
                services.append(model)
                return model
            place = list_index(services, row.component_id)
            services[place] = carried_over(services[place], model)
            return services[place]

        return await self.sessions.change_objects(principal, environment_id, session_id, change)


def _add_service(services: list[JsonObject], model: JsonObject, row: StoredRow) -> JsonObject:
    """Add a flat service, or put it in the place of the one whose form was opened again."""
    flat.name_domain(services, model)
    if row.component_id is None:
        flat.check_new(model, {row.package_name})
        services.append(model)
        return model
    place = list_index(services, row.component_id)
    services[place] = flat.remade(services[place], model)
    return services[place]
