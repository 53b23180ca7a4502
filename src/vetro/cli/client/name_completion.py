"""Names of things on the server, completed in a shell while they are typed."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


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
                answer: Any = connection.get(self.path, params=self.query)
        except click.ClickException:
            return []
        names = sorted({str(row.get(self.label) or "") for row in self.rows(answer)})
        return [CompletionItem(name) for name in names if name and name.startswith(incomplete)]

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """The things in an answer."""
        return answer[self.key] if self.key else answer


class NameOfVm(NameOf):
    """The alias or uuid of a VM: the service tells of them by their compute nodes."""

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        """The VMs of all nodes."""
        nodes: list[dict[str, Any]] = answer
        found: list[dict[str, Any]] = []
        for node in nodes:
            held: dict[str, dict[str, Any]] = node.get("vms") or {}
            found += held.values()
        return found


ENVIRONMENT = NameOf("/v1/environments", "environments")
PACKAGE = NameOf(
    "/v1/catalog/packages", "packages", label="fully_qualified_name", catalog="true", limit="100"
)
CATEGORY = NameOf("/v1/catalog/categories", "categories")
IMAGE = NameOf("/compute/images")
KEYPAIR = NameOf("/compute/keypairs")
FLAVOR = NameOf("/v1/flavors", "flavors")
SERVER = NameOf("/compute/servers", label="hostname")
VM = NameOfVm("/compute/servers", label="alias", extras="vms")
