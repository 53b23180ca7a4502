"""``io.murano.User`` and ``io.murano.Project``: who deploys, and whose environment it is (§3.8)."""

from __future__ import annotations

from vetro.engine.services import services_of
from vetro.json_values import Json
from vetro.muranopl import CallContext, MuranoObject

DEFAULT_DOMAIN = "Default"


class User:
    """The native part of ``io.murano.User``."""

    @staticmethod
    def get_current(ctx: CallContext) -> MuranoObject:
        """Who asked for what runs now."""
        return _user(ctx, services_of(ctx).user_id)

    @staticmethod
    def get_environment_owner(ctx: CallContext) -> MuranoObject:
        """Who made the environment."""
        owner = ctx.session.info.environment_owner_user_id
        return _user(ctx, str(owner or services_of(ctx).user_id))


class Project:
    """The native part of ``io.murano.Project``."""

    @staticmethod
    def get_current(ctx: CallContext) -> MuranoObject:
        """The project that what runs now was asked for in."""
        info = ctx.session.info
        return _project(ctx, str(info.project_id or services_of(ctx).project_id))

    @staticmethod
    def get_environment_owner(ctx: CallContext) -> MuranoObject:
        """The project of the environment."""
        return _project(ctx, services_of(ctx).project_id)


def _user(ctx: CallContext, id_: str) -> MuranoObject:
    dropped = ("links", "enabled", "default_project_id")
    return _known(ctx, "user", id_, ("id", "name", "email"), dropped)


def _project(ctx: CallContext, id_: str) -> MuranoObject:
    return _known(
        ctx, "project", id_, ("id", "name", "description"), ("links", "parent_id", "enabled")
    )


def _known(
    ctx: CallContext, kind: str, id_: str, known: tuple[str, ...], dropped: tuple[str, ...]
) -> MuranoObject:
    """An identity service's map as an object: what the class does not declare is ``extra``."""
    read = getattr(services_of(ctx).people, kind)
    found: dict[str, Json] = ctx.effect(f"identity.{kind}", {"id": id_}, lambda: read(id_))
    values: dict[str, Json] = {key: found.get(key) for key in known}
    values["domain"] = found.get("domain") or found.get("domain_id") or DEFAULT_DOMAIN
    taken = {*known, *dropped, "domain", "domain_id"}
    values["extra"] = {key: value for key, value in found.items() if key not in taken}
    return ctx.session.new(f"io.murano.{kind.capitalize()}", None, **values)
