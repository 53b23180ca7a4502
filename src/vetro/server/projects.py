"""The resources of projects in all rooms, which prevent a deletion or are removed with it."""

from __future__ import annotations

from dataclasses import dataclass

from vetro import catalog, environments, messaging, repository, stacks
from vetro.compute import ComputeService
from vetro.http import Principal
from vetro.identity import Names
from vetro.quotas import ProjectQuotas
from vetro.storage import Database, Transaction

#: The user who destroys a deleted project's resources: the service, for the user who forced it.
SERVICE_USER = "vetro"


@dataclass(eq=False, repr=False)
class Holdings:
    """``vetro.identity.ProjectHoldings`` of the whole service."""

    database: Database
    tasks: environments.TaskStore
    packages: catalog.Catalog
    service: ComputeService
    quotas: ProjectQuotas

    def __post_init__(self) -> None:
        self.uses = environments.EnvironmentUses(self.database)

    async def names(self, tx: Transaction, project_id: str) -> Names:
        """The names of a project's resources in every room."""
        found: dict[str, list[str]] = {}
        if own := await environments.names_of_project(tx, project_id):
            found["environments"] = own
        if stored := await catalog.packages_of_project(tx, project_id):
            found["packages"] = list(stored.values())
        return found | await self.service.projects.names(tx, project_id)

    async def remove(self, project_id: str, asked_by: str) -> None:
        """Destroy environments by ordinary tasks, then remove the other resources."""
        principal = Principal(
            SERVICE_USER,
            f"Vetro (deletion of the project, asked for by {asked_by})",
            project_id,
            roles=frozenset({"admin"}),
        )
        await environments.destroy_of_project(self.tasks, principal)
        async with self.database.read() as tx:
            if await environments.names_of_project(tx, project_id):
                return  # environments need the packages and the networks until they are destroyed
        await catalog.delete_of_project(self.packages, principal, self.uses)
        await self.service.projects.remove(project_id)

    async def clear(self, tx: Transaction, project_id: str) -> None:
        """Remove what ``names`` does not count: routers, templates, forms, quotas, stacks, definitions."""
        await environments.forget_of_project(tx, project_id)
        await self.service.projects.clear(tx, project_id)
        await self.quotas.forget_of_project(tx, project_id)
        await stacks.forget_of_project(tx, project_id)
        await messaging.forget_of_project(tx, project_id)
        await repository.forget_project(tx, project_id)
