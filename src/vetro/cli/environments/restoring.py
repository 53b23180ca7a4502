"""``vetro env restore``: the applications of an earlier deployment."""

from __future__ import annotations

import click

from vetro.cli.client.answers import Deployment, OpenSession
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.deployment_progress import SUCCESS
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.sessions import opened_sessions, remember_session
from vetro.cli.terminal.output import PrintingCommand, done, fail, word


@click.command(
    "restore", short_help="Take the applications of an earlier deployment.", cls=PrintingCommand
)
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment", required=False)
def restore(environment: str, deployment: str | None) -> None:
    """Give ENVIRONMENT the applications that it had with DEPLOYMENT.

    By default they are those of the last deployment that succeeded; when it was the last of all, of the one
    that succeeded before it. One that failed before anything was changed does not count.

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
        every: list[Deployment] = connection.get(f"{base}/deployments")["deployments"]
        shows = f"'vetro deployment list {word(row['name'])}' shows them."
        if deployment is None:
            deployed = [one for one in every if (one["action"] or {}).get("method") == "deploy"]
            made = [str(one["id"]) for one in deployed if one["state"] in SUCCESS]
            # After a failure the environment has something else than the last one that succeeded.
            if made and row["status"] != "deploy failure":
                made = made[1:]
            if not made:
                fail(f"{row['name']} has no deployment before this one that succeeded", shows)
            found = made[:1]
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
