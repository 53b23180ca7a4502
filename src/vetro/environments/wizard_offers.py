"""What the forms of a project can choose from: gathered for each wizard (packages-and-forms.md B4).

A source that fails offers nothing, and the form says so: a page never breaks by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import structlog
from sqlalchemy import or_, select

from vetro.catalog import Catalog
from vetro.environments.model import header, object_id
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import environments, templates
from vetro.http import NotFound, Principal
from vetro.packages.forms import Component, Form, Offers, PackageOffer
from vetro.storage import StoredRow, Transaction

log = structlog.get_logger("vetro.environments")


class Platform(Protocol):
    """What a back end offers to forms."""

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Lists by kind, and warnings about sources that failed.

        ``kinds``: of ``flavors, images, keypairs, azones, networks, volumes, security_groups, dns_zones``. A
        kind that the back end does not know is ``None``: its fields take any text. Items have
        ``id``, ``name`` and what the kind needs (docs/forms.md).
        """
        ...


class NoPlatform:
    """A back end that offers nothing: fields take any text."""

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Nothing is known."""
        return dict.fromkeys(kinds), ()


@dataclass(eq=False, repr=False)
class WizardOffers:
    """Gathers the choices of a form."""

    store: EnvironmentStore
    catalog: Catalog
    platform: Platform

    async def gather(
        self, principal: Principal, form: Form, environment_id: str | None
    ) -> dict[str, object]:
        """What the catalog, and the platform in the environment's region, offer for a form.

        As JSON: ``kinds``, ``packages``, ``warnings``.
        """
        asked = sorted(form.kinds())
        found: Mapping[str, Sequence[Mapping[str, object]] | None] = {}
        warnings: Sequence[str] = ()
        if asked:
            region = await self._region(principal, environment_id)
            found, warnings = await self.platform.offers(asked, principal, region)
        kinds = {
            kind: None if items is None else [dict(one) for one in items]
            for kind, items in found.items()
        }
        classes = sorted(form.classes())
        packages = await self.catalog.making(principal, classes)
        return {
            "kinds": kinds,
            "packages": packages,
            "classes": classes,
            "warnings": list(warnings),
        }

    async def _region(self, principal: Principal, environment_id: str | None) -> str | None:
        if environment_id is None:
            return None
        async with self.store.database.read() as tx:
            environment = await self.store.environment(tx, principal, environment_id)
        objects = cast("dict[str, object]", environment.model.get("Objects") or {})
        region = objects.get("region")
        return region if isinstance(region, str) else None

    async def of_wizard(
        self, tx: Transaction, principal: Principal, row: StoredRow, session_id: str | None
    ) -> Offers:
        """The choices of a wizard: what was gathered, and the components as they are now."""
        gathered: dict[str, Any] = row.offers
        kinds = cast("dict[str, Any]", gathered["kinds"])
        packages = cast("list[dict[str, Any]]", gathered["packages"])
        components: list[Component] | None = None  # without a target any id is taken
        names: list[str] = []
        services: list[object] | None = None
        template_id = row.options.get("template_id")
        if template_id is not None:
            services = await services_of_template(tx, principal, template_id)
        if row.environment_id is not None:
            environment = await self.store.environment(tx, principal, row.environment_id)
            model = await self.store.model_to_read(tx, environment, session_id)
            services = cast("list[Any]", (model.get("Objects") or {}).get("services") or [])
            if kinds.get("networks"):
                query = select(environments.c.name).where(
                    environments.c.tenant_id == environment.tenant_id
                )
                names = [str(one.name) for one in await tx.execute(query)]
        if services is not None:
            components = [
                component(one) for one in services
                if object_id(one) not in (None, row.component_id)
            ]  # fmt: skip
            if gathered.get("classes"):
                components = await self._with_ancestors(tx, principal, components)
        return Offers(
            kinds=kinds,
            components=components,
            packages=[
                PackageOffer(
                    one["id"], one["fully_qualified_name"], one["name"], one["version"],
                    tuple(one["classes"]),
                )
                for one in packages
            ],
            environments=names,
            warnings=gathered["warnings"],
        )  # fmt: skip

    async def _with_ancestors(
        self, tx: Transaction, principal: Principal, components: list[Component]
    ) -> list[Component]:
        """The components with what their classes inherit: a field of a parent class can name them."""
        found: dict[str, tuple[str, ...]] = {}
        for name in {one.class_name for one in components}:
            found[name] = await self.catalog.ancestors(tx, principal, name)
        return [replace(one, classes=found[one.class_name]) for one in components]


async def services_of_template(tx: Transaction, principal: Principal, id_: str) -> list[object]:
    """The components of a template that the caller may read. Errors: 404."""
    mine = or_(templates.c.tenant_id == principal.project_id, templates.c.is_public)
    query = select(templates.c.services).where(templates.c.id == id_, mine)
    row = (await tx.execute(query)).first()
    if row is None:
        raise NotFound(f"Environment template {id_} does not exist", type_="TemplateNotFound")
    return cast("list[object]", row.services)


def component(service: Any) -> Component:
    """An application or a flat service of a model, as fields name it."""
    block = header(service) or service
    name = block.get("name") or service.get("name") or ""
    return Component(str(object_id(service)), str(name), str(block.get("type") or ""))
