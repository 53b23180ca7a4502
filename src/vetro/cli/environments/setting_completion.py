"""The settings ``NAME=VALUE`` of applications, completed in a shell while they are typed."""

from __future__ import annotations

from collections import Counter

import click
from click.shell_completion import CompletionItem

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.name_completion import remember_address


def given(ctx: click.Context) -> JsonObject:
    """The arguments on the line: not parsed yet where the option before the cursor lacks its value."""
    names = [str(one.name) for one in ctx.command.params if isinstance(one, click.Argument)]
    parsed = {name: value for name, value in ctx.params.items() if value is not None}
    return {**dict(zip(names, ctx.args, strict=False)), **parsed}


class Setting(click.ParamType[str]):
    """The left side of ``NAME=VALUE``, completed from what the rest of the line names."""

    name = "setting"

    def known(self, connection: Connection, params: JsonObject) -> dict[str, str]:
        """The names there are, each with what it means. Errors: those of commands."""
        raise NotImplementedError

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin like this, with the sign that their values follow."""
        if "=" in incomplete:
            return []
        remember_address(ctx)
        try:
            with Connection() as connection:
                names = self.known(connection, given(ctx))
        except click.ClickException:
            return []  # a shell that cannot reach a server completes nothing
        return [
            CompletionItem(f"{name}=", help=names[name])
            for name in sorted(names)
            if name.startswith(incomplete)
        ]


class FormField(Setting):
    """A field of the form of the package on the line; of several pages with the page's name."""

    def known(self, connection: Connection, params: JsonObject) -> dict[str, str]:
        """The fields of the form."""
        from vetro.cli.catalog.package_lookup import find_package
        from vetro.packages import FormError, load_form

        if not params.get("package"):
            return {}
        row = find_package(connection, str(params["package"]))
        text = connection.request("GET", f"/v1/catalog/packages/{segment(row['id'])}/ui").text
        try:
            form = load_form(text, package_name=row["fully_qualified_name"], title=row["name"])
        except FormError:
            return {}
        fields = form.summary()
        often = Counter(one["name"] for one in fields)
        return {
            one["name"] if often[one["name"]] == 1 else f"{one['page']}.{one['name']}": str(
                one["label"] or one["type"]
            )
            for one in fields
        }


class Property(Setting):
    """A property of the class of the application on the line."""

    def known(self, connection: Connection, params: JsonObject) -> dict[str, str]:
        """The properties by the class, and those that the application has."""
        from vetro.cli.environments.editing import find_application
        from vetro.cli.environments.sessions import open_session_of

        if not params.get("environment") or not params.get("application"):
            return {}
        row = find_environment(connection, str(params["environment"]))
        # Completion only reads: it opens no session.
        session = open_session_of(connection, row, create_one=False)
        headers = {"X-Configuration-Session": session} if session else {}
        path = f"/v1/environments/{segment(row['id'])}/services"
        services: list[JsonObject] = connection.get(path, headers=headers)
        service = services[find_application(services, str(params["application"]))]
        names = dict.fromkeys((name for name in service if name != "?"), "")
        class_, _, version = str(service["?"]["type"]).partition("@")[0].partition("/")
        answer = connection.answer(
            "GET",
            f"/v1/schemas/{segment(class_)}",
            params={"classVersion": version} if version else {},
        )
        if answer.status < 400:
            schema: JsonObject = answer.json().get("") or {}
            properties: dict[str, JsonObject] = schema.get("properties") or {}
            for name, one in properties.items():
                names[name] = str(one.get("type") or "")
        names.pop("?", None)
        return names


FORM_FIELD = FormField()
PROPERTY = Property()
