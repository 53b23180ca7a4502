"""Names of things on the server, completed in a shell while they are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from vetro.cli.client.connection import Connection


def remember_address(ctx: click.Context) -> None:
    """Options before the sub-command are not parsed yet for `meta` while a shell completes."""
    root = ctx.find_root()
    for option in ("url", "data_dir"):
        root.meta.setdefault(f"vetro.{option}", root.params.get(option))


class NameOf(click.ParamType[str]):
    """The name or id of a thing. A shell that cannot reach a server completes nothing."""

    name = "name"

    def __init__(self, path: str, key: str = "", *, label: str = "name", **query: str) -> None:
        self.path = path
        self.key = key
        self.label = label
        self.query = query

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin like this."""
        from vetro.cli.client.connection import Connection

        remember_address(ctx)
        try:
            with Connection() as connection:
                answer = self.ask(connection)
        except click.ClickException:
            return []
        names = sorted({str(row.get(self.label) or "") for row in self.rows(answer)})
        return [CompletionItem(name) for name in names if name and name.startswith(incomplete)]

    def ask(self, connection: Connection) -> Any:
        """The service's answer that holds the names."""
        return connection.get(self.path, params=self.query)

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """The things in an answer."""
        return answer[self.key] if self.key else answer


class NameOfVm(NameOf):
    """The alias or uuid of a VM: the service lists them by compute node."""

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """The VMs of all nodes."""
        nodes: list[dict[str, Any]] = answer
        found: list[dict[str, object]] = []
        for node in nodes:
            held: dict[str, dict[str, Any]] = node.get("vms") or {}
            found += held.values()
        return found


class NameOfProject(NameOf):
    """The name or id of a project: those of all users if the caller may list them, else the caller's
    own."""

    def ask(self, connection: Connection) -> Any:
        """The answer of the identity service."""
        found = connection.try_identity("/projects")
        return found if found is not None else connection.identity("/auth/projects")


ENVIRONMENT = NameOf("/v1/environments", "environments")
TEMPLATE = NameOf("/v1/templates", "templates")
PACKAGE = NameOf(
    "/v1/catalog/packages", "packages", label="fully_qualified_name", catalog="true", limit="100"
)
CATEGORY = NameOf("/v1/catalog/categories", "categories")
IMAGE = NameOf("/compute/images")
KEYPAIR = NameOf("/compute/keypairs")
PROJECT = NameOfProject("", "projects")
FLAVOR = NameOf("/v1/flavors", "flavors")
SERVER = NameOf("/compute/servers", label="hostname")
VM = NameOfVm("/compute/servers", label="alias", extras="vms")
