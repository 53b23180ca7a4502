"""The component that a filled form makes: built, and put where it belongs (packages-and-forms.md B6, B9)."""

from __future__ import annotations

import asyncio
from typing import cast

from vetro.environments import flat
from vetro.environments.form_secrets import Encrypted, FormSecrets
from vetro.environments.model import Json, header, list_index
from vetro.environments.sessions import SessionStore
from vetro.environments.wizard_forms import refused
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


def carried_over(old: Json, new: Json) -> Json:
    """``new`` with the ids of ``old``'s objects at the same places and of the same classes.

    Properties that only ``old`` has stay; references to the new ids follow.
    """
    renamed: dict[str, str] = {}
    return _renamed(_merged(old, new, renamed), renamed)


def _class_of(block: dict[str, object]) -> str:
    return str(block.get("type")).partition("/")[0]


def _merged(old: Json, new: Json, renamed: dict[str, str]) -> Json:
    if isinstance(old, list) and isinstance(new, list):
        before = cast("list[Json]", old)
        return [
            _merged(before[place] if place < len(before) else None, one, renamed)
            for place, one in enumerate(cast("list[Json]", new))
        ]
    old_block, new_block = header(old), header(new)
    if old_block is None or new_block is None or _class_of(old_block) != _class_of(new_block):
        return new
    renamed[str(new_block.get("id"))] = str(old_block.get("id"))
    merged = {**cast("dict[str, Json]", old)}
    for key, value in cast("dict[str, Json]", new).items():
        merged[key] = _merged(cast("dict[str, Json]", old).get(key), value, renamed)
    merged["?"] = {**old_block, **new_block, "id": old_block.get("id")}
    return merged


def _renamed(value: Json, renamed: dict[str, str]) -> Json:
    if isinstance(value, str):
        return renamed.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(one, renamed) for key, one in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [_renamed(one, renamed) for one in cast("list[Json]", value)]
    return value
