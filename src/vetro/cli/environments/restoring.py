"""``vetro env restore``: the applications of an earlier deployment."""

from __future__ import annotations

from typing import cast

import click

from vetro.cli.client.answers import JsonObject, OpenSession
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.sessions import opened_sessions, remember_session
from vetro.cli.terminal.output import PrintingCommand, done, fail, word


@click.command(
    "restore", short_help="Take the applications of an earlier deployment.", cls=PrintingCommand
)
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment", required=False)
def restore(environment: str, deployment: str | None) -> None:
    """Give ENVIRONMENT the applications that it had with DEPLOYMENT, by default the one before the last.

    Deployments that were refused because something would be lost do not count.

    They wait in your session, as other changes do: 'env changes' shows what is different, 'env deploy' makes
    it so. What was on machines that are gone does not come back.

    \b
    Example:
      vetro deployment list web
      vetro env restore web 0b6f4a
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        base = f"/v1/environments/{row['id']}"
        every: list[JsonObject] = connection.get(f"{base}/deployments")["deployments"]
        shows = f"'vetro deployment list {word(row['name'])}' shows them."
        if deployment is None:
            made = [one for one in every if _has_changed(one)]
            if len(made) < 2:
                fail(f"{row['name']} has no deployment before the last one", shows)
            found = [str(made[1]["id"])]
        else:
            found = [str(one["id"]) for one in every if str(one["id"]).startswith(deployment)]
        if len(found) != 1:
            said = "several deployments" if found else "no deployment"
            fail(f"{row['name']} has {said} {deployment}", shows)
        path = f"{base}/deployments/{segment(found[0])}/restore"
        opened: OpenSession = connection.request("POST", path).json()
        remember_session(row, opened["id"])
        held = next(one for one in opened_sessions(connection, row) if one["id"] == opened["id"])
    what = held["summary"] or "nothing is different"
    done(
        f"As with deployment {found[0]}: {what}. 'vetro env deploy {word(row['name'])}' makes it so",
        session=opened["id"],
        changes=held["changes"],
    )


def _has_changed(deployment: JsonObject) -> bool:
    """Whether it gave the environment its applications; one that was refused did not."""
    ended: JsonObject = deployment.get("result") or {}
    result = ended.get("result")
    refused = isinstance(result, dict) and bool(cast("JsonObject", result).get("losses"))
    action: JsonObject = deployment["action"] or {}
    return action.get("method") == "deploy" and not refused
