"""What the forms of a project can choose from: gathered for each wizard (packages-and-forms.md B4).

A source that fails offers nothing, and the form says so: a page never breaks by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, cast

import structlog
from sqlalchemy import Row, select

from vetro.catalog import Catalog
from vetro.environments.model import header, object_id
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import environments
from vetro.http import Principal
from vetro.packages.forms import Component, Form, Offers, PackageOffer
from vetro.storage import Transaction

log = structlog.get_logger("vetro.environments")


class Platform(Protocol):
    """What a back end offers to forms."""

    async def offers(
        self, kinds: Collection[str], project_id: str, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Lists by kind, and warnings about sources that failed.

        ``kinds``: of ``images, keypairs, azones, networks, volumes, security_groups, dns_zones``. A
        kind that the back end does not know is ``None``: its fields take any text. Items have
        ``id``, ``name`` and what the kind needs (docs/forms.md).
        """
        ...


class NoPlatform:
    """A back end that offers nothing: fields take any text."""

    async def offers(
        self, kinds: Collection[str], project_id: str, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Nothing is known."""
        return dict.fromkeys(kinds), ()


class WizardOffers:
    """Gathers the choices of a form."""

    def __init__(
        self,
        store: EnvironmentStore,
        catalog: Catalog,
        platform: Platform,
        flavors: Mapping[str, Mapping[str, int]] | None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.platform = platform
        self.flavors = flavors

    async def gather(self, principal: Principal, form: Form, region: str | None) -> dict[str, Any]:
        """What the platform and the catalog offer for a form, as JSON: ``kinds``, ``packages``,
        ``warnings``."""
        wanted = form.kinds()
        kinds: dict[str, Any] = {}
        if "flavors" in wanted and self.flavors is not None:
            kinds["flavors"] = [
                {"value": name, "label": name, **size} for name, size in self.flavors.items()
            ]
        asked = sorted(wanted - {"flavors"})
        found: Mapping[str, Sequence[Mapping[str, Any]] | None] = {}
        warnings: Sequence[str] = ()
        if asked:
            found, warnings = await self.platform.offers(asked, principal.project_id, region)
        kinds.update(
            {
                kind: None if items is None else [dict(one) for one in items]
                for kind, items in found.items()
            }
        )
        packages = await self.catalog.declaring(principal, sorted(form.classes()))
        return {"kinds": kinds, "packages": packages, "warnings": list(warnings)}

    async def of_wizard(
        self, tx: Transaction, principal: Principal, row: Row[Any], session_id: str | None
    ) -> Offers:
        """The choices of a wizard: what was gathered, and the components as they are now."""
        gathered: dict[str, Any] = row.offers
        kinds = cast("dict[str, Any]", gathered["kinds"])
        packages = cast("list[dict[str, Any]]", gathered["packages"])
        components: list[Component] | None = None  # without an environment any id is taken
        names: list[str] = []
        if row.environment_id is not None:
            environment = await self.store.environment(tx, principal, row.environment_id)
            model = await self.store.model_to_read(tx, environment, session_id)
            services = cast("list[Any]", (model.get("Objects") or {}).get("services") or [])
            components = [
                component(one) for one in services
                if object_id(one) not in (None, row.component_id)
            ]  # fmt: skip
            if kinds.get("networks"):
                query = select(environments.c.name).where(
                    environments.c.tenant_id == environment.tenant_id
                )
                names = [str(one.name) for one in await tx.execute(query)]
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


def component(service: Any) -> Component:
    """An application or a flat service of a model, as fields name it."""
    block = header(service) or service
    name = block.get("name") or service.get("name") or ""
    return Component(str(object_id(service)), str(name), str(block.get("type") or ""))
