"""Names of things on the server, completed in a shell while they are typed."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


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
        from vetro.cli.connection import Connection

        # Options before the sub-command are not parsed yet for `meta`; the variables count.
        for option in ("url", "data_dir"):
            ctx.find_root().meta.setdefault(f"vetro.{option}", ctx.find_root().params.get(option))
        try:
            with Connection() as connection:
                answer: Any = connection.get(self.path, params=self.query)
        except click.ClickException:
            return []
        rows: list[dict[str, Any]] = answer[self.key] if self.key else answer
        names = sorted({str(row.get(self.label) or "") for row in rows})
        return [CompletionItem(name) for name in names if name and name.startswith(incomplete)]


ENVIRONMENT = NameOf("/v1/environments", "environments")
PACKAGE = NameOf(
    "/v1/catalog/packages", "packages", label="fully_qualified_name", catalog="true", limit="100"
)
CATEGORY = NameOf("/v1/catalog/categories", "categories")
IMAGE = NameOf("/compute/images")
